#pragma once
// The arbiter's one loop: a thread that waits for new lifelines, messages on them, their ends, exits of processes
// (pidfds) and for time. It acts only through its Delegate and never waits for a tenant.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "arbiter/state/ids.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/lifeline/message.h"

namespace tandem::arbiter {

class LifelineLoop {
 public:
  // A tenant that was let in; the descriptors stay open until Forget.
  struct Admitted {
    SessionId session = 0;
    int lifeline = -1;
    int pidfd = -1;
  };
  // All calls come from the loop's thread.
  class Delegate {
   public:
    virtual ~Delegate() = default;
    // Lets the sender of `hello` in and answers it, or refuses: then the answer is sent here and the socket closed.
    virtual absl::StatusOr<Admitted> Admit(UniqueFd socket, const lifeline::Hello& hello) = 0;
    virtual void OnMessage(SessionId session, const lifeline::Message& message) = 0;
    // Returns whether the session is over (its process need not be watched any more).
    virtual bool OnLifelineClosed(SessionId session) = 0;
    virtual void OnExit(SessionId session) = 0;
    // Called after every wake-up; returns how long the loop may sleep.
    virtual absl::Duration Tick() = 0;
  };

  static absl::StatusOr<std::unique_ptr<LifelineLoop>> Start(const std::string& socket_path, Delegate& delegate);
  ~LifelineLoop();

  // Makes the loop Tick soon. Thread-safe, does not block.
  void Wake();

 private:
  static constexpr size_t kMaxGreeting = 64;  // connections that have not said Hello

  enum class Source : uint32_t { kWake, kListener, kGreeting, kLifeline, kPidfd };
  struct Watched {
    Source source = Source::kWake;
    SessionId session = 0;
    absl::Time deadline = absl::InfiniteFuture();  // kGreeting
  };

  LifelineLoop(UniqueFd epoll, UniqueFd wake, UniqueFd listener, Delegate& delegate);
  absl::Status Watch(int fd, Watched watched);
  void Unwatch(int fd);
  void Run();
  void HandleTenant(int fd, const Watched& watched);
  void AcceptAll();
  void Greet(int fd);
  void DropSilentGreetings();
  void UnwatchSession(SessionId session);

  UniqueFd epoll_, wake_, listener_;
  Delegate& delegate_;
  std::map<int, Watched> watched_;     // loop thread only
  std::map<int, UniqueFd> greetings_;  // loop thread only
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tandem::arbiter
