#include "services/tenant/lifeline_client.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/lifeline/lifeline_socket.h"
#include "common/lifeline/peer.h"

namespace tandem::tenant {
namespace {

constexpr absl::Duration kSendTimeout = absl::Seconds(5);
constexpr absl::Duration kReceivePeriod = absl::Seconds(10);

absl::StatusOr<lifeline::Welcome> Greet(int socket, const std::string& tenant, absl::Duration longest_unit,
                                        absl::Duration timeout) {
  struct stat info {};
  fstat(socket, &info);
  TANDEM_ASSIGN_OR_RETURN(const uint64_t start_time, lifeline::StartTimeTicks(0));
  lifeline::Hello hello;
  hello.tenant = tenant;
  hello.longest_unit_ms = static_cast<uint32_t>(std::max<int64_t>(1, absl::ToInt64Milliseconds(longest_unit)));
  hello.start_time_ticks = start_time;
  hello.socket_inode = info.st_ino;
  TANDEM_RETURN_IF_ERROR(lifeline::Send(socket, hello, {}, kSendTimeout));
  absl::StatusOr<lifeline::Received> answer = lifeline::Receive(socket, timeout);
  if (!answer.ok()) return answer.status();
  if (const auto* refused = std::get_if<lifeline::Refused>(&answer->message)) {
    return absl::Status(static_cast<absl::StatusCode>(refused->code), refused->text);
  }
  if (auto* welcome = std::get_if<lifeline::Welcome>(&answer->message)) return std::move(*welcome);
  return absl::DataLossError("the arbiter answered Hello with something else than Welcome");
}

}  // namespace

absl::StatusOr<std::unique_ptr<LifelineClient>> LifelineClient::Connect(const std::string& socket_path,
                                                                        const std::string& tenant,
                                                                        absl::Duration longest_unit,
                                                                        absl::Duration timeout,
                                                                        std::function<void()> on_closed) {
  const absl::Time deadline = absl::Now() + timeout;
  TANDEM_ASSIGN_OR_RETURN(UniqueFd socket, lifeline::Connect(socket_path, timeout));
  TANDEM_ASSIGN_OR_RETURN(lifeline::Welcome welcome, Greet(socket.get(), tenant, longest_unit, deadline - absl::Now()));
  TANDEM_ASSIGN_OR_RETURN(ArenaMap map, ArenaMap::Reserve(welcome.block_bytes, welcome.blocks));
  return std::unique_ptr<LifelineClient>(
      new LifelineClient(std::move(socket), std::move(welcome), std::move(map), std::move(on_closed)));
}

LifelineClient::LifelineClient(UniqueFd socket, lifeline::Welcome welcome, ArenaMap map,
                               std::function<void()> on_closed)
    : socket_(std::move(socket)),
      welcome_(std::move(welcome)),
      on_closed_(std::move(on_closed)),
      map_(std::move(map)),
      arena_(map_.data()),
      thread_([this] { Run(); }) {}

LifelineClient::~LifelineClient() {
  stopping_ = true;
  Unmap(0, welcome_.blocks).IgnoreError();
  // If the arbiter is gone there is nobody to say it to.
  lifeline::Send(socket_.get(), lifeline::Goodbye{}, {}, kSendTimeout).IgnoreError();
  shutdown(socket_.get(), SHUT_RDWR);  // ends Run's Receive; the Goodbye is still delivered
  thread_.join();
}

void LifelineClient::Run() {
  while (!stopping_) {
    absl::StatusOr<lifeline::Received> received = lifeline::Receive(socket_.get(), kReceivePeriod);
    if (received.status().code() == absl::StatusCode::kDeadlineExceeded) continue;
    if (!received.ok()) {
      if (received.status().code() == absl::StatusCode::kDataLoss)
        LOG_ERROR("lifeline: {}", received.status().ToString());
      break;
    }
    const auto* blocks = std::get_if<lifeline::Blocks>(&received->message);
    if (blocks == nullptr) continue;
    const lifeline::BlocksAck ack{blocks->batch, MapBlocks(*blocks, received->fds)};
    const absl::Status sent = lifeline::Send(socket_.get(), ack, {}, kSendTimeout);
    if (!sent.ok()) break;
  }
  if (!stopping_) on_closed_();
}

std::string LifelineClient::MapBlocks(const lifeline::Blocks& blocks, const std::vector<UniqueFd>& fds) {
  if (blocks.blocks.size() != fds.size()) {
    return absl::StrCat(blocks.blocks.size(), " blocks came with ", fds.size(), " descriptors");
  }
  MutexLock lock(mutex_);
  for (size_t i = 0; i < fds.size(); ++i) {
    if (blocks.blocks[i] >= welcome_.blocks) return absl::StrCat("block ", blocks.blocks[i], " is out of range");
    const absl::Status mapped = map_.Map(blocks.blocks[i], fds[i].get(), static_cast<BlockAccess>(blocks.access));
    if (!mapped.ok()) return std::string(mapped.message());
  }
  return "";
}

bool LifelineClient::AreMapped(uint32_t first, uint32_t count, bool writable) {
  MutexLock lock(mutex_);
  for (uint32_t block = first; block < first + count; ++block) {
    if (writable ? !map_.IsWritable(block) : !map_.IsMapped(block)) return false;
  }
  return true;
}

absl::Status LifelineClient::Unmap(uint32_t first, uint32_t count) {
  MutexLock lock(mutex_);
  for (uint32_t block = first; block < first + count; ++block) {
    if (map_.IsMapped(block)) TANDEM_RETURN_IF_ERROR(map_.Unmap(block));
  }
  return absl::OkStatus();
}

}  // namespace tandem::tenant
