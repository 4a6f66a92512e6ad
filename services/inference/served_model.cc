#include "services/inference/served_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tandem::inference {

absl::StatusOr<std::shared_ptr<const ServedModel>> MakeServedModel(const tenant::SetView& set) {
  TANDEM_ASSIGN_OR_RETURN(const tandem::ServedModel described, ServedModelFromJson(set.manifest));
  auto model = std::make_shared<ServedModel>();
  model->set_id = set.id;
  model->name = described.name;
  model->config = described.config;
  model->manifest = MakeWeightManifest(described.config);
  if (model->manifest.layout_hash != described.layout_hash) {
    return absl::FailedPreconditionError(absl::StrCat("'", described.name, "' has weight layout ",
                                                      described.layout_hash, ", this build computes with ",
                                                      model->manifest.layout_hash, ": run services of one version"));
  }
  model->end_tokens = described.config.eos_token_ids;
  auto tokenizer = text::Tokenizer::Load(described.model_dir);
  if (tokenizer.ok()) {
    model->tokenizer = *std::move(tokenizer);
    if (const auto end = model->tokenizer->eos_token_id()) model->end_tokens.push_back(*end);
  } else {
    model->tokenizer_error = absl::FailedPreconditionError(
        absl::StrCat("the model's tokenizer can not be used, send token ids: ",
                     absl::string_view(tokenizer.status().message().data(), tokenizer.status().message().size())));
  }
  std::sort(model->end_tokens.begin(), model->end_tokens.end());
  model->end_tokens.erase(std::unique(model->end_tokens.begin(), model->end_tokens.end()), model->end_tokens.end());
  return std::shared_ptr<const ServedModel>(std::move(model));
}

}  // namespace tandem::inference
