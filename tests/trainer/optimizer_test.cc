#include "services/trainer/step/optimizer.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "services/trainer/step/lr_schedule.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"
#include "tests/trainer/model_fixture.h"

namespace tandem::trainer {
namespace {

TEST(ConstantLearningRateTest, WarmsUpAndStays) {
  EXPECT_EQ(ConstantLearningRate(1.0, 0, 0), 1.0);
  EXPECT_EQ(ConstantLearningRate(1.0, 1, 2), 0.5);
  EXPECT_EQ(ConstantLearningRate(1.0, 99, 2), 1.0);
}

TEST(LinearLearningRateTest, WarmsUpAndFallsToZero) {
  EXPECT_EQ(LinearLearningRate(1e-4, 0, 0, 4), 1e-4);
  EXPECT_EQ(LinearLearningRate(1e-4, 3, 0, 4), 1e-4 * 0.25);
  EXPECT_EQ(LinearLearningRate(1.0, 0, 2, 10), 0);
  EXPECT_EQ(LinearLearningRate(1.0, 1, 2, 10), 0.5);
  EXPECT_EQ(LinearLearningRate(1.0, 2, 2, 10), 1);
  EXPECT_EQ(LinearLearningRate(1.0, 6, 2, 10), 0.5);
  EXPECT_EQ(LinearLearningRate(1.0, 10, 2, 10), 0);
}

class OptimizerTest : public ::testing::Test {
 protected:
  OptimizerTest() {
    for (size_t i = 0; i < model_.gradients.size(); ++i) model_.gradients[i] = 0.01F * std::sin(static_cast<float>(i));
  }
  void Step(const OptimizerOptions& options, double learning_rate, double norm) {
    const Optimizer optimizer(*model_.kernels, model_.manifest, options, [] {});
    optimizer.Step(learning_rate, 1, norm, model_.gradients.data(), model_.weights.data(), model_.m.data(),
                   model_.v.data());
  }
  ModelFixture model_{testing::TestData("grpo/model")};
};

TEST_F(OptimizerTest, OnlyMatricesDecay) {
  const std::vector<float> before = model_.weights;
  std::fill(model_.gradients.begin(), model_.gradients.end(), 0.0F);
  Step({.weight_decay = 0.5}, 0.1, 0);
  for (const WeightEntry& entry : model_.manifest.entries) {
    const float expected = entry.shape.size() > 1 ? before[entry.offset] * 0.95F : before[entry.offset];
    EXPECT_FLOAT_EQ(model_.weights[entry.offset], expected) << entry.name;
  }
}

TEST_F(OptimizerTest, LearningRateZeroKeepsEveryBit) {
  const std::vector<float> before = model_.weights;
  Step({.weight_decay = 0.1}, 0, 1);
  EXPECT_EQ(model_.weights, before);
  EXPECT_NE(model_.m[0] + model_.m[1], 0);
}

TEST_F(OptimizerTest, GradientIsClippedToItsLargestNorm) {
  Step({.max_grad_norm = 0.5}, 1e-3, /*norm=*/2);
  const double scale = 0.5 / (2 + 1e-6);
  const uint64_t i = model_.manifest.entries[1].offset + 3;
  EXPECT_NEAR(model_.m[i], 0.1 * scale * model_.gradients[i], 1e-9);
  std::fill(model_.m.begin(), model_.m.end(), 0.0F);
  Step({.max_grad_norm = 0}, 1e-3, /*norm=*/2);  // off
  EXPECT_NEAR(model_.m[i], 0.1 * model_.gradients[i], 1e-9);
}

TEST_F(OptimizerTest, GradientNormIsThatOfAllElements) {
  double squares = 0;
  for (const WeightEntry& entry : model_.manifest.entries) {
    for (int64_t i = 0; i < entry.elements; ++i) {
      const double g = model_.gradients[entry.offset + static_cast<uint64_t>(i)];
      squares += g * g;
    }
  }
  const Optimizer optimizer(*model_.kernels, model_.manifest, {}, [] {});
  EXPECT_NEAR(optimizer.GradientNorm(model_.gradients.data()), std::sqrt(squares), 1e-6 * std::sqrt(squares));
}

// Ten steps on one batch, against torch.optim.AdamW (which decays every parameter there).
TEST(OptimizerReferenceTest, TenSftStepsAgreeWithTorch) {
  const char* oracle = std::getenv("TANDEM_ORACLE_DIR");
  if (oracle == nullptr) GTEST_SKIP() << "TANDEM_ORACLE_DIR is not set";
  const std::string root = oracle;
  ModelFixture model(root + "/models/llama-tied");
  ASSERT_OK_AND_ASSIGN(const auto reference, Safetensors::Open(root + "/reference/llama-tied.safetensors"));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(root + "/reference/llama-tied.json"));
  const nlohmann::json expected = nlohmann::json::parse(text);
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> ids, reference->Ints("input_ids"));
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> bounds, reference->Ints("cu_seqlens"));
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> prompts, reference->Ints("prompt_lens"));
  std::vector<Sequence> rows;
  int64_t items = 0;
  for (size_t s = 0; s < prompts.size(); ++s) {
    const auto row = absl::MakeConstSpan(ids).subspan(bounds[s], bounds[s + 1] - bounds[s]);
    if (static_cast<size_t>(prompts[s]) == row.size()) continue;
    rows.push_back({row.subspan(0, prompts[s]), row.subspan(prompts[s])});
    items += static_cast<int64_t>(rows.back().scored.size());
  }
  for (WeightEntry& entry : model.manifest.entries) entry.decay = true;
  const Optimizer optimizer(*model.kernels, model.manifest, {.weight_decay = 0.01, .max_grad_norm = 1}, [] {});
  const TokenGradient gradient = [items](size_t, const RowScores&, absl::Span<float> out) {
    std::fill(out.begin(), out.end(), -1.0F / static_cast<float>(items));
  };
  for (int64_t step = 1; step <= 10; ++step) {
    model.ZeroGradients();
    double loss = 0;
    for (const RowScores& row : model.Run(rows, 512, 1, &gradient)) {
      for (const float logp : row.logps) loss -= logp / static_cast<double>(items);
    }
    const double norm = optimizer.GradientNorm(model.gradients.data());
    EXPECT_NEAR(loss, expected["losses"][step - 1].get<double>(), 2e-5) << step;
    EXPECT_NEAR(norm / expected["grad_norms"][step - 1].get<double>(), 1, 1e-4) << step;
    optimizer.Step(1e-3, step, norm, model.gradients.data(), model.weights.data(), model.m.data(), model.v.data());
  }
  double squares = 0;
  int64_t elements = 0;
  for (const TensorPart& part : model.manifest.parts) {
    ASSERT_OK_AND_ASSIGN(const std::vector<float> torch, reference->Floats("adamw10." + part.checkpoint_name));
    const std::vector<float> ours = model.TensorOf(part, model.weights);
    for (size_t i = 0; i < torch.size(); ++i) squares += std::pow(static_cast<double>(ours[i]) - torch[i], 2);
    elements += static_cast<int64_t>(torch.size());
  }
  EXPECT_LE(std::sqrt(squares / static_cast<double>(elements)), 5e-6);
}

}  // namespace
}  // namespace tandem::trainer
