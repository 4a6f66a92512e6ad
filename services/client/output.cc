#include "services/client/output.h"

#include <google/protobuf/util/json_util.h>

#include "common/base/status.h"

namespace tandem::client {

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  TANDEM_CHECK(status.ok(), status.ToString());
  return json;
}

}  // namespace tandem::client
