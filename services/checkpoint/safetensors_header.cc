#include "services/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "services/checkpoint/json_fields.h"

namespace tandem {
namespace {

constexpr size_t kMaxTensors = 1 << 20;
constexpr size_t kMaxRank = 8;

struct DtypeRow {
  absl::string_view name;
  uint64_t bytes;
};
// In the order of the enum.
constexpr std::array<DtypeRow, 15> kDtypes = {{{"BOOL", 1},
                                               {"U8", 1},
                                               {"I8", 1},
                                               {"I16", 2},
                                               {"U16", 2},
                                               {"I32", 4},
                                               {"U32", 4},
                                               {"I64", 8},
                                               {"U64", 8},
                                               {"F8_E4M3", 1},
                                               {"F8_E5M2", 1},
                                               {"F16", 2},
                                               {"BF16", 2},
                                               {"F32", 4},
                                               {"F64", 8}}};

// Reads {"__metadata__": {string: string}, NAME: {"dtype": string, "shape": [n...], "data_offsets": [begin, end]}, ...}
// and stops at the first thing that is not this. Holds no JSON tree, so a header cannot cost more than the tensors it
// names.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<TensorInfo> tensors;
  std::string problem;

  bool null() override { return Fail("holds null"); }
  bool boolean(bool /*value*/) override { return Fail("holds a truth value"); }
  bool number_float(double /*value*/, const std::string& text) override {
    return Fail(absl::StrCat("holds ", Quoted(text), ", not a whole number of 64 bits"));
  }
  bool binary(binary_t& /*value*/) override { return Fail("holds binary data"); }
  bool number_integer(int64_t value) override { return Fail(absl::StrCat("holds the negative number ", value)); }
  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kShape) {
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return Fail("has a dimension beyond 2^63");
      if (tensors.back().shape.size() == kMaxRank) return Fail(absl::StrCat("has more than ", kMaxRank, " dimensions"));
      tensors.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ != Place::kOffsets) return Fail(absl::StrCat("holds the number ", value, " where none belongs"));
    if (offsets_ == 2) return Fail("has more than two data_offsets");
    (offsets_++ == 0 ? tensors.back().begin : tensors.back().end) = value;
    return true;
  }
  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kDtype) return Fail(absl::StrCat("holds the text ", Quoted(value), " where none belongs"));
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      if (kDtypes[i].name != value) continue;
      tensors.back().dtype = static_cast<Dtype>(i);
      place_ = Place::kTensor;
      return true;
    }
    return Fail(absl::StrCat("has the unknown dtype ", Quoted(value)));
  }
  bool start_object(size_t /*size*/) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kMetadataValue:
        place_ = Place::kMetadata;
        return true;
      case Place::kTensorValue:
        place_ = Place::kTensor;
        seen_.clear();
        offsets_ = 0;
        return true;
      default:
        return Fail("holds an object where none belongs");
    }
  }
  bool key(std::string& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ == Place::kTop) return TopKey(value);
    if (!seen_.insert(value).second) return Fail(absl::StrCat("has ", value, " twice"));
    if (value == "dtype") return Expect(Place::kDtype);
    if (value == "shape") return Expect(Place::kShapeValue);
    if (value == "data_offsets") return Expect(Place::kOffsetsValue);
    return Fail(absl::StrCat("has the unknown field ", Quoted(value)));
  }
  bool end_object() override {
    if (place_ == Place::kTensor && seen_.size() != 3) return Fail("lacks one of dtype, shape and data_offsets");
    if (place_ == Place::kTensor && offsets_ != 2) return Fail("has fewer than two data_offsets");
    return Expect(place_ == Place::kTop ? Place::kEnd : Place::kTop);
  }
  bool start_array(size_t /*size*/) override {
    if (place_ == Place::kShapeValue) return Expect(Place::kShape);
    if (place_ == Place::kOffsetsValue) return Expect(Place::kOffsets);
    return Fail("holds a list where none belongs");
  }
  bool end_array() override { return Expect(Place::kTensor); }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::json::exception& /*error*/) override {
    problem = absl::StrCat("the header is not JSON (at its byte ", position, ")");
    return false;
  }

 private:
  // Where in the grammar the reader is; *Value: right before the value.
  enum class Place {
    kStart,
    kTop,
    kMetadataValue,
    kMetadata,
    kTensorValue,
    kTensor,
    kDtype,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
    kEnd
  };

  bool TopKey(const std::string& name) {
    if (!names_.insert(name).second) return FailAll(absl::StrCat(Quoted(name), " stands twice in the header"));
    if (name == "__metadata__") return Expect(Place::kMetadataValue);
    if (tensors.size() == kMaxTensors) return FailAll(absl::StrCat("it has more than ", kMaxTensors, " tensors"));
    tensors.emplace_back().name = name;
    return Expect(Place::kTensorValue);
  }
  bool Expect(Place place) {
    place_ = place;
    return true;
  }
  // A fault of the current tensor.
  bool Fail(const std::string& what) {
    if (place_ == Place::kStart) return FailAll("the header is not an object");
    if (place_ == Place::kMetadata || place_ == Place::kMetadataValue)
      return FailAll("__metadata__ is not text to text");
    return FailAll(absl::StrCat("tensor ", tensors.empty() ? "?" : Quoted(tensors.back().name), " ", what));
  }
  bool FailAll(std::string what) {
    problem = std::move(what);
    return false;
  }

  Place place_ = Place::kStart;
  std::set<std::string> names_, seen_;
  int offsets_ = 0;
};

// Bytes that dtype and shape say; nullopt on overflow.
std::optional<uint64_t> ExpectedBytes(const TensorInfo& tensor) {
  uint64_t bytes = DtypeBytes(tensor.dtype);
  for (const int64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes)) return std::nullopt;
  }
  return bytes;
}

// What is wrong with one tensor's range; empty if nothing.
std::string RangeProblem(const TensorInfo& tensor, uint64_t data_bytes) {
  if (tensor.begin > tensor.end) return absl::StrCat("begins at ", tensor.begin, " behind its end ", tensor.end);
  if (tensor.end > data_bytes) {
    return absl::StrCat("ends at byte ", tensor.end, " of the data, which has only ", data_bytes,
                        ": the file is truncated");
  }
  const std::optional<uint64_t> expected = ExpectedBytes(tensor);
  if (!expected.has_value()) return absl::StrCat("has a shape beyond 2^64 bytes: ", tensor.ShapeText());
  if (*expected != tensor.end - tensor.begin) {
    return absl::StrCat("of ", DtypeName(tensor.dtype), " ", tensor.ShapeText(), " needs ", *expected,
                        " bytes, but its data_offsets give ", tensor.end - tensor.begin);
  }
  if (tensor.begin % DtypeBytes(tensor.dtype) != 0) {
    return absl::StrCat("of ", DtypeName(tensor.dtype), " is misaligned at byte ", tensor.begin);
  }
  return "";
}

}  // namespace

absl::string_view DtypeName(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].name;
}
uint64_t DtypeBytes(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].bytes;
}

int64_t TensorInfo::elements() const {
  return static_cast<int64_t>((end - begin) / DtypeBytes(dtype));
}
std::string TensorInfo::ShapeText() const {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<std::vector<TensorInfo>> ParseSafetensorsHeader(absl::string_view header, uint64_t data_bytes,
                                                               const std::string& where) {
  const auto error = [&where](const std::string& problem) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", problem, "; fetch the file again"));
  };
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader)) return error(reader.problem);
  std::vector<TensorInfo>& tensors = reader.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::make_pair(a.begin, a.end) < std::make_pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    const std::string problem = RangeProblem(tensor, data_bytes);
    if (!problem.empty()) return error(absl::StrCat("tensor ", Quoted(tensor.name), " ", problem));
    if (tensor.begin != end) {
      return error(absl::StrCat("tensor ", Quoted(tensor.name), " begins at byte ", tensor.begin,
                                ", but the one before ", "it ends at ", end,
                                tensor.begin < end ? " (they overlap)" : " (a gap)"));
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    return error(absl::StrCat("its tensors end at byte ", end, " of the data, which has ", data_bytes));
  }
  return std::move(tensors);
}

}  // namespace tandem
