// tandem example sums: the quickstart's data.

#include <iostream>

#include "services/client/addition_problems.h"
#include "services/client/commands.h"

namespace tandem::client {
namespace {

struct SumsOptions {
  std::string out;
  int held_out = 512;
  uint64_t seed = 1;
};

int MakeSums(const SumsOptions& options) {
  const AdditionProblems problems = MakeAdditionProblems(options.held_out, options.seed);
  const int overlap = CountOverlap(problems);
  if (const absl::Status status = WriteAdditionProblems(options.out, problems); !status.ok()) {
    std::cerr << "error: " << status.message() << "\n";
    return kUsage;
  }
  std::cout << problems.train.size() << " training problems, " << problems.held_out.size()
            << " held-out problems, overlap (as unordered pairs) " << overlap << "\n";
  return overlap == 0 ? kOk : kFailed;
}

}  // namespace

void AddExampleCommands(CLI::App& app, Cli& cli) {
  CLI::App* example = app.add_subcommand("example", "Write example data");
  example->require_subcommand(1);
  auto options = std::make_shared<SumsOptions>();
  CLI::App* sums =
      example->add_subcommand("sums", "Sums of two two-digit numbers: DIR/train.jsonl, DIR/held_out.jsonl");
  sums->add_option("--out", options->out, "Directory to write to")->required();
  sums->add_option("--held_out", options->held_out)->check(CLI::Range(1, kAdditionPairs - 1))->capture_default_str();
  sums->add_option("--seed", options->seed)->capture_default_str();
  sums->callback([&cli, options] { cli.exit_code = MakeSums(*options); });
}

}  // namespace tandem::client
