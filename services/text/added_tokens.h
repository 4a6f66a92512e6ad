#pragma once
// Tokens that are cut out of a text before anything else sees it: "<|im_end|>" and its like. Immutable; thread-safe.

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::text {

struct AddedToken {
  int id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;  // found in a second pass, between those that are not
};

class AddedTokens {
 public:
  // Later entries with the content of an earlier one are ignored. No content is empty.
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  // A part of a text: plain text, or one added token.
  struct Piece {
    absl::string_view text;
    std::optional<int> id;
  };
  // The pieces of `text` in order: leftmost matches, the longest token at each place.
  std::vector<Piece> Split(absl::string_view text) const;

 private:
  // Tokens by their first byte, the longest first.
  using Table = std::array<std::vector<AddedToken>, 256>;
  static const AddedToken* Match(const Table& table, absl::string_view text);
  static void SplitBy(const Table& table, absl::string_view text, std::vector<Piece>& pieces);

  Table exact_, normalized_;
};

}  // namespace tandem::text
