#include "tests/jobs/tiny_tokenizer.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "tests/testing/testing.h"

namespace tandem::jobs {
namespace {

using nlohmann::json;

constexpr const char* kChatMl =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}";

json TokenizerJson() {
  json vocab = {{"<|im_start|>", 1}, {"<|im_end|>", 2}, {"\xC4\xA0", 32}, {"\xC4\x8A", 10}, {"ab", 128}};
  for (char c = '!'; c <= '~'; ++c) vocab[std::string(1, c)] = c;
  for (int id = 0; id <= 128; ++id) {
    if (id == 0 || (id > 2 && id < 32 && id != 10) || id == 127) vocab[absl::StrCat("unused", id)] = id;
  }
  json added = json::array();
  for (const auto& [name, id] : {std::pair("<|im_start|>", 1), std::pair("<|im_end|>", 2)}) {
    added.push_back({{"id", id},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", json::array({digits, byte_level})}}},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", json::array({json::array({"a", "b"})})}}}};
}

}  // namespace

std::unique_ptr<text::Tokenizer> MakeTinyTokenizer(bool with_chat) {
  const tandem::testing::TempDir dir;
  json config = {{"eos_token", "<|im_end|>"}};
  if (with_chat) config["chat_template"] = kChatMl;
  TANDEM_CHECK(WriteFileAtomically(dir.File("tokenizer.json"), TokenizerJson().dump()).ok());
  TANDEM_CHECK(WriteFileAtomically(dir.File("tokenizer_config.json"), config.dump()).ok());
  absl::StatusOr<std::unique_ptr<text::Tokenizer>> tokenizer = text::Tokenizer::Load(dir.path());
  TANDEM_CHECK(tokenizer.ok(), tokenizer.status().ToString());
  return *std::move(tokenizer);
}

std::string Readable(const std::vector<int>& ids) {
  std::string text;
  for (const int id : ids) {
    if (id == 128) {
      text += "{ab}";
    } else if (id < 10) {
      absl::StrAppend(&text, "<", id, ">");
    } else {
      text += static_cast<char>(id);
    }
  }
  return text;
}

}  // namespace tandem::jobs
