// A token's log-probability has the same bits however it is computed: in the training forward, whatever the pack; in
// paged inference, whatever the chunks of the prompt, the batch and the blocks; with any threads and vectors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/transformer/model_run.h"
#include "tests/transformer/tiny_configs.h"

namespace tandem::testing {
namespace {

constexpr float kTemperature = 0.7F;

std::vector<std::vector<int>> Sequences(int count, int vocab, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<int>> sequences(count);
  for (auto& sequence : sequences) {
    sequence.resize(2 + random() % 90);
    for (int& token : sequence) token = static_cast<int>(random() % static_cast<uint64_t>(vocab));
  }
  return sequences;
}

// log-probabilities of tokens 1.. of each sequence, from one pack.
std::vector<std::vector<float>> TrainLogProbs(ModelRun& model, const std::vector<std::vector<int>>& sequences) {
  Pack pack;
  for (const auto& sequence : sequences) pack.Add(sequence);
  const std::vector<float> all = model.Score(pack, kTemperature).logprob;
  std::vector<std::vector<float>> result;
  auto at = all.begin();
  for (const auto& sequence : sequences) {
    result.emplace_back(at, at + static_cast<int64_t>(sequence.size()) - 1);
    at += static_cast<int64_t>(sequence.size()) - 1;
  }
  return result;
}

// The same from paged inference: every step takes a random number of next tokens of each of the sequences, as a
// scheduler with chunked prompts would, with all KV blocks scattered.
class PagedRun {
 public:
  PagedRun(ModelRun& model, const std::vector<std::vector<int>>& sequences, uint64_t seed)
      : model_(model), sequences_(sequences), random_(seed), done_(sequences.size()), result_(sequences.size()) {
    int blocks = 0;
    for (const auto& sequence : sequences) blocks += static_cast<int>(sequence.size()) / kKvBlock + 1;
    std::vector<int> ids(blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random_);
    for (const auto& sequence : sequences) {
      const auto count = static_cast<int64_t>(sequence.size()) / kKvBlock + 1;
      tables_.emplace_back(ids.end() - count, ids.end());
      ids.resize(ids.size() - count);
    }
    for (const auto& table : tables_) table_spans_.push_back(table);
    kv_.assign(model.transformer().KvBytes(blocks) / sizeof(float), NAN);
  }

  std::vector<std::vector<float>> LogProbs() {
    while (Step()) {
    }
    return result_;
  }

 private:
  bool Step() {
    std::vector<int> order(sequences_.size()), tokens, positions, sequence, wanted;
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (const int s : order) {
      const int left = static_cast<int>(sequences_[s].size()) - done_[s];
      const int most = random_() % 3 == 0 ? 40 : 1;
      for (int taken = 0; taken < std::min(left, most); ++taken) {
        tokens.push_back(sequences_[s][done_[s]]);
        positions.push_back(done_[s]++);
        sequence.push_back(s);
        wanted.push_back(static_cast<int>(wanted.size()));
      }
    }
    if (tokens.empty()) return false;
    const ModelConfig& config = model_.transformer().config();
    const int rows = static_cast<int>(tokens.size());
    std::vector<std::byte> workspace(model_.transformer().PagedWorkspaceBytes(rows), std::byte{0xff});
    std::vector<float> hidden(int64_t{rows} * config.hidden_size), logits(int64_t{rows} * config.vocab_size);
    model_.transformer().ForwardPaged(model_.weights().data(), {tokens, positions, sequence, table_spans_, wanted},
                                      kv_.data(), workspace.data(), hidden.data());
    model_.transformer().Logits(model_.weights().data(), hidden.data(), rows, logits.data());
    for (int row = 0; row < rows; ++row) {
      const auto& whole = sequences_[sequence[row]];
      if (positions[row] + 1 == static_cast<int>(whole.size())) continue;
      float logprob = 0;
      model_.kernels().LogProb(&logits[int64_t{row} * config.vocab_size], 1, config.vocab_size, kTemperature,
                               &whole[positions[row] + 1], &logprob, nullptr, nullptr);
      result_[sequence[row]].push_back(logprob);
    }
    return true;
  }

  ModelRun& model_;
  const std::vector<std::vector<int>>& sequences_;
  std::mt19937_64 random_;
  std::vector<int> done_;
  std::vector<std::vector<float>> result_;
  std::vector<std::vector<int>> tables_;
  std::vector<absl::Span<const int>> table_spans_;
  std::vector<float> kv_;
};

class RowInvarianceTest : public ::testing::TestWithParam<ModelConfig> {
 protected:
  std::unique_ptr<ModelRun> Model(int threads = 2, CpuVectors vectors = CpuVectors::kBest) const {
    return std::make_unique<ModelRun>(GetParam(), 5, MakeCpuKernels(threads, vectors));
  }
  std::vector<std::vector<int>> sequences_ = Sequences(32, GetParam().vocab_size, 11);
};

TEST_P(RowInvarianceTest, PagedBatchesOf32EqualTheTrainingForward) {
  const auto model = Model();
  const auto trained = TrainLogProbs(*model, sequences_);
  for (const uint64_t seed : {1, 2}) EXPECT_EQ(PagedRun(*model, sequences_, seed).LogProbs(), trained);
}

TEST_P(RowInvarianceTest, ASequenceAloneEqualsItselfInABatch) {
  const auto model = Model();
  const auto together = TrainLogProbs(*model, sequences_);
  for (size_t s = 0; s < 6; ++s) {
    const std::vector<std::vector<int>> alone = {sequences_[s]};
    EXPECT_EQ(TrainLogProbs(*model, alone)[0], together[s]);
    EXPECT_EQ(PagedRun(*model, alone, s).LogProbs()[0], together[s]);
  }
}

TEST_P(RowInvarianceTest, ThreadsAndVectorsChangeNoBitOfForwardAndBackward) {
  Pack pack;
  for (const auto& sequence : sequences_) pack.Add(sequence);
  std::vector<float> weight(pack.rows.size());
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = std::sin(static_cast<float>(i));
  const auto first = Model(1);
  const Scores scores = first->Score(pack, kTemperature);
  const std::vector<float> gradients = first->Gradients(pack, weight, kTemperature);
  for (const int threads : {2, 3}) {
    for (const CpuVectors vectors : {CpuVectors::kBest, CpuVectors::kAvx2}) {
      const auto other = Model(threads, vectors);
      const Scores other_scores = other->Score(pack, kTemperature);
      EXPECT_EQ(other_scores.logprob, scores.logprob) << other->kernels().description();
      EXPECT_EQ(other_scores.entropy, scores.entropy) << other->kernels().description();
      EXPECT_EQ(other->Gradients(pack, weight, kTemperature), gradients) << other->kernels().description();
    }
  }
}

TEST_P(RowInvarianceTest, TheLastBitOfOneWeightShows) {
  const auto model = Model();
  const auto before = TrainLogProbs(*model, sequences_);
  float& weight = model->weights()[model->transformer().manifest().at("layers.0.o").offset];
  weight = std::nextafter(weight, 1e9F);
  EXPECT_NE(PagedRun(*model, sequences_, 1).LogProbs(), before);
}

INSTANTIATE_TEST_SUITE_P(Models, RowInvarianceTest, ::testing::ValuesIn(TinyConfigs()),
                         [](const auto& info) { return "Hidden" + std::to_string(info.param.hidden_size); });

}  // namespace
}  // namespace tandem::testing
