#include "common/lifeline/message_codec.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

static_assert(std::endian::native == std::endian::little, "the codec copies integers as they lie in memory");

namespace tandem::lifeline {
namespace {

// Writes and reads share one description of the fields (Fields below).
class Writer {
 public:
  template <typename T>
  void operator()(const T& number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  void operator()(const std::vector<uint32_t>& list) {
    (*this)(static_cast<uint32_t>(list.size()));
    for (const uint32_t value : list) (*this)(value);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  void operator()(T& number) {
    if (!Has(sizeof number)) return;
    std::memcpy(&number, bytes_.data(), sizeof number);
    bytes_.remove_prefix(sizeof number);
  }
  void operator()(std::string& text) {
    uint32_t size = 0;
    (*this)(size);
    if (!Has(size)) return;
    text.assign(bytes_.data(), size);
    bytes_.remove_prefix(size);
  }
  void operator()(std::vector<uint32_t>& list) {
    uint32_t size = 0;
    (*this)(size);
    if (!Has(uint64_t{size} * sizeof(uint32_t))) return;
    list.resize(size);
    for (uint32_t& value : list) (*this)(value);
  }
  bool Complete() const { return good_ && bytes_.empty(); }

 private:
  bool Has(uint64_t bytes) {
    good_ = good_ && bytes <= bytes_.size();
    return good_;
  }
  absl::string_view bytes_;
  bool good_ = true;
};

// The fields of each message in order; M is the message type or its const twin.
template <typename M, typename F>
void Fields(M& m, F& f) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, Hello>) {
    f(m.protocol), f(m.tenant), f(m.longest_unit_ms), f(m.start_time_ticks), f(m.socket_inode);
  } else if constexpr (std::is_same_v<T, Welcome>) {
    f(m.session_key), f(m.block_bytes), f(m.blocks), f(m.heartbeat_ms);
  } else if constexpr (std::is_same_v<T, Refused>) {
    f(m.code), f(m.text);
  } else if constexpr (std::is_same_v<T, Blocks>) {
    f(m.batch), f(m.access), f(m.blocks);
  } else if constexpr (std::is_same_v<T, BlocksAck>) {
    f(m.batch), f(m.error);
  } else {
    static_assert(std::is_same_v<T, Goodbye>);
  }
}

template <size_t kKind = 0>
absl::StatusOr<Message> DecodeKind(uint32_t kind, Reader& reader) {
  if constexpr (kKind == std::variant_size_v<Message>) {
    return absl::DataLossError(absl::StrCat("lifeline message of unknown kind ", kind));
  } else {
    if (kind != kKind) return DecodeKind<kKind + 1>(kind, reader);
    std::variant_alternative_t<kKind, Message> message;
    Fields(message, reader);
    if (!reader.Complete()) return absl::DataLossError(absl::StrCat("malformed lifeline message of kind ", kind));
    return message;
  }
}

}  // namespace

std::string Encode(const Message& message) {
  Writer writer;
  writer(static_cast<uint32_t>(message.index()));
  std::visit([&](const auto& fields) { Fields(fields, writer); }, message);
  return writer.Take();
}

absl::StatusOr<Message> Decode(absl::string_view bytes) {
  if (bytes.size() < sizeof(uint32_t)) return absl::DataLossError("lifeline message without a kind");
  uint32_t kind = 0;
  std::memcpy(&kind, bytes.data(), sizeof kind);
  Reader reader(bytes.substr(sizeof kind));
  return DecodeKind(kind, reader);
}

}  // namespace tandem::lifeline
