// What other threads ask of the engine: everything here only reads what is published or posts to the inbox.

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/inference/engine.h"

namespace tandem::inference {

ServedState Engine::served() const {
  MutexLock lock(mutex_);
  return served_;
}

Occupancy Engine::occupancy() const {
  MutexLock lock(mutex_);
  return occupancy_;
}

absl::StatusOr<std::shared_ptr<const ServedModel>> Engine::WaitServed(WeightsVersion wanted,
                                                                      absl::Duration timeout) const {
  const absl::Duration deadline = clock_.Now() + timeout;
  MutexLock lock(mutex_);
  while (true) {
    const bool same_set = served_.model != nullptr && served_.model->set_id == wanted.set_id;
    if (same_set && served_.version == wanted.version) return served_.model;
    const absl::Duration left = deadline - clock_.Now();
    if (stopping_ || left <= absl::ZeroDuration() || (same_set && served_.version > wanted.version)) break;
    changed_.WaitFor(mutex_, left);
  }
  if (served_.model == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("set ", wanted.set_id, " is not served: ", served_.status.message()));
  }
  return absl::FailedPreconditionError(absl::StrCat("asked for version ", wanted.version, " of set ", wanted.set_id,
                                                    ", served is version ", served_.version, " of set ",
                                                    served_.model->set_id, " ('", served_.model->name, "')"));
}

absl::StatusOr<uint64_t> Engine::Submit(Request request) {
  MutexLock lock(mutex_);
  if (stopping_) return absl::UnavailableError("the service is shutting down");
  if (served_.model == nullptr) return served_.status;
  if (occupancy_.waiting + submitted_ >= options_.max_queue) {
    metrics_.Refused();
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", options_.max_queue, " requests wait already; try again later"));
  }
  const uint64_t id = ++last_id_;
  request.id = id;
  ++submitted_;
  inbox_.emplace_back([this, request = std::move(request)]() mutable { Add(std::move(request)); });
  changed_.NotifyAll();
  return id;
}

void Engine::Abort(uint64_t id) {
  Post([this, id] {
    if (host_ != nullptr && host_->generator() != nullptr) {
      host_->generator()->End(id, absl::CancelledError("the caller is gone"));
    }
  });
}

absl::Status Engine::Load(PreparedLoad load, absl::Duration timeout) {
  if (Stopping()) return absl::UnavailableError("the service is shutting down");
  auto ticket = std::make_shared<Ticket>();
  Post([this, load = std::move(load), ticket] {
    if (load_) return ticket->Done(absl::FailedPreconditionError(absl::StrCat("'", load_->dir, "' is being loaded")));
    if (session_ == nullptr) return ticket->Done(absl::UnavailableError("the arbiter can not be reached; try again"));
    if (const absl::Status status = host_->MayLoadNow(); !status.ok()) return ticket->Done(status);
    load_ = load;
    load_ticket_ = ticket;
  });
  return ticket->Wait(timeout, clock_);
}

absl::Status Engine::Release(absl::Duration timeout) {
  if (Stopping()) return absl::UnavailableError("the service is shutting down");
  auto ticket = std::make_shared<Ticket>();
  Post([this, ticket] {
    own_dir_.clear();
    if (host_ != nullptr) host_->Release();
    Publish();
    ticket->Done(absl::OkStatus());
  });
  return ticket->Wait(timeout, clock_);
}

void Engine::Post(Command command) {
  MutexLock lock(mutex_);
  inbox_.push_back(std::move(command));
  changed_.NotifyAll();
}

}  // namespace tandem::inference
