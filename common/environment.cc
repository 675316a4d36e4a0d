#include "common/environment.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace cutedsl_quant {
namespace {

std::string_view Value(EnvironmentLookup lookup, const char* name) {
  const char* value = lookup(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// "0" or "1".
std::optional<bool> ParseSwitch(EnvironmentLookup lookup, const char* name,
                                std::vector<std::string>* complaints) {
  const std::string_view value = Value(lookup, name);
  if (value.empty()) return std::nullopt;
  if (value == "0" || value == "1") return value == "1";
  complaints->push_back(std::string(name) + "=\"" + std::string(value) +
                        "\" is ignored: 0 and 1 are accepted");
  return std::nullopt;
}

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> entries;
  while (!path.empty()) {
    const size_t end = path.find(':');
    const std::string_view entry = path.substr(0, end);
    if (!entry.empty()) entries.emplace_back(entry);
    path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
  }
  return entries;
}

Environment ParseOwnEnvironment() {
  std::vector<std::string> complaints;
  Environment environment = ParseEnvironment(
      [](const char* name) -> const char* { return std::getenv(name); }, &complaints);
  for (const std::string& complaint : complaints) {
    std::fprintf(stderr, "cutedsl_quant: %s\n", complaint.c_str());
  }
  return environment;
}

}  // namespace

Environment ParseEnvironment(EnvironmentLookup lookup, std::vector<std::string>* complaints) {
  Environment environment;
  if (const auto enabled = ParseSwitch(lookup, "NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", complaints)) {
    environment.backend_mode = *enabled ? BackendMode::kJit : BackendMode::kOff;
  }
  environment.warn_if_not_chosen =
      ParseSwitch(lookup, "NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", complaints).value_or(false);
  environment.kernel_path = SplitPath(Value(lookup, "CUTEDSL_QUANT_KERNEL_PATH"));
  return environment;
}

const Environment& GetEnvironment() {
  // Never destroyed: calls may come while the process ends.
  static const Environment* const environment = new Environment(ParseOwnEnvironment());
  return *environment;
}

}  // namespace cutedsl_quant
