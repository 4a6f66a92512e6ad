#pragma once
// A generator over a random model in plain memory: what the engine does between two grants, without an arbiter.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "services/inference/generator.h"
#include "tests/testing/fake_clock.h"
#include "tests/transformer/model_run.h"

namespace tandem::testing {

// Keeps everything a request gets.
class RecordingSink final : public inference::RequestSink {
 public:
  void OnPromptLogprobs(std::vector<float> logprobs, uint64_t version) override {
    prompt_logprobs = std::move(logprobs);
    prompt_version = version;
  }
  void OnToken(const inference::TokenEvent& event) override {
    tokens[event.index].push_back(event.token);
    logprobs[event.index].push_back(event.logprob);
    versions[event.index].push_back(event.version);
    finish[event.index] = event.finish;
  }
  void OnDone(const absl::Status& status, absl::Duration time) override {
    done = status;
    busy = time;
  }
  absl::Status Abandoned() const override { return abandoned; }

  // By completion of the request.
  std::map<int, std::vector<int>> tokens;
  std::map<int, std::vector<float>> logprobs;
  std::map<int, std::vector<uint64_t>> versions;
  std::map<int, inference::FinishReason> finish;
  std::vector<float> prompt_logprobs;
  uint64_t prompt_version = 0;
  std::optional<absl::Status> done;
  absl::Duration busy;
  absl::Status abandoned;
};

// A model with grouped heads and a vocabulary that is no multiple of a vector.
ModelConfig SmallConfig();

class GeneratorRun {
 public:
  explicit GeneratorRun(inference::GeneratorLimits limits = {.kv_blocks = 512}, int threads = 2);
  GeneratorRun(const std::string& model_dir, inference::GeneratorLimits limits);

  std::shared_ptr<RecordingSink> Add(inference::Request request);
  // One step; false when there is nothing to do.
  bool Step();
  void RunAll();
  // Whatever another tenant may have done to memory that was dropped.
  void Overwrite();
  // From here on the weights are these.
  void SetWeights(uint64_t version, std::vector<float> weights);

  ModelRun model;
  FakeClock clock;
  std::unique_ptr<inference::Generator> generator;

 private:
  void MakeGenerator(inference::GeneratorLimits limits);

  std::vector<float> kv_;
  std::vector<std::byte> workspace_;
  uint64_t next_id_ = 1;
};

// Random ids within SmallConfig's vocabulary.
std::vector<int> RandomPrompt(int tokens, uint32_t seed);

}  // namespace tandem::testing
