#include "tests/inference/generator_run.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "common/base/status.h"

namespace tandem::testing {

using inference::Generator;
using inference::GeneratorLimits;
using inference::Request;

ModelConfig SmallConfig() {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 48;
  config.intermediate_size = 80;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 12;
  config.vocab_size = 101;
  config.max_position_embeddings = 512;
  config.tie_word_embeddings = true;
  return config;
}

GeneratorRun::GeneratorRun(GeneratorLimits limits, int threads) : model(SmallConfig(), 11, MakeCpuKernels(threads)) {
  MakeGenerator(limits);
}

GeneratorRun::GeneratorRun(const std::string& model_dir, GeneratorLimits limits) : model(model_dir, MakeCpuKernels(2)) {
  MakeGenerator(limits);
}

void GeneratorRun::MakeGenerator(GeneratorLimits limits) {
  const Transformer& transformer = model.transformer();
  kv_.resize(transformer.KvBytes(limits.kv_blocks) / sizeof(float));
  workspace_.resize(Generator::WorkspaceBytes(transformer, limits) + 64);
  std::byte* aligned = workspace_.data() + (64 - reinterpret_cast<uintptr_t>(workspace_.data()) % 64);
  Overwrite();
  generator = std::make_unique<Generator>(
      transformer, model.kernels(), clock, limits,
      inference::GeneratorMemory{.kv = reinterpret_cast<std::byte*>(kv_.data()), .workspace = aligned});
  generator->SetVersion({.set_id = 1, .version = 1});
}

std::shared_ptr<RecordingSink> GeneratorRun::Add(Request request) {
  auto sink = std::make_shared<RecordingSink>();
  request.id = next_id_++;
  request.sink = sink;
  if (request.timeout == absl::ZeroDuration()) request.timeout = absl::Hours(1);
  if (const absl::Status status = generator->Add(std::move(request)); !status.ok()) {
    sink->OnDone(status, absl::ZeroDuration());
  }
  return sink;
}

bool GeneratorRun::Step() {
  if (generator->idle()) return false;
  generator->Step(model.weights().data());
  clock.Advance(absl::Milliseconds(10));
  return true;
}

void GeneratorRun::RunAll() {
  for (int steps = 0; Step(); ++steps) TANDEM_CHECK(steps < 100000, "does not end");
}

void GeneratorRun::Overwrite() {
  std::fill(kv_.begin(), kv_.end(), std::numeric_limits<float>::quiet_NaN());
}

void GeneratorRun::SetWeights(uint64_t version, std::vector<float> weights) {
  model.weights() = std::move(weights);
  generator->SetVersion({.set_id = 1, .version = version});
}

std::vector<int> RandomPrompt(int tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> prompt;
  prompt.reserve(static_cast<size_t>(tokens));
  for (int i = 0; i < tokens; ++i) prompt.push_back(static_cast<int>(random() % 101));
  return prompt;
}

}  // namespace tandem::testing
