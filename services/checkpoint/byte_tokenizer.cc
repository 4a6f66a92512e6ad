#include "services/checkpoint/byte_tokenizer.h"

#include "nlohmann/json.hpp"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSpecials[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"};

constexpr char kChatMl[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// UTF-8 of a code point below U+0800.
std::string Utf8(int code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's printable character for each byte: itself where printable, else the next one from U+0100 on.
std::string ByteSymbol(int byte) {
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  if (printable(byte)) return Utf8(byte);
  int code = 256;
  for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  return Utf8(code);
}

}  // namespace

std::string ByteTokenizerJson() {
  Json vocab = Json::object();
  Json added = Json::array();
  for (const char* special : kSpecials) {
    const size_t id = vocab.size();
    added.push_back({{"id", id},
                     {"content", special},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    vocab[special] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const size_t id = vocab.size();
    vocab[ByteSymbol(byte)] = id;
  }
  const auto byte_level = [](bool add_prefix_space) {
    return Json{
        {"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", true}};
  };
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", byte_level(false)},
                          {"post_processor", nullptr},
                          {"decoder", byte_level(true)},
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
                            {"merges", Json::array()}}}};
  return tokenizer.dump(1) + "\n";
}

std::string ByteTokenizerConfigJson(bool chat) {
  Json config = {{"add_prefix_space", false},
                 {"clean_up_tokenization_spaces", false},
                 {"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"eos_token", kSpecials[chat ? kByteImEnd : kByteEndOfText]},
                 {"pad_token", kSpecials[kBytePad]}};
  if (chat) config["chat_template"] = kChatMl;
  return config.dump(1) + "\n";
}

}  // namespace tandem
