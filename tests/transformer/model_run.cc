#include "tests/transformer/model_run.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "common/base/status.h"

namespace tandem::testing {

void Pack::Add(const std::vector<int>& sequence, int prompt) {
  const int first = static_cast<int>(tokens.size());
  for (int p = prompt; p < static_cast<int>(sequence.size()); ++p) {
    rows.push_back(first + p - 1);
    targets.push_back(sequence[p]);
  }
  tokens.insert(tokens.end(), sequence.begin(), sequence.end());
  cu_seqlens.push_back(static_cast<int>(tokens.size()));
}

ModelRun::ModelRun(const std::string& dir, std::unique_ptr<Kernels> kernels) : kernels_(std::move(kernels)) {
  auto config = LoadModelConfig(dir);
  TANDEM_CHECK(config.ok(), config.status().ToString());
  const WeightManifest manifest = MakeWeightManifest(*config);
  weights_.resize(manifest.total_elements);
  const absl::Status loaded = LoadWeights(dir, *config, manifest, absl::MakeSpan(weights_));
  TANDEM_CHECK(loaded.ok(), loaded.ToString());
  transformer_ = std::make_unique<Transformer>(*config, manifest, *kernels_);
}

ModelRun::ModelRun(const ModelConfig& config, uint64_t seed, std::unique_ptr<Kernels> kernels)
    : kernels_(std::move(kernels)) {
  const WeightManifest manifest = MakeWeightManifest(config);
  weights_.resize(manifest.total_elements);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (const WeightEntry& entry : manifest.entries) {
    const bool norm = entry.shape.size() == 1;
    const float scale = norm ? 0.1F : 1.0F / std::sqrt(static_cast<float>(entry.shape[0]));
    for (int64_t i = 0; i < entry.elements; ++i) {
      weights_[entry.offset + i] = (norm ? 1.0F : 0.0F) + scale * normal(random);
    }
  }
  transformer_ = std::make_unique<Transformer>(config, manifest, *kernels_);
}

std::byte* ModelRun::TrainWorkspace(const Pack& pack) {
  const uint64_t bytes =
      transformer_->TrainWorkspaceBytes(static_cast<int>(pack.tokens.size()), static_cast<int>(pack.rows.size()));
  workspace_.assign(bytes + 64, std::byte{0xff});  // not-a-number wherever something is read before it is written
  return workspace_.data() + (64 - reinterpret_cast<uintptr_t>(workspace_.data()) % 64);
}

Scores ModelRun::Score(const Pack& pack, float temperature) {
  Scores scores{std::vector<float>(pack.rows.size()), std::vector<float>(pack.rows.size())};
  transformer_->ForwardTrain(weights_.data(), {pack.tokens, pack.cu_seqlens}, {pack.rows, pack.targets}, temperature,
                             TrainWorkspace(pack), scores.logprob.data(), scores.entropy.data());
  return scores;
}

std::vector<float> ModelRun::Gradients(const Pack& pack, const std::vector<float>& weight, float temperature) {
  std::vector<float> logprob(pack.rows.size());
  std::vector<float> gradients(weights_.size());
  std::byte* workspace = TrainWorkspace(pack);
  transformer_->ForwardTrain(weights_.data(), {pack.tokens, pack.cu_seqlens}, {pack.rows, pack.targets}, temperature,
                             workspace, logprob.data(), nullptr);
  transformer_->BackwardTrain(weights_.data(), {pack.tokens, pack.cu_seqlens}, {pack.rows, pack.targets}, temperature,
                              weight.data(), workspace, gradients.data());
  return gradients;
}

std::vector<float> ModelRun::PagedLogits(const std::vector<int>& tokens, int chunk) {
  const ModelConfig& config = transformer_->config();
  const int count = static_cast<int>(tokens.size());
  std::vector<int> table((count + kKvBlock - 1) / kKvBlock);
  for (size_t b = 0; b < table.size(); ++b) table[b] = static_cast<int>(table.size() - 1 - b);
  std::vector<float> kv(transformer_->KvBytes(static_cast<int64_t>(table.size())) / sizeof(float), NAN);
  std::vector<std::byte> workspace(transformer_->PagedWorkspaceBytes(chunk));
  std::vector<float> hidden(static_cast<size_t>(chunk) * config.hidden_size);
  std::vector<float> logits(static_cast<size_t>(count) * config.vocab_size);
  const std::vector<absl::Span<const int>> tables = {table};
  for (int first = 0; first < count; first += chunk) {
    const int rows = std::min(chunk, count - first);
    std::vector<int> positions(rows);
    std::vector<int> wanted(rows);
    for (int i = 0; i < rows; ++i) {
      positions[i] = first + i;
      wanted[i] = i;
    }
    const std::vector<int> sequence(rows, 0);
    const PagedBatch batch{absl::MakeSpan(tokens).subspan(first, rows), positions, sequence, tables, wanted};
    transformer_->ForwardPaged(weights_.data(), batch, kv.data(), workspace.data(), hidden.data());
    transformer_->Logits(weights_.data(), hidden.data(), rows,
                         logits.data() + static_cast<int64_t>(first) * config.vocab_size);
  }
  return logits;
}

std::vector<int> ModelRun::Greedy(const std::vector<int>& prompt, int count) {
  const ModelConfig& config = transformer_->config();
  const int most = static_cast<int>(prompt.size()) + count;
  std::vector<int> table((most + kKvBlock - 1) / kKvBlock);
  for (size_t b = 0; b < table.size(); ++b) table[b] = static_cast<int>(b);
  std::vector<float> kv(transformer_->KvBytes(static_cast<int64_t>(table.size())) / sizeof(float), NAN);
  std::vector<std::byte> workspace(transformer_->PagedWorkspaceBytes(most));
  std::vector<float> hidden(config.hidden_size);
  std::vector<float> logits(config.vocab_size);
  const std::vector<absl::Span<const int>> tables = {table};
  std::vector<int> next = prompt;
  std::vector<int> answer;
  int position = 0;
  while (static_cast<int>(answer.size()) < count) {
    const int rows = static_cast<int>(next.size());
    std::vector<int> positions(rows);
    for (int& p : positions) p = position++;
    const std::vector<int> sequence(rows, 0);
    const std::vector<int> wanted = {rows - 1};
    transformer_->ForwardPaged(weights_.data(), {next, positions, sequence, tables, wanted}, kv.data(),
                               workspace.data(), hidden.data());
    transformer_->Logits(weights_.data(), hidden.data(), 1, logits.data());
    answer.push_back(static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    next = {answer.back()};
  }
  return answer;
}

std::vector<float> CheckpointTensor(const WeightManifest& manifest, const std::vector<float>& values,
                                    const TensorPart& part) {
  const WeightEntry& entry = manifest.entries[part.entry];
  const float* data = values.data() + entry.offset;
  if (entry.shape.size() == 1) return {data, data + entry.elements};
  std::vector<float> tensor;
  tensor.reserve(part.n * entry.shape[0]);
  for (int64_t n = 0; n < part.n; ++n) {
    for (int64_t k = 0; k < entry.shape[0]; ++k) tensor.push_back(data[k * entry.shape[1] + part.column + n]);
  }
  return tensor;
}

}  // namespace tandem::testing
