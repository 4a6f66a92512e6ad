#pragma once
// The version of every binary.

namespace tandem {

inline constexpr char kVersion[] = TANDEM_VERSION;  // set by CMake from project(VERSION)

}  // namespace tandem
