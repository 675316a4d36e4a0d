#include "ffi_bridge/package_manifest.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/json.h>

#include <cstdio>
#include <exception>
#include <optional>

#include "cutedsl_quant/config.h"
#include "ffi_bridge/kernel_package_abi.h"

namespace cutedsl_quant {
namespace {

namespace json = tvm::ffi::json;

constexpr int64_t kManifestSchema = 1;
// A manifest is an object of an object or of arrays; the parser recurses, so depth is limited
// before it runs.
constexpr int kMaxNesting = 4;

PackageVerdict Bad(std::string message) {
  return {PackageStatus::kBadManifest, std::move(message)};
}

bool NestsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxNesting) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

template <typename T>
constexpr const char* kTypeName = "an object";
template <>
constexpr const char* kTypeName<int64_t> = "an integer";
template <>
constexpr const char* kTypeName<tvm::ffi::String> = "a string";
template <>
constexpr const char* kTypeName<json::Array> = "an array";

// Reads keys of one JSON object; the first failure is kept, and everything after it is skipped.
class Reader {
 public:
  Reader(json::Object object, std::string prefix)
      : object_(std::move(object)), prefix_(std::move(prefix)) {}

  template <typename T>
  std::optional<T> Get(const char* key) {
    if (!error_.empty()) return std::nullopt;
    auto it = object_.find(tvm::ffi::String(key));
    if (it == object_.end()) {
      error_ = "the key \"" + prefix_ + key + "\" is missing";
      return std::nullopt;
    }
    std::optional<T> value = As<T>((*it).second);
    if (!value) error_ = "\"" + prefix_ + key + "\" is not " + kTypeName<T>;
    return value;
  }

  void String(const char* key, std::string* out) {
    if (auto value = Get<tvm::ffi::String>(key)) *out = std::string(value->data(), value->size());
  }

  const std::string& error() const { return error_; }

  // JSON's null converts to objects and arrays that are null; here it is of no type.
  template <typename T>
  static std::optional<T> As(const tvm::ffi::Any& value) {
    if (value == nullptr) return std::nullopt;
    return value.as<T>();
  }

 private:
  json::Object object_;
  std::string prefix_;
  std::string error_;
};

// The leading "<major>.<minor>" of a version string.
bool ParseMajorMinor(const std::string& version, unsigned* major, unsigned* minor) {
  return std::sscanf(version.c_str(), "%9u.%9u", major, minor) == 2;
}

PackageVerdict CheckVersions(int64_t schema, int64_t abi_version, const std::string& tvm_ffi) {
  const auto other = [](std::string message) {
    return PackageVerdict{PackageStatus::kOtherVersion, std::move(message)};
  };
  if (schema != kManifestSchema) {
    return other("manifest schema " + std::to_string(schema) + "; this library reads " +
                 std::to_string(kManifestSchema));
  }
  if (abi_version != CUTEDSL_QUANT_KERNEL_ABI_VERSION) {
    return other("kernel ABI version " + std::to_string(abi_version) + "; this library calls " +
                 std::to_string(CUTEDSL_QUANT_KERNEL_ABI_VERSION));
  }
  unsigned major, minor;
  if (!ParseMajorMinor(tvm_ffi, &major, &minor)) {
    return Bad("\"tvm_ffi\" is \"" + tvm_ffi + "\", not a version");
  }
  TVMFFIVersion running;
  TVMFFIGetVersion(&running);
  if (major != running.major || minor != running.minor) {
    return other("compiled against TVM-FFI " + tvm_ffi + "; " + std::to_string(running.major) +
                 "." + std::to_string(running.minor) + "." + std::to_string(running.patch) +
                 " is running, and the first two numbers must agree");
  }
  return {};
}

PackageVerdict ReadLibrary(json::Object object, PackageLibrary* library) {
  Reader reader(std::move(object), "library.");
  std::string checksum;
  reader.String("file", &library->file);
  if (auto size = reader.Get<int64_t>("size")) library->size = static_cast<uint64_t>(*size);
  reader.String("checksum", &checksum);
  if (!reader.error().empty()) return Bad(reader.error());
  if (library->file.empty() || library->file.find('/') != std::string::npos) {
    return Bad("\"library.file\" is \"" + library->file + "\", not a name without folder");
  }
  if (checksum.size() != 16 ||
      checksum.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return Bad("\"library.checksum\" is \"" + checksum +
               "\", not 16 lower-case hexadecimal digits");
  }
  library->checksum = std::stoull(checksum, nullptr, 16);
  return {};
}

PackageVerdict ReadCapabilities(const json::Array& array, std::vector<int32_t>* capabilities) {
  for (const tvm::ffi::Any& element : array) {
    auto value = Reader::As<int64_t>(element);
    if (!value || *value < 0 || *value > 999) {
      return Bad("\"compute_capabilities\" holds something that is not an integer like 90");
    }
    capabilities->push_back(static_cast<int32_t>(*value));
  }
  return {};
}

PackageVerdict ReadKernels(const json::Array& array, std::vector<uint32_t>* ids) {
  ids->reserve(array.size());
  for (const tvm::ffi::Any& element : array) {
    auto value = Reader::As<tvm::ffi::String>(element);
    if (!value) return Bad("\"kernels\" holds something that is not a string");
    const std::string_view name(value->data(), value->size());
    const auto config = QuantizeConfig::FromName(name);
    if (!config)
      return Bad("\"kernels\" names \"" + std::string(name) + "\", which is no configuration");
    const uint32_t id = config->Id();
    if (!ids->empty() && id <= ids->back()) {
      return {PackageStatus::kInconsistent,
              "\"kernels\" is not in ascending order, or names one twice, at \"" +
                  std::string(name) + "\""};
    }
    ids->push_back(id);
  }
  return {};
}

PackageVerdict Read(std::string_view text, PackageManifest* manifest, PackageLibrary* library) {
  if (text.empty()) return Bad("the manifest is empty");
  if (NestsTooDeep(text)) return Bad("nested deeper than any manifest");
  tvm::ffi::String error;
  const tvm::ffi::Any value = json::Parse(tvm::ffi::String(text.data(), text.size()), &error);
  if (!error.empty()) return Bad("not JSON: " + std::string(error.data(), error.size()));
  const auto object = Reader::As<json::Object>(value);
  if (!object) return Bad("not a JSON object");

  // Versions first: another schema may lack the other keys.
  Reader reader(*object, "");
  const auto schema = reader.Get<int64_t>("schema");
  if (schema && *schema != kManifestSchema) return CheckVersions(*schema, 0, "");
  const auto abi_version = reader.Get<int64_t>("abi_version");
  reader.String("tvm_ffi", &manifest->tvm_ffi);
  if (!reader.error().empty()) return Bad(reader.error());
  if (auto verdict = CheckVersions(*schema, *abi_version, manifest->tvm_ffi); !verdict.ok())
    return verdict;

  reader.String("name", &manifest->name);
  reader.String("architecture", &manifest->architecture);
  reader.String("cutlass_dsl", &manifest->cutlass_dsl);
  reader.String("source_digest", &manifest->source_digest);
  const auto capabilities = reader.Get<json::Array>("compute_capabilities");
  const auto kernels = reader.Get<json::Array>("kernels");
  const auto library_object =
      library == nullptr ? std::nullopt : reader.Get<json::Object>("library");
  if (!reader.error().empty()) return Bad(reader.error());
  if (auto verdict = ReadCapabilities(*capabilities, &manifest->compute_capabilities);
      !verdict.ok()) {
    return verdict;
  }
  if (library != nullptr) {
    if (auto verdict = ReadLibrary(*library_object, library); !verdict.ok()) return verdict;
  }
  return ReadKernels(*kernels, &manifest->config_ids);
}

}  // namespace

const char* PackageStatusName(PackageStatus status) {
  switch (status) {
    case PackageStatus::kLoaded:
      return "loaded";
    case PackageStatus::kUnreadable:
      return "unreadable";
    case PackageStatus::kBadManifest:
      return "bad_manifest";
    case PackageStatus::kOtherVersion:
      return "other_version";
    case PackageStatus::kDamaged:
      return "damaged";
    case PackageStatus::kNotLoadable:
      return "not_loadable";
    case PackageStatus::kInconsistent:
      return "inconsistent";
  }
  return "unknown";
}

bool PackageManifest::operator==(const PackageManifest& other) const {
  return name == other.name && architecture == other.architecture &&
         compute_capabilities == other.compute_capabilities && cutlass_dsl == other.cutlass_dsl &&
         tvm_ffi == other.tvm_ffi && source_digest == other.source_digest &&
         config_ids == other.config_ids;
}

PackageVerdict ParsePackageManifest(std::string_view text, PackageManifest* manifest,
                                    PackageLibrary* library) {
  *manifest = {};
  try {
    return Read(text, manifest, library);
  } catch (const std::exception& error) {
    return Bad(error.what());
  }
}

}  // namespace cutedsl_quant
