#pragma once
// The tenant's end of its lifeline: says Hello, maps the blocks that the arbiter sends into one reserved address range,
// and notices at once when the arbiter dies. Thread-safe; one thread of its own.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/device/arena_map.h"
#include "common/lifeline/message.h"

namespace tandem::tenant {

class LifelineClient {
 public:
  // Connects to `socket_path` and waits for the Welcome, at most `timeout`. The arbiter's refusal is returned as it is.
  // `on_closed` runs once on the lifeline's thread when the arbiter's end closed.
  static absl::StatusOr<std::unique_ptr<LifelineClient>> Connect(const std::string& socket_path,
                                                                 const std::string& tenant, absl::Duration longest_unit,
                                                                 absl::Duration timeout,
                                                                 std::function<void()> on_closed);
  // Unmaps everything, says Goodbye and closes.
  ~LifelineClient();

  const lifeline::Welcome& welcome() const { return welcome_; }
  // The address of arena offset 0.
  std::byte* arena() const { return arena_; }

  // Whether all `count` blocks from `first` are mapped (writable).
  bool AreMapped(uint32_t first, uint32_t count, bool writable);
  absl::Status Unmap(uint32_t first, uint32_t count);

 private:
  LifelineClient(UniqueFd socket, lifeline::Welcome welcome, ArenaMap map, std::function<void()> on_closed);
  void Run();
  std::string MapBlocks(const lifeline::Blocks& blocks, const std::vector<UniqueFd>& fds);

  const UniqueFd socket_;
  const lifeline::Welcome welcome_;
  const std::function<void()> on_closed_;
  Mutex mutex_;
  ArenaMap map_ ABSL_GUARDED_BY(mutex_);
  std::byte* const arena_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tandem::tenant
