// GRPO losses and gradients through our own model, against TRL's.

#include <cmath>

#include "services/trainer/step/optimizer.h"
#include "tests/testing/status_matchers.h"
#include "tests/trainer/grpo_case.h"
#include "tests/trainer/model_fixture.h"

namespace tandem::trainer {
namespace {

std::vector<std::vector<float>> Logps(const std::vector<RowScores>& scores) {
  std::vector<std::vector<float>> out;
  out.reserve(scores.size());
  for (const RowScores& row : scores) out.push_back(row.logps);
  return out;
}

std::vector<std::vector<float>> Entropies(const std::vector<RowScores>& scores) {
  std::vector<std::vector<float>> out;
  out.reserve(scores.size());
  for (const RowScores& row : scores) out.push_back(row.entropies);
  return out;
}

class GrpoModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<Sequence> Rows() const {
    std::vector<Sequence> rows;
    for (size_t i = 0; i < case_.prompt_ids.size(); ++i) rows.push_back({case_.prompt_ids[i], case_.completion_ids[i]});
    return rows;
  }

  // Forward and backward of the whole case in packs of `pack_tokens`.
  std::vector<RowScores> Accumulate(int64_t pack_tokens) {
    model_.ZeroGradients();
    // Weights and advantages are known before the forward; log-probabilities come with it.
    const std::vector<ScoredRow> known = RowsOf(case_, case_.logps, case_.old_logps, case_.entropies);
    const TokenGradient gradient = [&](size_t row, const RowScores& scores, absl::Span<float> out) {
      for (size_t t = 0; t < out.size(); ++t) {
        const double old = case_.on_policy ? scores.logps[t] : case_.old_logps[row][t];
        const TokenTerm term = ComputeTokenTerm(case_.options, scores.logps[t], old, known[row].advantage);
        out[t] = static_cast<float>(known[row].token_weight * term.gradient);
      }
    };
    return model_.Run(Rows(), pack_tokens, static_cast<float>(case_.temperature), &gradient);
  }

  const GrpoCase case_ = ReadGrpoCase(GetParam() + ".json");
  ModelFixture model_{ModelOf(GetParam())};
};

TEST_P(GrpoModelTest, LossesAreThoseOfTrl) {
  const std::vector<std::vector<float>> scores = Logps(Accumulate(64)), entropies = Entropies(Accumulate(64));
  const std::vector<ScoredRow> rows = RowsOf(case_, scores, case_.on_policy ? scores : case_.old_logps, entropies);
  const std::vector<double> losses = MicroBatchLosses(case_.options, rows);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], case_.micro_batch_losses[i], 2e-6) << i;
}

TEST_P(GrpoModelTest, GradientsAreThoseOfTrl) {
  Accumulate(64);
  ASSERT_OK_AND_ASSIGN(const auto expected, Safetensors::Open(GetParam() + ".safetensors"));
  int compared = 0;
  for (const TensorPart& part : model_.manifest.parts) {
    const std::string name = "grad." + part.checkpoint_name;
    if (expected->Find(name) == nullptr) continue;
    ASSERT_OK_AND_ASSIGN(const std::vector<float> gradient, expected->Floats(name));
    EXPECT_LE(RelativeDifference(model_.TensorOf(part, model_.gradients), gradient), 5e-5) << name;
    ++compared;
  }
  EXPECT_GE(compared, 2);
  const Optimizer optimizer(*model_.kernels, model_.manifest, {}, [] {});
  EXPECT_NEAR(optimizer.GradientNorm(model_.gradients.data()) / case_.grad_norm, 1, 5e-5);
}

TEST_P(GrpoModelTest, PacksChangeNothingBeyondRounding) {
  const std::vector<RowScores> whole = Accumulate(1024);
  const std::vector<float> gradients = model_.gradients;
  const std::vector<RowScores> small = Accumulate(1);  // one row a pack
  EXPECT_EQ(Logps(whole), Logps(small));               // not even rounding: the bits of a row are its own
  EXPECT_EQ(Entropies(whole), Entropies(small));
  EXPECT_LE(RelativeDifference(model_.gradients, gradients), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Cases, GrpoModelTest, ::testing::ValuesIn(GrpoCasePaths()),
                         [](const auto& info) { return GrpoCaseName(info.param); });

}  // namespace
}  // namespace tandem::trainer
