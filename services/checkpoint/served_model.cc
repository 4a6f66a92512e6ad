#include "common/base/status.h"
#include "services/checkpoint/json_fields.h"
#include "services/checkpoint/weight_manifest.h"

namespace tandem {

using Json = nlohmann::ordered_json;

std::string ServedModelToJson(const ServedModel& model) {
  const Json json = {{"name", model.name},
                     {"model_dir", model.model_dir},
                     {"layout_hash", model.layout_hash},
                     {"config", ModelConfigToJson(model.config)},
                     {"generation_config", GenerationConfigToJson(model.config)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<ServedModel> ServedModelFromJson(const std::string& json) {
  TANDEM_ASSIGN_OR_RETURN(const Json object, ParseJsonObject(json, "manifest of the set"));
  const JsonFields fields(object, "manifest of the set");
  ServedModel model;
  TANDEM_ASSIGN_OR_RETURN(model.name, fields.String("name", ""));
  TANDEM_ASSIGN_OR_RETURN(model.model_dir, fields.String("model_dir", ""));
  TANDEM_ASSIGN_OR_RETURN(model.layout_hash, fields.String("layout_hash", ""));
  TANDEM_ASSIGN_OR_RETURN(const std::string config, fields.String("config", ""));
  TANDEM_ASSIGN_OR_RETURN(const std::string generation, fields.String("generation_config", ""));
  TANDEM_ASSIGN_OR_RETURN(model.config, ParseModelConfig(config, generation, "manifest of the set"));
  return model;
}

}  // namespace tandem
