#pragma once
// What the arbiter counts of its copies between arena and host memory; for a job's summary. One thread.

#include <cstdint>
#include <memory>
#include <string>

namespace tandem::trainer {

class PoolCounters {
 public:
  // `target`: the arbiter's gRPC address.
  explicit PoolCounters(const std::string& target);
  ~PoolCounters();
  // Bytes copied since the arbiter's start; the last known count while it does not answer within a second.
  uint64_t BytesMoved();

 private:
  struct Client;
  const std::unique_ptr<Client> client_;
  uint64_t last_ = 0;
};

}  // namespace tandem::trainer
