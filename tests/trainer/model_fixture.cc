#include "tests/trainer/model_fixture.h"

#include <cmath>
#include <numeric>

#include "common/base/status.h"
#include "services/checkpoint/checkpoint.h"

namespace tandem::trainer {

ModelFixture::ModelFixture(const std::string& dir, int max_tokens) {
  absl::StatusOr<ModelConfig> loaded = LoadModelConfig(dir);
  TANDEM_CHECK(loaded.ok(), loaded.status().ToString());
  config = *std::move(loaded);
  manifest = MakeWeightManifest(config);
  kernels = MakeCpuKernels(1);
  transformer = std::make_unique<Transformer>(config, manifest, *kernels);
  for (std::vector<float>* array : {&weights, &gradients, &m, &v}) array->resize(manifest.total_elements);
  const absl::Status read = LoadWeights(dir, config, manifest, absl::MakeSpan(weights));
  TANDEM_CHECK(read.ok(), read.ToString());
  workspace_.resize(transformer->TrainWorkspaceBytes(max_tokens, max_tokens));
}

std::vector<RowScores> ModelFixture::Run(absl::Span<const Sequence> rows, int64_t pack_tokens, float temperature,
                                         const TokenGradient* token_gradient) {
  std::vector<RowScores> scores(rows.size());
  std::vector<size_t> all(rows.size());
  std::iota(all.begin(), all.end(), size_t{0});
  for (std::vector<size_t>& members : PlanPacks(rows, all, pack_tokens)) {
    RunPack(*transformer, {weights.data(), workspace_.data(), gradients.data()}, rows,
            MakePack(rows, std::move(members)), temperature, token_gradient, scores);
  }
  return scores;
}

void ModelFixture::ZeroGradients() {
  kernels->Zero(gradients.data(), static_cast<int64_t>(gradients.size()));
}

std::vector<float> ModelFixture::TensorOf(const TensorPart& part, const std::vector<float>& layout) const {
  const WeightEntry& entry = manifest.entries[part.entry];
  const int64_t k = entry.shape.size() == 1 ? 1 : entry.shape[0];
  const int64_t stride = entry.shape.size() == 1 ? 1 : entry.shape[1];
  std::vector<float> out;
  for (int64_t row = 0; row < part.n; ++row) {
    for (int64_t c = 0; c < k; ++c) {
      out.push_back(layout[entry.offset + static_cast<uint64_t>(part.column + row + c * stride)]);
    }
  }
  return out;
}

double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b) {
  TANDEM_CHECK(a.size() == b.size(), a.size(), " against ", b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    norm += static_cast<double>(b[i]) * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace tandem::trainer
