// A tenant that maps the served weights and waits: the subject of the one-copy audit's own test.
//   reader_tenant RUN_DIR map    maps the set read-only and reads all of it
//   reader_tenant RUN_DIR copy   also makes a private copy: the audit must find it
// Prints "ready" and ends when its standard input ends.

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "services/tenant/session.h"

namespace tandem {
namespace {

int Run(const std::string& run_dir, bool copy) {
  tenant::SessionOptions options;
  options.run_dir = run_dir;
  options.tenant = "reader";
  auto session = tenant::Session::Connect(std::move(options));
  if (!session.ok()) return std::fprintf(stderr, "%s\n", session.status().ToString().c_str()), 1;
  for (const tenant::SetView& set : (*session)->Sets()) {
    if (set.state != tenant::SetState::kCommitted) continue;
    auto weights = (*session)->MapSet(set);
    if (!weights.ok()) return std::fprintf(stderr, "%s\n", weights.status().ToString().c_str()), 1;
    std::vector<std::byte> private_copy(copy ? weights->bytes : 0);
    if (copy) std::memcpy(private_copy.data(), weights->data, weights->bytes);
    unsigned sum = 0;
    for (uint64_t i = 0; i < weights->bytes; i += 4096) sum += static_cast<unsigned>(weights->data[i]);
    std::printf("ready %u %zu\n", sum, private_copy.size());
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
  }
  return std::fprintf(stderr, "no committed set\n"), 1;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: reader_tenant RUN_DIR map|copy\n"), 2;
  return tandem::Run(argv[1], std::strcmp(argv[2], "copy") == 0);
}
