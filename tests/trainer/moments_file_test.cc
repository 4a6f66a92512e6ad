#include "services/trainer/step/moments_file.h"

#include <cmath>
#include <filesystem>

#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"
#include "tests/trainer/model_fixture.h"

namespace tandem::trainer {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::HasSubstr;

absl::Status GoOn() {
  return absl::OkStatus();
}

class MomentsFileTest : public ::testing::Test {
 protected:
  MomentsFileTest() {
    for (const WeightEntry& entry : model_.manifest.entries) {
      for (int64_t i = 0; i < entry.elements; ++i) {
        const uint64_t at = entry.offset + static_cast<uint64_t>(i);
        model_.m[at] = std::sin(static_cast<float>(at));
        model_.v[at] = std::cos(static_cast<float>(at));
      }
    }
  }
  ModelFixture model_{testing::TestData("grpo/model")};
  const testing::TempDir dir_;
  const std::string path_ = dir_.File("moments.safetensors");
};

TEST_F(MomentsFileTest, EveryBitComesBack) {
  ASSERT_THAT(WriteMoments(path_, model_.manifest, model_.m, model_.v, GoOn), IsOk());
  std::vector<float> m(model_.m.size(), 5), v(model_.v.size(), 5);
  ASSERT_THAT(ReadMoments(path_, model_.manifest, absl::MakeSpan(m), absl::MakeSpan(v), GoOn), IsOk());
  EXPECT_EQ(m, model_.m);
  EXPECT_EQ(v, model_.v);
}

TEST_F(MomentsFileTest, TensorsHaveTheNamesAndShapesOfTheCheckpoint) {
  ASSERT_THAT(WriteMoments(path_, model_.manifest, model_.m, model_.v, GoOn), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto file, Safetensors::Open(path_));
  EXPECT_EQ(file->tensors().size(), 2 * model_.manifest.parts.size());
  for (const TensorPart& part : model_.manifest.parts) {
    ASSERT_OK_AND_ASSIGN(const std::vector<float> m, file->Floats("m." + part.checkpoint_name));
    EXPECT_EQ(m, model_.TensorOf(part, model_.m)) << part.checkpoint_name;
  }
}

TEST_F(MomentsFileTest, AnErrorBetweenTensorsLeavesNoFile) {
  int tensors = 0;
  const auto stop = [&] { return ++tensors < 3 ? absl::OkStatus() : absl::CancelledError("enough"); };
  EXPECT_THAT(WriteMoments(path_, model_.manifest, model_.m, model_.v, stop),
              StatusIs(absl::StatusCode::kCancelled, "enough"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(MomentsFileTest, MomentsOfAnotherModelAreRefused) {
  WeightManifest other = model_.manifest;
  other.parts[2].checkpoint_name += ".other";
  ASSERT_THAT(WriteMoments(path_, other, model_.m, model_.v, GoOn), IsOk());
  EXPECT_THAT(ReadMoments(path_, model_.manifest, absl::MakeSpan(model_.m), absl::MakeSpan(model_.v), GoOn),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(model_.manifest.parts[2].checkpoint_name)));
}

}  // namespace
}  // namespace tandem::trainer
