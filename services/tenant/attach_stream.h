#pragma once
// The Attach stream, opened again by itself whenever it breaks: the first message of each opening is the whole state,
// so a message that was lost with a broken stream is sent again by whoever reads that state. Thread-safe; one thread.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "tandem/v1/arbiter.grpc.pb.h"

namespace tandem::tenant {

class AttachStream {
 public:
  // `on_message` runs on the stream's thread. `on_over` runs there once, when the arbiter no longer knows the session.
  AttachStream(v1::Arbiter::Stub& stub, std::string session_key,
               std::function<void(const v1::ArbiterMessage&)> on_message, std::function<void()> on_over);
  ~AttachStream();

  // Sends over the open stream; drops the message if none is open.
  void Send(const v1::TenantMessage& message);
  // Breaks the stream that is open now, as a lost connection would; a new one is opened.
  void Break();
  // Ends the stream for good without waiting for its thread (callable from on_message).
  void Stop();

 private:
  using Stream = grpc::ClientReaderWriter<v1::TenantMessage, v1::ArbiterMessage>;
  void Run();
  grpc::Status RunOnce();

  v1::Arbiter::Stub& stub_;
  const std::string session_key_;
  const std::function<void(const v1::ArbiterMessage&)> on_message_;
  const std::function<void()> on_over_;
  Mutex mutex_;
  CondVar stopped_;
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tandem::tenant
