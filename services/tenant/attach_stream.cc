#include "services/tenant/attach_stream.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/log.h"

namespace tandem::tenant {
namespace {

constexpr absl::Duration kReopenAfter = absl::Milliseconds(20);

}  // namespace

AttachStream::AttachStream(v1::Arbiter::Stub& stub, std::string session_key,
                           std::function<void(const v1::ArbiterMessage&)> on_message, std::function<void()> on_over)
    : stub_(stub),
      session_key_(std::move(session_key)),
      on_message_(std::move(on_message)),
      on_over_(std::move(on_over)),
      thread_([this] { Run(); }) {}

AttachStream::~AttachStream() {
  Stop();
  thread_.join();
}

void AttachStream::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  if (context_ != nullptr) context_->TryCancel();
  stopped_.NotifyAll();
}

void AttachStream::Break() {
  MutexLock lock(mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void AttachStream::Send(const v1::TenantMessage& message) {
  MutexLock lock(mutex_);
  if (stream_ != nullptr) stream_->Write(message);  // false: the stream broke, its reader sees that too
}

void AttachStream::Run() {
  while (true) {
    const grpc::Status ended = RunOnce();
    MutexLock lock(mutex_);
    if (stopping_) return;
    if (ended.error_code() == grpc::StatusCode::UNAUTHENTICATED) break;
    LOG_DEBUG("stream to the arbiter broke ({}), opening it again", ended.error_message());
    stopped_.WaitFor(mutex_, kReopenAfter);
  }
  on_over_();
}

grpc::Status AttachStream::RunOnce() {
  auto context = std::make_shared<grpc::ClientContext>();
  context->AddMetadata("tandem-session", session_key_);
  // Waits for the connection inside the call, where it is polled; Stop cancels it when the arbiter is gone.
  context->set_wait_for_ready(true);
  {
    MutexLock lock(mutex_);
    if (stopping_) return grpc::Status::CANCELLED;
    context_ = context;
  }
  const std::unique_ptr<Stream> stream = stub_.Attach(context.get());
  v1::ArbiterMessage message;
  bool open = stream->Read(&message);
  {
    MutexLock lock(mutex_);
    if (open) stream_ = stream.get();
  }
  for (; open; open = stream->Read(&message)) on_message_(message);
  MutexLock lock(mutex_);
  stream_ = nullptr;
  context_.reset();
  return stream->Finish();
}

}  // namespace tandem::tenant
