#pragma once
// Ctrl-C as a flag: while an object lives, SIGINT sets it instead of ending the process. One object at a time.

#include <csignal>

namespace tandem::client {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Whether SIGINT came since construction or the last Clear. Any thread.
  bool Requested() const;
  void Clear();

 private:
  struct sigaction before_ = {};
};

}  // namespace tandem::client
