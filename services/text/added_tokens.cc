#include "services/text/added_tokens.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"

namespace tandem::text {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
  std::set<std::string> seen;
  for (const AddedToken& token : tokens) {
    if (!seen.insert(token.content).second) continue;
    Table& table = token.normalized ? normalized_ : exact_;
    table[static_cast<uint8_t>(token.content[0])].push_back(token);
  }
  for (Table* table : {&exact_, &normalized_}) {
    for (auto& row : *table) {
      std::sort(row.begin(), row.end(),
                [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
    }
  }
}

const AddedToken* AddedTokens::Match(const Table& table, absl::string_view text) {
  for (const AddedToken& token : table[static_cast<uint8_t>(text[0])]) {
    if (absl::StartsWith(text, token.content)) return &token;
  }
  return nullptr;
}

void AddedTokens::SplitBy(const Table& table, absl::string_view text, std::vector<Piece>& pieces) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = Match(table, text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    if (at > begin) pieces.push_back({text.substr(begin, at - begin), std::nullopt});
    pieces.push_back({text.substr(at, token->content.size()), token->id});
    at += token->content.size();
    begin = at;
  }
  if (begin < text.size()) pieces.push_back({text.substr(begin), std::nullopt});
}

std::vector<AddedTokens::Piece> AddedTokens::Split(absl::string_view text) const {
  std::vector<Piece> first;
  SplitBy(exact_, text, first);
  std::vector<Piece> pieces;
  for (const Piece& piece : first) {
    if (piece.id.has_value()) {
      pieces.push_back(piece);
    } else {
      SplitBy(normalized_, piece.text, pieces);
    }
  }
  return pieces;
}

}  // namespace tandem::text
