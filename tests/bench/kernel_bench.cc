// Speed of the CPU kernels: products of SmolLM2's shapes, training and decoding of whole models. Prints a table, and
// with
// --json FILE writes the same figures. Not a test: figures depend on the machine and on what else it does.

#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "services/transformer/transformer.h"

namespace tandem {

// Wall time, or the CPU time of this process: with one thread that tells the speed on a machine that others use too.
static bool count_cpu_time = false;

namespace {

double Now() {
  timespec now{};
  clock_gettime(count_cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Seconds of the fastest of several calls, within about `budget` seconds.
template <typename Call>
double Fastest(double budget, const Call& call) {
  double best = 1e30;
  const double start = Now();
  for (int i = 0; i < 3 || Now() - start < budget; ++i) {
    const double begin = Now();
    call();
    best = std::min(best, Now() - begin);
  }
  return best;
}

std::vector<float> Random(int64_t n, float scale = 1.0F) {
  static std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = uniform(random);
  return x;
}

ModelConfig Model(int hidden, int layers, int heads, int kv_heads, int intermediate, int vocab) {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = hidden / heads;
  config.intermediate_size = intermediate;
  config.vocab_size = vocab;
  config.max_position_embeddings = 8192;
  config.tie_word_embeddings = true;
  return config;
}

class Bench {
 public:
  explicit Bench(Kernels& kernels) : kernels_(kernels) { json_["kernels"] = kernels.description(); }

  void Linear(int k, int n) {
    const std::vector<float> w = Random(int64_t{k} * n);
    std::vector<float> dw(w.size());
    for (const int rows : {1, 2, 4, 8, 12, 16, 17, 20, 24, 32, 64, 128, 512}) {
      const LinearShape shape{rows, k, n, n};
      const std::vector<float> x = Random(int64_t{rows} * k);
      std::vector<float> y = Random(int64_t{rows} * n);
      std::vector<float> dx(x.size());
      const double forward = Fastest(0.2, [&] { kernels_.Linear(shape, x.data(), w.data(), nullptr, y.data()); });
      double input = 0;
      double weight = 0;
      if (rows == 512) {
        input = Fastest(0.2, [&] { kernels_.LinearBackwardInput(shape, y.data(), w.data(), false, dx.data()); });
        weight = Fastest(0.2, [&] { kernels_.LinearBackwardWeight(shape, x.data(), y.data(), dw.data()); });
      }
      const double flop = 2.0 * rows * k * n;
      const double bytes = 4.0 * k * n;
      std::printf("linear %5d x %5d rows %4d: %7.1f GFLOP/s %6.1f GB/s", k, n, rows, flop / forward * 1e-9,
                  bytes / forward * 1e-9);
      if (input > 0) std::printf("   backward %6.1f input, %6.1f weight", flop / input * 1e-9, flop / weight * 1e-9);
      std::printf("\n");
      json_["linear"].push_back({{"k", k},
                                 {"n", n},
                                 {"rows", rows},
                                 {"gflops", flop / forward * 1e-9},
                                 {"weight_gb_per_s", bytes / forward * 1e-9},
                                 {"backward_input_gflops", input > 0 ? flop / input * 1e-9 : 0},
                                 {"backward_weight_gflops", weight > 0 ? flop / weight * 1e-9 : 0}});
    }
  }

  // Forward and backward of `sequences` sequences of `length` tokens, every token scored.
  void Train(const std::string& name, const ModelConfig& config, int sequences, int length) {
    const Transformer transformer(config, MakeWeightManifest(config), kernels_);
    const std::vector<float> weights = Weights(transformer);
    std::vector<float> gradients(weights.size());
    const int tokens = sequences * length;
    std::vector<int> ids, cu_seqlens = {0}, rows, targets;
    for (int i = 0; i < tokens; ++i) ids.push_back((i * 37 + 11) % config.vocab_size);
    for (int s = 1; s <= sequences; ++s) cu_seqlens.push_back(s * length);
    for (int i = 0; i + 1 < tokens; ++i) {
      if (i % length != length - 1) rows.push_back(i);
      if (i % length != length - 1) targets.push_back(ids[i + 1]);
    }
    const PackedBatch batch{ids, cu_seqlens};
    const ScoredRows scored{rows, targets};
    std::vector<float> logprob(rows.size()), entropy(rows.size()), weight(rows.size(), 1e-3F);
    std::vector<std::byte> workspace(transformer.TrainWorkspaceBytes(tokens, static_cast<int>(rows.size())));
    const double forward = Fastest(1.0, [&] {
      transformer.ForwardTrain(weights.data(), batch, scored, 1.0F, workspace.data(), logprob.data(), entropy.data());
    });
    const double backward = Fastest(1.0, [&] {
      transformer.BackwardTrain(weights.data(), batch, scored, 1.0F, weight.data(), workspace.data(), gradients.data());
    });
    std::printf("train %s %d x %d: forward %.1f ms, backward %.1f ms, %.0f tokens/s\n", name.c_str(), sequences, length,
                forward * 1e3, backward * 1e3, tokens / (forward + backward));
    json_["train"].push_back({{"model", name},
                              {"sequences", sequences},
                              {"length", length},
                              {"forward_s", forward},
                              {"backward_s", backward},
                              {"tokens_per_s", tokens / (forward + backward)}});
  }

  // One decoding step of `sequences` sequences at position `position`, logits included.
  void Decode(const std::string& name, const ModelConfig& config, int sequences, int position) {
    const Transformer transformer(config, MakeWeightManifest(config), kernels_);
    const std::vector<float> weights = Weights(transformer);
    const int blocks_each = position / kKvBlock + 1;
    std::vector<float> kv =
        Random(static_cast<int64_t>(transformer.KvBytes(int64_t{blocks_each} * sequences) / sizeof(float)));
    std::vector<std::vector<int>> tables(sequences);
    std::vector<absl::Span<const int>> spans;
    std::vector<int> tokens(sequences, 7), positions(sequences, position), sequence, wanted;
    for (int s = 0; s < sequences; ++s) {
      for (int b = 0; b < blocks_each; ++b) tables[s].push_back(s * blocks_each + b);
      spans.push_back(tables[s]);
      sequence.push_back(s);
      wanted.push_back(s);
    }
    std::vector<std::byte> workspace(transformer.PagedWorkspaceBytes(sequences));
    std::vector<float> hidden(static_cast<size_t>(sequences) * config.hidden_size);
    std::vector<float> logits(static_cast<size_t>(sequences) * config.vocab_size);
    const PagedBatch batch{tokens, positions, sequence, spans, wanted};
    const double step = Fastest(1.0, [&] {
      transformer.ForwardPaged(weights.data(), batch, kv.data(), workspace.data(), hidden.data());
      transformer.Logits(weights.data(), hidden.data(), sequences, logits.data());
    });
    std::printf("decode %s %3d sequences at %d: %.2f ms, %.0f tokens/s\n", name.c_str(), sequences, position,
                step * 1e3, sequences / step);
    json_["decode"].push_back({{"model", name},
                               {"sequences", sequences},
                               {"position", position},
                               {"step_s", step},
                               {"tokens_per_s", sequences / step}});
  }

  const nlohmann::json& json() const { return json_; }

 private:
  static std::vector<float> Weights(const Transformer& transformer) {
    return Random(static_cast<int64_t>(transformer.manifest().total_elements), 0.05F);
  }

  Kernels& kernels_;
  nlohmann::json json_;
};

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  CLI::App app{"Speed of the CPU kernels"};
  int threads = 0;
  std::string vectors = "best";
  std::string json_path;
  std::string only;
  app.add_option("--threads", threads, "0: all processors");
  app.add_option("--vectors", vectors, "best, avx2 or avx512")->check(CLI::IsMember({"best", "avx2", "avx512"}));
  app.add_flag("--cpu-time", tandem::count_cpu_time, "count CPU seconds, not wall time; use with --threads 1");
  app.add_option("--json", json_path, "where the figures go as JSON");
  app.add_option("--only", only, "linear, train or decode")->check(CLI::IsMember({"linear", "train", "decode"}));
  CLI11_PARSE(app, argc, argv);
  const auto kernels = tandem::MakeCpuKernels(threads, vectors == "avx2"     ? tandem::CpuVectors::kAvx2
                                                       : vectors == "avx512" ? tandem::CpuVectors::kAvx512
                                                                             : tandem::CpuVectors::kBest);
  std::printf("%s\n", kernels->description());
  tandem::Bench bench(*kernels);
  const auto smollm2 = tandem::Model(576, 30, 9, 3, 1536, 49152);
  const auto quickstart = tandem::Model(128, 3, 4, 4, 384, 260);
  if (only.empty() || only == "linear") {
    for (const auto& [k, n] : {std::pair{576, 960}, {576, 576}, {576, 3072}, {1536, 576}, {576, 49152}, {128, 384}}) {
      bench.Linear(k, n);
    }
  }
  if (only.empty() || only == "train") {
    bench.Train("quickstart", quickstart, 1024, 14);
    bench.Train("SmolLM2-135M", smollm2, 1, 512);
    bench.Train("SmolLM2-135M", smollm2, 8, 128);
  }
  if (only.empty() || only == "decode") {
    for (const int sequences : {1, 8, 32}) bench.Decode("SmolLM2-135M", smollm2, sequences, 128);
    bench.Decode("quickstart", quickstart, 64, 14);
    bench.Decode("quickstart", quickstart, 512, 14);
  }
  if (!json_path.empty()) std::ofstream(json_path) << bench.json().dump(2) << "\n";
  return 0;
}
