#include "tests/ffi_bridge/package_files.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace cutedsl_quant {
namespace {

// Written after the definition, byte by byte, to check the library's word by word.
uint64_t Checksum(const std::string& content) {
  uint64_t sum = 0;
  for (size_t i = 0; i < content.size(); ++i) {
    const uint64_t byte = static_cast<unsigned char>(content[i]);
    sum += (byte << 8 * (i % 8)) * (2 * (i / 8) + 1);
  }
  return sum;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  const char* root = std::getenv("TEST_TMPDIR");
  std::string pattern = std::string(root == nullptr ? "/tmp" : root) + "/packageXXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::string FakeLibrary(const std::string& name) {
  return ReadFile("tests/ffi_bridge/libfake_" + name + ".so");
}

std::string ManifestText(const std::string& fields, const std::string& file,
                         const std::string& content) {
  char checksum[17];
  std::snprintf(checksum, sizeof(checksum), "%016llx",
                static_cast<unsigned long long>(Checksum(content)));
  return "{" + fields + ", \"library\": {\"file\": \"" + file +
         "\", \"size\": " + std::to_string(content.size()) + ", \"checksum\": \"" + checksum +
         "\"}}";
}

void WritePackage(const std::string& stem, const std::string& fields, const std::string& content) {
  WriteFile(stem + ".so", content);
  const std::string file = std::filesystem::path(stem).filename().string() + ".so";
  WriteFile(stem + ".json", ManifestText(fields, file, content));
}

}  // namespace cutedsl_quant
