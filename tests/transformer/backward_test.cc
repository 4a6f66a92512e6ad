// The backward of whole models against differences of their forward, along the gradient of each weight: the loss must
// rise by |gradient| per unit of way. What one operation's backward could hide from its own test shows here.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/transformer/model_run.h"
#include "tests/transformer/tiny_configs.h"

namespace tandem::testing {
namespace {

class WholeBackwardTest : public ::testing::TestWithParam<ModelConfig> {
 protected:
  WholeBackwardTest() : model_(GetParam(), 3, MakeCpuKernels(2)) {
    for (int s = 0; s < 4; ++s) {
      std::vector<int> sequence(3 + 20 * s);
      for (size_t i = 0; i < sequence.size(); ++i)
        sequence[i] = static_cast<int>(i * 31 + s * 7 + i * i) % GetParam().vocab_size;
      pack_.Add(sequence, 2);
    }
    weight_.resize(pack_.rows.size());
    for (size_t i = 0; i < weight_.size(); ++i) weight_[i] = std::sin(static_cast<float>(i)) * 0.2F;
  }

  double Loss() {
    const std::vector<float> logprob = model_.Score(pack_, 0.7F).logprob;
    double loss = 0;
    for (size_t i = 0; i < logprob.size(); ++i) loss += static_cast<double>(weight_[i]) * logprob[i];
    return loss;
  }

  ModelRun model_;
  Pack pack_;
  std::vector<float> weight_;
};

TEST_P(WholeBackwardTest, EachWeightsGradientIsTheSlopeOfTheLoss) {
  const std::vector<float> gradients = model_.Gradients(pack_, weight_, 0.7F);
  const std::vector<float> weights = model_.weights();
  for (const WeightEntry& entry : model_.transformer().manifest().entries) {
    const float* g = gradients.data() + entry.offset;
    double squares = 0;
    for (int64_t i = 0; i < entry.elements; ++i) squares += static_cast<double>(g[i]) * g[i];
    const double norm = std::sqrt(squares);
    ASSERT_GT(norm, 0) << entry.name;
    const double step = 2e-3;
    double loss[2];
    for (const int side : {0, 1}) {
      model_.weights() = weights;
      for (int64_t i = 0; i < entry.elements; ++i) {
        model_.weights()[entry.offset + i] += static_cast<float>((side == 0 ? step : -step) * g[i] / norm);
      }
      loss[side] = Loss();
    }
    EXPECT_NEAR((loss[0] - loss[1]) / (2 * step) / norm, 1.0, 3e-3) << entry.name;
  }
}

TEST_P(WholeBackwardTest, GradientsAreAddedTo) {
  const std::vector<float> once = model_.Gradients(pack_, weight_, 1.0F);
  std::vector<float> twice(once.size());
  std::vector<float> logprob(pack_.rows.size());
  const Transformer& transformer = model_.transformer();
  std::vector<std::byte> workspace(
      transformer.TrainWorkspaceBytes(static_cast<int>(pack_.tokens.size()), static_cast<int>(pack_.rows.size())));
  for (int i = 0; i < 2; ++i) {
    transformer.ForwardTrain(model_.weights().data(), {pack_.tokens, pack_.cu_seqlens}, {pack_.rows, pack_.targets},
                             1.0F, workspace.data(), logprob.data(), nullptr);
    transformer.BackwardTrain(model_.weights().data(), {pack_.tokens, pack_.cu_seqlens}, {pack_.rows, pack_.targets},
                              1.0F, weight_.data(), workspace.data(), twice.data());
  }
  double largest = 0;
  for (const float g : once) largest = std::max(largest, std::abs(static_cast<double>(g)));
  for (size_t i = 0; i < once.size(); ++i) ASSERT_NEAR(twice[i], 2 * once[i], 1e-5 * largest);
}

TEST_P(WholeBackwardTest, AWorkspaceIsWrittenUpToItsBytesOnly) {
  const Transformer& transformer = model_.transformer();
  const uint64_t bytes =
      transformer.TrainWorkspaceBytes(static_cast<int>(pack_.tokens.size()), static_cast<int>(pack_.rows.size()));
  std::vector<std::byte> workspace(bytes + 4096, std::byte{0x5a});
  std::vector<float> logprob(pack_.rows.size()), gradients(model_.weights().size());
  transformer.ForwardTrain(model_.weights().data(), {pack_.tokens, pack_.cu_seqlens}, {pack_.rows, pack_.targets}, 1.0F,
                           workspace.data(), logprob.data(), nullptr);
  transformer.BackwardTrain(model_.weights().data(), {pack_.tokens, pack_.cu_seqlens}, {pack_.rows, pack_.targets},
                            1.0F, weight_.data(), workspace.data(), gradients.data());
  for (uint64_t i = bytes; i < workspace.size(); ++i) ASSERT_EQ(workspace[i], std::byte{0x5a});
}

INSTANTIATE_TEST_SUITE_P(Models, WholeBackwardTest, ::testing::ValuesIn(TinyConfigs()),
                         [](const auto& info) { return "Hidden" + std::to_string(info.param.hidden_size); });

}  // namespace
}  // namespace tandem::testing
