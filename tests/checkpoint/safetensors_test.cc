#include "services/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "services/checkpoint/safetensors_writer.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::SafetensorsBytes;
using ::tandem::testing::StatusIs;
using ::tandem::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Write(const TempDir& temp, const std::string& bytes) {
  std::string path = temp.File("x.safetensors");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

TEST(Safetensors, TensorsAreReadByNameAndType) {
  const TempDir temp;
  const float floats[2] = {1.5F, -2.0F};
  const int32_t ints[3] = {7, -8, 9};
  std::string data(reinterpret_cast<const char*>(floats), sizeof floats);
  data.append(reinterpret_cast<const char*>(ints), sizeof ints);
  // An odd header length, so that nothing in the mapping is aligned; escapes and metadata as real files have them.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a\u00e9":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}, )"
      R"("i":{"shape":[3],"data_offsets":[8,20],"dtype":"I32"},"e":{"dtype":"U8","shape":[0,5],"data_offsets":[20,20]}} )";
  ASSERT_OK_AND_ASSIGN(const auto file, Safetensors::Open(Write(temp, SafetensorsBytes(header, data))));
  ASSERT_EQ(file->tensors().size(), 3U);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> a, file->Floats("a\xC3\xA9"));
  EXPECT_THAT(a, ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(file->Find("a\xC3\xA9")->shape, ElementsAre(2, 1));
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> i, file->Ints("i"));
  EXPECT_THAT(i, ElementsAre(7, -8, 9));
  EXPECT_EQ(file->Find("e")->elements(), 0);
  EXPECT_EQ(file->Find("nothing"), nullptr);
  EXPECT_THAT(file->Floats("i"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is I32, not F32")));
  EXPECT_THAT(file->Ints("nothing"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nothing")));
}

TEST(Safetensors, AMissingFileIsNotFound) {
  EXPECT_THAT(Safetensors::Open("/nowhere/x.safetensors"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/x.safetensors")));
}

TEST(Safetensors, ADirectoryIsNotAFile) {
  const TempDir temp;
  EXPECT_THAT(Safetensors::Open(temp.path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

struct Hostile {
  std::string name, header, error;
  size_t data_bytes = 16;
  int64_t length = -1;
};

class HostileHeader : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileHeader, IsRefusedWithFileAndReason) {
  const TempDir temp;
  const Hostile& c = GetParam();
  const std::string path = Write(temp, SafetensorsBytes(c.header, std::string(c.data_bytes, 'x'), c.length));
  EXPECT_THAT(Safetensors::Open(path),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(path), HasSubstr(c.error))));
}

// One tensor "t" with these fields.
std::string T(const std::string& fields) {
  return R"({"t":{)" + fields + "}}";
}
std::string T(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return T(R"("dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]");
}

INSTANTIATE_TEST_SUITE_P(
    Safetensors, HostileHeader,
    ::testing::Values(
        Hostile{"LengthBeyondFile", "{}", "only 18 follow", 16, 1000},
        Hostile{"LengthAbsurd", "{}", "more than 100000000", 16, int64_t{1} << 62},
        Hostile{"LengthZero", "", "not JSON", 16, 0},
        Hostile{"LengthOneShort", T("F32", "4", "0,16"), "not JSON", 16,
                static_cast<int64_t>(T("F32", "4", "0,16").size()) - 1},
        Hostile{"LengthIntoTheData", T("F32", "4", "0,16"), "not JSON", 16,
                static_cast<int64_t>(T("F32", "4", "0,16").size()) + 1},
        Hostile{"NotJson", "{\"t\":", "not JSON"}, Hostile{"NotUtf8", "{\"\xFF\":1}", "not JSON"},
        Hostile{"AList", "[1]", "not an object"}, Hostile{"ANumber", "5", "not an object"},
        Hostile{"DeepNesting", std::string(100000, '['), "not an object"},
        Hostile{"TensorIsNumber", R"({"t":1})", "holds the number 1"},
        Hostile{"TensorIsList", R"({"t":[]})", "holds a list"}, Hostile{"TensorIsNull", R"({"t":null})", "null"},
        Hostile{"MetadataNested", R"({"__metadata__":{"a":{}}})", "__metadata__ is not text to text"},
        Hostile{"MetadataNumber", R"({"__metadata__":3})", "__metadata__ is not text to text"},
        Hostile{"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", "\"__metadata__\" stands twice"},
        Hostile{
            "TensorTwice",
            R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"t":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
            "\"t\" stands twice"},
        Hostile{"FieldTwice", T(R"("dtype":"F32","dtype":"F32")"), "dtype twice"},
        Hostile{"FieldUnknown", T(R"("dtype":"F32","stride":[1])"), "unknown field \"stride\""},
        Hostile{"FieldMissing", T(R"("dtype":"F32","shape":[4])"), "lacks one of"},
        Hostile{"DtypeUnknown", T("F31", "4", "0,16"), "unknown dtype \"F31\""},
        Hostile{"DtypeNumber", T(R"("dtype":7)"), "holds the number 7"},
        Hostile{"ShapeNegative", T("F32", "-4", "0,16"), "negative number -4"},
        Hostile{"ShapeFraction", T("F32", "4.5", "0,16"), "not a whole number"},
        Hostile{"ShapeText", T("F32", "\"4\"", "0,16"), "holds the text \"4\""},
        Hostile{"ShapeNested", T("F32", "[4]", "0,16"), "holds a list"},
        Hostile{"ShapeBeyond64Bits", T("F32", "99999999999999999999", "0,16"), "not a whole number of 64 bits"},
        Hostile{"ShapeBeyond63Bits", T("F32", "18446744073709551615", "0,16"), "beyond 2^63"},
        Hostile{"ShapeProductOverflows", T("F32", "4294967296,4294967296", "0,16"), "beyond 2^64"},
        Hostile{"ShapeBytesOverflowToFit", T("F32", "4611686018427387908", "0,16"), "beyond 2^64"},
        Hostile{"ShapeRank", T("F32", "1,1,1,1,1,1,1,1,4", "0,16"), "more than 8 dimensions"},
        Hostile{"OffsetsOne", T("F32", "4", "0"), "fewer than two"},
        Hostile{"OffsetsThree", T("F32", "4", "0,8,16"), "more than two"},
        Hostile{"OffsetsBackwards", T("F32", "4", "16,0"), "behind its end"},
        Hostile{"OffsetsBeyondData", T("F32", "8", "0,32"), "the file is truncated"},
        Hostile{"OffsetsHuge", T("F32", "4", "18446744073709551600,18446744073709551615"), "the file is truncated"},
        Hostile{"BytesTooFew", T("F32", "4", "0,12"), "needs 16 bytes"},
        Hostile{"BytesTooMany", T("F32", "3", "0,16"), "needs 12 bytes"},
        Hostile{
            "Overlap",
            R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
            "they overlap"},
        Hostile{
            "SameRange",
            R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
            "they overlap"},
        Hostile{"Gap", T("F32", "2", "8,16"), "a gap"},
        Hostile{"DataLeftOver", T("F32", "2", "0,8"), "end at byte 8 of the data, which has 16"},
        Hostile{
            "Misaligned",
            R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[3],"data_offsets":[2,14]}})",
            "misaligned", 14}),
    [](const auto& info) { return info.param.name; });

TEST(Safetensors, EveryTruncationOfAFileIsRefused) {
  const TempDir temp;
  const std::string whole = SafetensorsBytes(T("F32", "4", "0,16"), std::string(16, 'x'));
  ASSERT_THAT(Safetensors::Open(Write(temp, whole)), IsOk());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THAT(Safetensors::Open(Write(temp, whole.substr(0, bytes))),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x.safetensors")))
        << bytes;
  }
}

TEST(Safetensors, AGitLfsPointerIsNamed) {
  const TempDir temp;
  EXPECT_THAT(Safetensors::Open(Write(temp, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("git lfs pull")));
}

TEST(SafetensorsWriter, AStreamOfTensorsReadsBack) {
  const TempDir temp;
  std::vector<float> large(300000);  // more than one buffer
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i);
  {
    ASSERT_OK_AND_ASSIGN(const auto writer,
                         SafetensorsWriter::Create(temp.File("w"), {{"n", {2}}, {"m", {1000, 300}}}));
    ASSERT_THAT(writer->Append(std::vector<float>{1.0F, 2.0F}), IsOk());
    ASSERT_THAT(writer->Append(absl::MakeSpan(large).subspan(0, 7)), IsOk());
    ASSERT_THAT(writer->Append(absl::MakeSpan(large).subspan(7)), IsOk());
    ASSERT_THAT(writer->Finish(), IsOk());
  }
  ASSERT_OK_AND_ASSIGN(const auto file, Safetensors::Open(temp.File("w")));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> m, file->Floats("m"));
  EXPECT_EQ(m, large);
  EXPECT_THAT(file->Find("m")->shape, ElementsAre(1000, 300));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> n, file->Floats("n"));
  EXPECT_THAT(n, ElementsAre(1.0F, 2.0F));
}

TEST(SafetensorsWriter, AFileThatIsNotFinishedIsRemoved) {
  const TempDir temp;
  { ASSERT_THAT(SafetensorsWriter::Create(temp.File("w"), {{"n", {2}}}), IsOk()); }
  EXPECT_FALSE(std::filesystem::exists(temp.File("w")));
}

}  // namespace
}  // namespace tandem
