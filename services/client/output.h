#pragma once
// Protocol messages as JSON, the same way in every command.

#include <google/protobuf/message.h>

#include <string>

namespace tandem::client {

// Field names as in the protocol, fields with default values included, indented.
std::string ToJson(const google::protobuf::Message& message);

}  // namespace tandem::client
