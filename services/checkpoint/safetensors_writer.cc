#include "services/checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace tandem {
namespace {

constexpr size_t kBufferElements = size_t{1} << 18;  // 1 MiB

// Length and JSON, padded with spaces so that the data begins at a multiple of 8 bytes.
std::string Header(const std::vector<SafetensorsWriter::Tensor>& tensors, uint64_t& elements) {
  nlohmann::ordered_json json = {{"__metadata__", {{"format", "pt"}}}};
  elements = 0;
  for (const auto& tensor : tensors) {
    uint64_t count = 1;
    for (const int64_t dimension : tensor.shape) count *= static_cast<uint64_t>(dimension);
    json[tensor.name] = {{"dtype", "F32"},
                         {"shape", tensor.shape},
                         {"data_offsets", {elements * sizeof(float), (elements + count) * sizeof(float)}}};
    elements += count;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(const std::string& path,
                                                                             const std::vector<Tensor>& tensors) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot create", path);
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(path, std::move(fd)));
  const std::string header = Header(tensors, writer->missing_);
  TANDEM_RETURN_IF_ERROR(writer->Write(header.data(), header.size()));
  writer->buffer_.reserve(kBufferElements);
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!finished_) unlink(path_.c_str());
}

absl::Status SafetensorsWriter::Append(absl::Span<const float> values) {
  TANDEM_CHECK(values.size() <= missing_, path_);
  missing_ -= values.size();
  while (!values.empty()) {
    const size_t count = std::min(values.size(), kBufferElements - buffer_.size());
    buffer_.insert(buffer_.end(), values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
    values.remove_prefix(count);
    if (buffer_.size() == kBufferElements) TANDEM_RETURN_IF_ERROR(FlushBuffer());
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  TANDEM_CHECK(missing_ == 0, path_, " lacks ", missing_, " elements");
  TANDEM_RETURN_IF_ERROR(FlushBuffer());
  if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, "cannot sync", path_);
  finished_ = true;
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::FlushBuffer() {
  absl::Status written = Write(reinterpret_cast<const char*>(buffer_.data()), buffer_.size() * sizeof(float));
  buffer_.clear();
  return written;
}

absl::Status SafetensorsWriter::Write(const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t n = write(fd_.get(), bytes, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "cannot write", path_);
    bytes += n;
    count -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace tandem
