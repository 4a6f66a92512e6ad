#pragma once
// The JSON header of a safetensors file: which tensors, of which type and shape, at which bytes of the data that
// follows. Format: https://huggingface.co/docs/safetensors (8 bytes little-endian header length, JSON, data). The
// header comes from strangers, so everything in it is checked here and a caller may trust the result.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

enum class Dtype { kBool, kU8, kI8, kI16, kU16, kI32, kU32, kI64, kU64, kF8E4M3, kF8E5M2, kF16, kBF16, kF32, kF64 };

absl::string_view DtypeName(Dtype dtype);  // "F32"
uint64_t DtypeBytes(Dtype dtype);

// One tensor. begin and end count bytes from the start of the data; end - begin is exactly the size that shape and
// dtype give, and begin is a multiple of the dtype's size.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;

  int64_t elements() const;
  std::string ShapeText() const;  // "[2, 3]"
};

// Parses and checks a header over `data_bytes` bytes of data. The tensors come in the order of their offsets; they
// cover the data without gap or overlap. INVALID_ARGUMENT names `where`, the tensor and what is wrong.
absl::StatusOr<std::vector<TensorInfo>> ParseSafetensorsHeader(absl::string_view header, uint64_t data_bytes,
                                                               const std::string& where);

}  // namespace tandem
