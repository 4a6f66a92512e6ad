#include "services/client/interrupt.h"

#include <atomic>

#include "common/base/status.h"

namespace tandem::client {
namespace {

std::atomic<bool> requested = false;  // the only thing a signal handler can reach
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

Interrupt::Interrupt() {
  requested = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { requested = true; };
  TANDEM_CHECK(sigaction(SIGINT, &action, &before_) == 0);  // no SA_RESTART: a read from the terminal ends
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &before_, nullptr);
}

bool Interrupt::Requested() const {
  return requested;
}
void Interrupt::Clear() {
  requested = false;
}

}  // namespace tandem::client
