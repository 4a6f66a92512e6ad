// The scoring half of a step: logits of the wanted rows in parts, the choice of tokens, their log-probabilities.

#include <algorithm>

#include "services/inference/generator.h"

namespace tandem::inference {

std::vector<Generator::Choice> Generator::Score(const float* weights, const std::vector<OutputRow>& rows,
                                                const float* hidden) {
  std::vector<Choice> choices;
  const size_t width = static_cast<size_t>(transformer_.config().hidden_size);
  for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(logit_rows_)) {
    const size_t count = std::min(static_cast<size_t>(logit_rows_), rows.size() - begin);
    transformer_.Logits(weights, hidden + begin * width, static_cast<int>(count), logits_);
    ScorePart(absl::MakeConstSpan(rows).subspan(begin, count), choices);
  }
  return choices;
}

// Chooses tokens for rows whose logits lie in logits_, and takes log-probabilities in runs of equal temperature. The
// further completions of a prompt draw from the same row of logits.
void Generator::ScorePart(absl::Span<const OutputRow> rows, std::vector<Choice>& choices) {
  const int vocab = transformer_.config().vocab_size;
  const auto row_logits = [&](size_t i) {
    return absl::MakeConstSpan(logits_ + i * static_cast<size_t>(vocab), static_cast<size_t>(vocab));
  };
  std::vector<int> targets;
  for (size_t i = 0; i < rows.size(); ++i) {
    targets.push_back(rows[i].target >= 0 ? rows[i].target : SampleRow(rows[i], 0, row_logits(i)));
  }
  std::vector<float> logprobs(rows.size());
  for (size_t begin = 0; begin < rows.size();) {
    const float temperature = LogprobTemperature(rows[begin].live->request.sampling);
    size_t end = begin + 1;
    while (end < rows.size() && LogprobTemperature(rows[end].live->request.sampling) == temperature) ++end;
    kernels_.LogProb(row_logits(begin).data(), static_cast<int>(end - begin), vocab, temperature, &targets[begin],
                     &logprobs[begin], nullptr, nullptr);
    begin = end;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const int forks = rows[i].target >= 0 ? 1 : rows[i].sequence->forks;
    for (int sample = 1; sample < forks; ++sample) {
      Choice choice{.row = rows[i], .sample = sample, .token = SampleRow(rows[i], sample, row_logits(i))};
      kernels_.LogProb(row_logits(i).data(), 1, vocab, LogprobTemperature(rows[i].live->request.sampling),
                       &choice.token, &choice.logprob, nullptr, nullptr);
      choices.push_back(choice);
    }
    // Sample 0 comes last: it goes on in the prompt's own blocks, which the others start from.
    choices.push_back({.row = rows[i], .sample = 0, .token = targets[i], .logprob = logprobs[i]});
  }
}

int Generator::SampleRow(const OutputRow& row, int sample, absl::Span<const float> logits) {
  const SamplingParams& params = row.live->request.sampling;
  const auto index = static_cast<uint64_t>(row.sequence->index) + static_cast<uint64_t>(sample);
  return sampler_.Sample(logits, params, SampleUniform(params.seed, index, row.position + 1));
}

}  // namespace tandem::inference
