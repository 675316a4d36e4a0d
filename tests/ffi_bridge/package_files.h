// Writes kernel packages for tests: copies of the fake libraries, with manifests.
#ifndef CUTEDSL_QUANT_TESTS_FFI_BRIDGE_PACKAGE_FILES_H_
#define CUTEDSL_QUANT_TESTS_FFI_BRIDGE_PACKAGE_FILES_H_

#include <string>

namespace cutedsl_quant {

// A new empty folder, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& content);

// The bytes of one of the fake libraries: "good", "swapped", ... as in BUILD.bazel.
std::string FakeLibrary(const std::string& name);

// The text of the manifest file for a library `file` of the given content. `fields` is a JSON
// object without its braces.
std::string ManifestText(const std::string& fields, const std::string& file,
                         const std::string& content);

// Writes <stem>.so and <stem>.json.
void WritePackage(const std::string& stem, const std::string& fields, const std::string& content);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_FFI_BRIDGE_PACKAGE_FILES_H_
