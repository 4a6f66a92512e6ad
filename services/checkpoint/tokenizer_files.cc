#include "services/checkpoint/tokenizer_files.h"

#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem {

absl::Status CopyTokenizerFiles(const std::string& source, const std::string& target) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
        "merges.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json", "generation_config.json"}) {
    auto content = ReadFile(source + "/" + name);
    if (absl::IsNotFound(content.status())) continue;
    if (!content.ok()) return content.status();
    TANDEM_RETURN_IF_ERROR(WriteFileAtomically(target + "/" + name, *content));
  }
  return absl::OkStatus();
}

}  // namespace tandem
