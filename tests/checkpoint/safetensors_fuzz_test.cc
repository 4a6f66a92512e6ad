// Mutated files, deterministic and bounded: reading them must end in a status, never in a crash. Most worth running
// under the asan preset.

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "common/base/file.h"
#include "common/base/philox.h"
#include "services/checkpoint/checkpoint.h"
#include "services/checkpoint/safetensors.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem {
namespace {

using ::tandem::testing::TempDir;
using ::tandem::testing::TestData;

constexpr int kMutations = 20000;
constexpr int kFiles = 300;

// A stream of draws of one mutation.
class Draws {
 public:
  explicit Draws(uint64_t mutation) : mutation_(mutation) {}
  size_t Below(size_t bound) { return Philox(/*key=*/17, next_++, mutation_)[0] % bound; }

 private:
  uint64_t mutation_;
  uint64_t next_ = 0;
};

// A few edits, mostly in the first `header` bytes: bytes set, bits flipped, ranges cut, doubled or replaced by tokens.
std::string Mutate(std::string bytes, size_t header, Draws& draws) {
  static constexpr const char* kTokens[] = {"-1",   "18446744073709551615", "1e99", "\"",  "{",  "}",    "[",
                                            "null", "9223372036854775808",  ",",    "F64", "\\", "\xFF", "0"};
  const size_t edits = 1 + draws.Below(4);
  for (size_t i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = draws.Below(std::min(bytes.size(), draws.Below(8) == 0 ? bytes.size() : header));
    const size_t count = std::min(bytes.size() - at, 1 + draws.Below(20));
    switch (draws.Below(6)) {
      case 0:
        bytes[at] = static_cast<char>(draws.Below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << draws.Below(8)));
        break;
      case 2:
        bytes.erase(at, count);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, count));
        break;
      case 4:
        bytes.replace(at, count, kTokens[draws.Below(std::size(kTokens))]);
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

TEST(SafetensorsFuzz, MutatedHeadersNeverCrashAndWhatIsAcceptedLiesInTheData) {
  ASSERT_OK_AND_ASSIGN(const std::string original, ReadFile(TestData("checkpoint/bf16/model.safetensors")));
  uint64_t header = 0;
  std::memcpy(&header, original.data(), sizeof header);
  const uint64_t data_bytes = original.size() - sizeof header - header;
  int refused = 0;
  for (int mutation = 0; mutation < kMutations; ++mutation) {
    Draws draws(static_cast<uint64_t>(mutation));
    const std::string text = Mutate(original.substr(sizeof header, header), header, draws);
    auto tensors = ParseSafetensorsHeader(text, data_bytes, "fuzz");
    if (!tensors.ok()) {
      ++refused;
      continue;
    }
    uint64_t end = 0;
    for (const TensorInfo& tensor : *tensors) {
      ASSERT_EQ(tensor.begin, end);
      end = tensor.end;
      uint64_t elements = 1;
      for (const int64_t dimension : tensor.shape) elements *= static_cast<uint64_t>(dimension);
      ASSERT_EQ(elements * DtypeBytes(tensor.dtype), tensor.end - tensor.begin);
    }
    ASSERT_EQ(end, data_bytes);
  }
  EXPECT_GT(refused, kMutations / 2);  // the mutations do reach what is checked
}

TEST(SafetensorsFuzz, MutatedFilesNeverCrashAndReadOnlyTheirOwnBytes) {
  const TempDir temp;
  ASSERT_OK_AND_ASSIGN(const std::string original, ReadFile(TestData("checkpoint/bf16/model.safetensors")));
  ASSERT_OK_AND_ASSIGN(const std::string config_text, ReadFile(TestData("checkpoint/bf16/config.json")));
  ASSERT_TRUE(WriteFileAtomically(temp.File("config.json"), config_text).ok());
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(temp.path()));
  const WeightManifest manifest = MakeWeightManifest(config);
  std::vector<float> weights(manifest.total_elements);
  uint64_t header = 0;
  std::memcpy(&header, original.data(), sizeof header);
  int refused = 0;
  for (int mutation = 0; mutation < kFiles; ++mutation) {
    Draws draws(static_cast<uint64_t>(mutation));
    const std::string bytes = Mutate(original, header + sizeof header, draws);
    std::ofstream(temp.File("model.safetensors"), std::ios::binary | std::ios::trunc) << bytes;
    if (!LoadWeights(temp.path(), config, manifest, absl::MakeSpan(weights)).ok()) ++refused;
    auto file = Safetensors::Open(temp.File("model.safetensors"));
    if (!file.ok()) continue;
    unsigned sum = 0;
    for (const TensorInfo& tensor : (*file)->tensors()) {
      for (const std::byte byte : (*file)->Bytes(tensor)) sum += static_cast<unsigned>(byte);
    }
    EXPECT_GT(sum, 0U);
  }
  EXPECT_GT(refused, kFiles / 2);
}

TEST(ConfigFuzz, MutatedConfigsNeverCrash) {
  ASSERT_OK_AND_ASSIGN(const std::string original, ReadFile(TestData("checkpoint/fp16/config.json")));
  int refused = 0;
  for (int mutation = 0; mutation < kMutations; ++mutation) {
    Draws draws(static_cast<uint64_t>(mutation));
    const std::string text = Mutate(original, original.size(), draws);
    if (!ParseModelConfig(text, text, "fuzz").ok()) ++refused;
  }
  EXPECT_GT(refused, kMutations / 2);
}

}  // namespace
}  // namespace tandem
