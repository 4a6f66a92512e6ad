#pragma once
// A tenant that speaks the protocol by hand, to say what the library never would. It keeps the descriptors that it
// gets.

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/lifeline/message.h"
#include "tandem/v1/arbiter.grpc.pb.h"

namespace tandem::testing {

class RawTenant {
 public:
  using Stream = grpc::ClientReaderWriter<v1::TenantMessage, v1::ArbiterMessage>;
  // An Attach stream with the context that it needs.
  struct Attached {
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream;
    // Reads until a message of this case comes; false if the stream ends first.
    bool Await(v1::ArbiterMessage::MessageCase wanted, v1::ArbiterMessage* message);
  };

  RawTenant(const std::string& run_dir, const std::string& name);
  ~RawTenant();

  template <typename Request, typename Reply>
  grpc::Status Call(grpc::Status (v1::Arbiter::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply* reply) {
    grpc::ClientContext context;
    Prepare(context);
    return (stub_.get()->*method)(&context, request, reply);
  }
  std::unique_ptr<Attached> Attach();
  uint64_t CreateShared(const std::string& name, uint64_t bytes);
  // The descriptor of a block that came over the lifeline, or -1.
  int BlockFd(uint32_t block);
  v1::Arbiter::Stub& stub() { return *stub_; }
  uint64_t NextRequestId() { return ++last_request_id_; }

 private:
  void Prepare(grpc::ClientContext& context) const;
  void Run();

  UniqueFd socket_;
  std::string key_;
  std::unique_ptr<v1::Arbiter::Stub> stub_;
  uint64_t last_request_id_ = 0;
  Mutex mutex_;
  std::map<uint32_t, UniqueFd> fds_;
  std::thread thread_;
};

}  // namespace tandem::testing
