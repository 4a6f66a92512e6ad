#include "services/inference/engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::inference {
namespace {

// The loop looks around this often without being woken: readers that are gone, an arbiter that is gone.
constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr absl::Duration kAdoptionRetry = absl::Seconds(1);
constexpr absl::Duration kLongestRetry = absl::Seconds(1);

}  // namespace

Engine::Engine(EngineOptions options, Kernels& kernels, const Clock& clock, InferenceMetrics& metrics)
    : options_(std::move(options)), kernels_(kernels), clock_(clock), metrics_(metrics), own_dir_(options_.model) {
  thread_ = std::thread([this] { Run(); });
}

Engine::~Engine() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool Engine::Stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void Engine::Sleep(absl::Duration longest) {
  MutexLock lock(mutex_);
  if (!stopping_ && inbox_.empty()) changed_.WaitFor(mutex_, longest);
}

void Engine::DrainInbox() {
  while (true) {
    Command command;
    {
      MutexLock lock(mutex_);
      if (inbox_.empty()) return;
      command = std::move(inbox_.front());
      inbox_.pop_front();
    }
    command();
  }
}

void Engine::Add(Request request) {
  const std::shared_ptr<RequestSink> sink = request.sink;
  Generator* generator = host_ == nullptr ? nullptr : host_->generator();
  absl::Status status;
  if (generator == nullptr) {
    status = absl::UnavailableError("no model is served any more; try again later");
  } else if (host_->served().model->set_id != request.set_id) {
    status = absl::UnavailableError(
        absl::StrCat("the served model is now '", host_->served().model->name, "'; send the request again"));
  } else {
    status = generator->Add(std::move(request));
  }
  if (!status.ok()) sink->OnDone(status, absl::ZeroDuration());
  {
    MutexLock lock(mutex_);
    --submitted_;
  }
  Publish();
}

void Engine::Publish() {
  const Generator* generator = host_ == nullptr ? nullptr : host_->generator();
  metrics_.Occupancy(generator);
  MutexLock lock(mutex_);
  if (host_ != nullptr) {
    const bool changed = served_.model != host_->served().model || served_.version != host_->served().version;
    served_ = host_->served();
    if (changed) changed_.NotifyAll();
  } else {
    served_ = {.model = nullptr, .status = absl::UnavailableError("the arbiter can not be reached; try again later")};
  }
  metrics_.WeightsVersion(served_.version);
  occupancy_ = {};
  if (generator == nullptr) return;
  const BatchScheduler& scheduler = generator->scheduler();
  occupancy_ = {.running = scheduler.running(),
                .waiting = scheduler.waiting_requests(),
                .kv_blocks = scheduler.blocks().total(),
                .kv_blocks_used = scheduler.blocks().used()};
}

bool Engine::Connected() {
  if (session_ != nullptr && session_->arbiter_gone()) {
    LOG_ERROR("the arbiter is gone, and the pool with it: dropping everything and connecting again");
    Disconnect();
  }
  if (session_ != nullptr) return true;
  tenant::SessionOptions options;
  options.run_dir = options_.run_dir;
  options.tenant = kTenant;
  options.longest_unit = options_.longest_unit;
  options.connect_timeout = absl::Seconds(1);
  options.on_set_changed = [this](const tenant::SetView&) { Post([this] { sets_changed_ = true; }); };
  options.on_unmap = [this](uint64_t id) {
    Post([this, id] {
      if (host_ != nullptr) host_->Unmap(id);
      Publish();
    });
  };
  absl::StatusOr<std::unique_ptr<tenant::Session>> session = tenant::Session::Connect(std::move(options));
  absl::Status status = session.status();
  if (status.ok()) {
    session_ = *std::move(session);
    host_ = std::make_unique<ModelHost>(*session_, kernels_, clock_, options_.kv_bytes,
                                        GeneratorLimits{.max_batch = options_.max_batch,
                                                        .prefill_tokens = options_.prefill_tokens,
                                                        .max_waiting = options_.max_queue});
    status = host_->Init();
  }
  if (!status.ok()) {
    if (status != connect_error_) LOG_WARN("no session with the arbiter, trying again: {}", status.ToString());
    connect_error_ = status;
    Disconnect();
    DrainInbox();
    Sleep(retry_);
    retry_ = std::min(2 * retry_, kLongestRetry);
    return false;
  }
  LOG_INFO("attached to the arbiter in {}", options_.run_dir);
  retry_ = absl::Milliseconds(100);
  connect_error_ = absl::OkStatus();
  waiter_ = std::make_unique<TurnWaiter>(*session_, [this] { Post([] {}); });  // wakes the loop
  sets_changed_ = true;
  if (own_dir_.empty() || load_) return true;
  absl::StatusOr<PreparedLoad> load = PrepareLoad(own_dir_);
  if (load.ok()) {
    load_ = *std::move(load);
  } else {
    LOG_ERROR("'{}' not loaded: {}", own_dir_, load.status().ToString());
  }
  return true;
}

void Engine::Disconnect() {
  if (host_ != nullptr && host_->generator() != nullptr) {
    host_->generator()->EndAll(absl::UnavailableError("the arbiter is gone, and the pool with it; try again later"));
  }
  if (load_ticket_ != nullptr) load_ticket_->Done(absl::UnavailableError("the arbiter is gone; try again later"));
  load_ticket_.reset();
  load_.reset();
  asked_at_.reset();
  waiter_.reset();  // yields a turn that it still has
  host_.reset();
  session_.reset();
  Publish();
}

bool Engine::HasWork() const {
  return load_.has_value() || (host_->generator() != nullptr && !host_->generator()->idle());
}

void Engine::Run() {
  while (!Stopping()) {
    if (!Connected()) continue;
    DrainInbox();
    // What could not be served (no room for the workspace, say) is tried again now and then.
    if (host_->served().model == nullptr && clock_.Now() >= next_adoption_) sets_changed_ = true;
    if (std::exchange(sets_changed_, false)) {
      host_->Adopt(session_->Sets());
      next_adoption_ = clock_.Now() + kAdoptionRetry;
    }
    if (host_->serves_job() && !load_) own_dir_.clear();  // a job took over: nothing to load again
    if (host_->generator() != nullptr) host_->generator()->Sweep();
    Publish();
    if (HasWork() && !asked_at_) {
      asked_at_ = clock_.Now();
      waiter_->Want();
    }
    TakeTurn();
    if (!HasWork() || asked_at_) Sleep(kTick);
  }
  Disconnect();
  DrainInbox();
}

void Engine::TakeTurn() {
  std::optional<absl::StatusOr<tenant::Turn>> answer = waiter_->Take();
  if (!answer) return;
  const absl::Duration waited = clock_.Now() - asked_at_.value_or(clock_.Now());
  asked_at_.reset();
  if (!answer->ok()) {
    LOG_WARN("no turn: {}", answer->status().ToString());
    Sleep(kTick);
    return;
  }
  tenant::Turn turn = *std::move(*answer);
  metrics_.Turn(waited);
  RunTurn(turn);
}

void Engine::RunTurn(tenant::Turn& turn) {
  const absl::Duration start = clock_.Now();
  int steps = 0;
  host_->BeginTurn(turn);
  if (load_) LoadInTurn(turn);
  Publish();
  while (!turn.ShouldYield() && !Stopping() && !session_->arbiter_gone()) {
    DrainInbox();
    if (std::exchange(sets_changed_, false)) host_->RefreshInTurn();
    Generator* generator = host_->generator();
    if (generator == nullptr) break;
    generator->Sweep();
    if (generator->idle()) break;
    const absl::Duration step_start = clock_.Now();
    const StepReport report = generator->Step(host_->weights());
    metrics_.Step(report, clock_.Now() - step_start);
    session_->Progress();
    Publish();
    ++steps;
  }
  const bool keep = host_->generator() != nullptr && host_->generator()->scheduler().blocks().used() > 0;
  std::vector<const tenant::Segment*> kept;
  if (keep) kept.push_back(&host_->kv());
  const absl::Status yielded = turn.Yield(kept);
  if (!yielded.ok()) LOG_WARN("yield token={}: {}", turn.token(), yielded.ToString());
  LOG_INFO("turn done token={} steps={} seconds={:.3f} kept_kv={}", turn.token(), steps,
           absl::ToDoubleSeconds(clock_.Now() - start), keep);
}

void Engine::LoadInTurn(tenant::Turn& turn) {
  const PreparedLoad load = *std::exchange(load_, std::nullopt);
  const std::shared_ptr<Ticket> ticket = std::exchange(load_ticket_, nullptr);
  const absl::Duration start = clock_.Now();
  const absl::Status status = host_->Load(turn, load);
  if (status.ok()) {
    own_dir_ = load.dir;
    LOG_INFO("loaded '{}' in {:.2f} s", load.dir, absl::ToDoubleSeconds(clock_.Now() - start));
  } else {
    LOG_ERROR("'{}' not loaded: {}", load.dir, status.ToString());
  }
  Publish();
  if (ticket != nullptr) ticket->Done(status);
}

}  // namespace tandem::inference
