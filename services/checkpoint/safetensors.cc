#include "services/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/file.h"
#include "common/base/unique_fd.h"
#include "services/checkpoint/json_fields.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

// The length that the first 8 bytes say, checked against the file's size.
absl::StatusOr<uint64_t> HeaderBytes(absl::string_view file, const std::string& path) {
  uint64_t length = 0;
  if (file.size() < sizeof length) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has only ", file.size(), " bytes: it is empty or truncated; fetch the file again"));
  }
  if (file.substr(0, 11) == "version htt") {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a Git LFS pointer, not the weights; fetch them with `git lfs pull`"));
  }
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " says that its header has ", length, " bytes, more than ",
                                                   kMaxHeaderBytes, ": it is not a safetensors file"));
  }
  if (length > file.size() - sizeof length) {
    return absl::InvalidArgumentError(absl::StrCat(path, " says that its header has ", length, " bytes, but only ",
                                                   file.size() - sizeof length, " follow: it is truncated; ",
                                                   "fetch the file again"));
  }
  return length;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Safetensors>> Safetensors::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot stat", path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  std::unique_ptr<Safetensors> file(new Safetensors());
  file->path_ = path;
  if (info.st_size > 0) {
    file->map_bytes_ = static_cast<size_t>(info.st_size);
    void* map = mmap(nullptr, file->map_bytes_, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (map == MAP_FAILED) return ErrnoStatus(errno, "cannot map", path);
    file->map_ = static_cast<std::byte*>(map);
  }
  const absl::string_view content(reinterpret_cast<const char*>(file->map_), file->map_bytes_);
  TANDEM_ASSIGN_OR_RETURN(const uint64_t header_bytes, HeaderBytes(content, path));
  file->data_start_ = sizeof(uint64_t) + header_bytes;
  TANDEM_ASSIGN_OR_RETURN(file->tensors_, ParseSafetensorsHeader(content.substr(sizeof(uint64_t), header_bytes),
                                                                 file->map_bytes_ - file->data_start_, path));
  return file;
}

Safetensors::~Safetensors() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
}

const TensorInfo* Safetensors::Find(absl::string_view name) const {
  const auto it =
      std::find_if(tensors_.begin(), tensors_.end(), [name](const TensorInfo& tensor) { return tensor.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

absl::Span<const std::byte> Safetensors::Bytes(const TensorInfo& tensor) const {
  return {map_ + data_start_ + tensor.begin, tensor.end - tensor.begin};
}

template <typename T>
absl::StatusOr<std::vector<T>> Safetensors::Copy(absl::string_view name, Dtype dtype) const {
  const TensorInfo* tensor = Find(name);
  if (tensor == nullptr) return absl::NotFoundError(absl::StrCat(path_, " has no tensor ", Quoted(name)));
  if (tensor->dtype != dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": tensor ", Quoted(name), " is ", DtypeName(tensor->dtype), ", not ", DtypeName(dtype)));
  }
  std::vector<T> values(static_cast<size_t>(tensor->elements()));
  const absl::Span<const std::byte> bytes = Bytes(*tensor);
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

absl::StatusOr<std::vector<float>> Safetensors::Floats(absl::string_view name) const {
  return Copy<float>(name, Dtype::kF32);
}
absl::StatusOr<std::vector<int32_t>> Safetensors::Ints(absl::string_view name) const {
  return Copy<int32_t>(name, Dtype::kI32);
}

void Safetensors::Release(const TensorInfo& tensor) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = (data_start_ + tensor.begin + page - 1) / page * page;
  const size_t end = (data_start_ + tensor.end) / page * page;
  if (begin < end) madvise(map_ + begin, end - begin, MADV_DONTNEED);  // a hint: failing costs nothing but memory
}

}  // namespace tandem
