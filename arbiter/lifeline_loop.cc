#include "arbiter/lifeline_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/lifeline/lifeline_socket.h"

namespace tandem::arbiter {
namespace {

constexpr absl::Duration kHelloDeadline = absl::Seconds(5);
constexpr int kEventsPerWait = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<LifelineLoop>> LifelineLoop::Start(const std::string& socket_path, Delegate& delegate) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoStatus(errno, "cannot make", "an epoll descriptor");
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoStatus(errno, "cannot make", "an eventfd");
  TANDEM_ASSIGN_OR_RETURN(UniqueFd listener, lifeline::Listen(socket_path));
  std::unique_ptr<LifelineLoop> loop(
      new LifelineLoop(std::move(epoll), std::move(wake), std::move(listener), delegate));
  TANDEM_RETURN_IF_ERROR(loop->Watch(loop->wake_.get(), {.source = Source::kWake}));
  TANDEM_RETURN_IF_ERROR(loop->Watch(loop->listener_.get(), {.source = Source::kListener}));
  loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  return loop;
}

LifelineLoop::LifelineLoop(UniqueFd epoll, UniqueFd wake, UniqueFd listener, Delegate& delegate)
    : epoll_(std::move(epoll)), wake_(std::move(wake)), listener_(std::move(listener)), delegate_(delegate) {}

LifelineLoop::~LifelineLoop() {
  stopping_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
}

void LifelineLoop::Wake() {
  const uint64_t one = 1;
  // A full counter (EAGAIN) wakes the loop just as well.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

absl::Status LifelineLoop::Watch(int fd, Watched watched) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return ErrnoStatus(errno, "cannot watch", "a descriptor");
  watched_[fd] = watched;
  return absl::OkStatus();
}

void LifelineLoop::Unwatch(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watched_.erase(fd);
}

void LifelineLoop::Run() {
  while (!stopping_) {
    const absl::Duration sleep = std::clamp(delegate_.Tick(), absl::ZeroDuration(), absl::Seconds(1));
    epoll_event events[kEventsPerWait];
    // Rounded up: waking before a deadline would make the loop spin until it.
    const int sleep_ms = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(sleep, absl::Milliseconds(1))));
    const int count = epoll_wait(epoll_.get(), events, kEventsPerWait, sleep_ms);
    bool greeted = false;
    // Ends first: a tenant that died frees its name before its successor's Hello is read.
    for (int i = 0; i < count; ++i) {
      const auto found = watched_.find(events[i].data.fd);
      if (found == watched_.end()) continue;
      const Watched watched = found->second;
      if (watched.source == Source::kLifeline || watched.source == Source::kPidfd) {
        HandleTenant(events[i].data.fd, watched);
      } else if (watched.source == Source::kWake) {
        uint64_t counter = 0;
        [[maybe_unused]] const ssize_t size = read(wake_.get(), &counter, sizeof counter);
      } else {
        greeted = true;
      }
    }
    for (int i = 0; i < count && greeted; ++i) {
      if (events[i].data.fd == listener_.get()) {
        AcceptAll();
      } else if (greetings_.contains(events[i].data.fd)) {
        Greet(events[i].data.fd);
      }
    }
    DropSilentGreetings();
  }
}

void LifelineLoop::HandleTenant(int fd, const Watched& watched) {
  if (watched.source == Source::kPidfd) {
    Unwatch(fd);
    delegate_.OnExit(watched.session);
    return;
  }
  absl::StatusOr<lifeline::Received> received = lifeline::Receive(fd, absl::ZeroDuration());
  if (received.ok()) {
    delegate_.OnMessage(watched.session, received->message);
  } else if (received.status().code() != absl::StatusCode::kDeadlineExceeded) {
    Unwatch(fd);
    if (delegate_.OnLifelineClosed(watched.session)) UnwatchSession(watched.session);
  }
}

void LifelineLoop::UnwatchSession(SessionId session) {
  std::vector<int> fds;
  for (const auto& [fd, watched] : watched_) {
    if (watched.session == session) fds.push_back(fd);
  }
  for (const int fd : fds) Unwatch(fd);
}

void LifelineLoop::AcceptAll() {
  while (true) {
    absl::StatusOr<UniqueFd> socket = lifeline::Accept(listener_.get());
    if (!socket.ok()) return;
    if (greetings_.size() >= kMaxGreeting) {
      LOG_WARN("a lifeline was closed: {} connections have not said Hello yet", greetings_.size());
      continue;
    }
    const int fd = socket->get();
    const Watched watched{.source = Source::kGreeting, .deadline = absl::Now() + kHelloDeadline};
    if (!Watch(fd, watched).ok()) continue;
    greetings_.emplace(fd, *std::move(socket));
  }
}

void LifelineLoop::Greet(int fd) {
  absl::StatusOr<lifeline::Received> received = lifeline::Receive(fd, absl::ZeroDuration());
  if (received.status().code() == absl::StatusCode::kDeadlineExceeded) return;
  Unwatch(fd);
  auto node = greetings_.extract(fd);
  if (!received.ok()) return;
  const auto* hello = std::get_if<lifeline::Hello>(&received->message);
  if (hello == nullptr) return;
  const absl::StatusOr<Admitted> admitted = delegate_.Admit(std::move(node.mapped()), *hello);
  if (!admitted.ok()) return;
  const absl::Status lifeline = Watch(admitted->lifeline, {.source = Source::kLifeline, .session = admitted->session});
  const absl::Status pidfd = Watch(admitted->pidfd, {.source = Source::kPidfd, .session = admitted->session});
  for (const absl::Status& status : {lifeline, pidfd}) {
    if (!status.ok()) LOG_ERROR("a tenant can not be watched: {}", status.ToString());
  }
}

void LifelineLoop::DropSilentGreetings() {
  std::vector<int> silent;
  for (const auto& [fd, socket] : greetings_) {
    if (watched_[fd].deadline < absl::Now()) silent.push_back(fd);
  }
  for (const int fd : silent) {
    Unwatch(fd);
    greetings_.erase(fd);
  }
}

}  // namespace tandem::arbiter
