// The manifest of a kernel package: JSON, embedded in the library and, with one more key, in a file
// beside it.
//
//   {"schema": 1, "abi_version": 1, "name": "...", "architecture": "sm_90a",
//    "compute_capabilities": [90], "cutlass_dsl": "4.8.1", "tvm_ffi": "0.1.15",
//    "source_digest": "...", "kernels": ["cutedsl_mxfp8_...", ...],
//    "library": {"file": "lib....so", "size": 123, "checksum": "0123456789abcdef"}}
//
// The last key is the file's alone.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_PACKAGE_MANIFEST_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_PACKAGE_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cutedsl_quant {

// What became of a package. The names are PackageStatusName's.
enum class PackageStatus : uint8_t {
  kLoaded,        // "loaded": its kernels are in use
  kUnreadable,    // "unreadable": a file is missing or cannot be read
  kBadManifest,   // "bad_manifest": not JSON, a key is missing or of the wrong type, or an unknown
                  // kernel is named
  kOtherVersion,  // "other_version": schema, kernel ABI or TVM-FFI version do not fit this library
  kDamaged,       // "damaged": size or checksum differ from the manifest's
  kNotLoadable,   // "not_loadable": the dynamic linker refuses it, or it exports no kernel table
  kInconsistent,  // "inconsistent": the parts of the package contradict each other
};

const char* PackageStatusName(PackageStatus status);

struct PackageVerdict {
  PackageStatus status = PackageStatus::kLoaded;
  std::string message;  // empty when loaded

  bool ok() const { return status == PackageStatus::kLoaded; }
};

struct PackageManifest {
  std::string name;
  std::string architecture;
  std::vector<int32_t> compute_capabilities;
  std::string cutlass_dsl;
  std::string tvm_ffi;
  std::string source_digest;
  std::vector<uint32_t> config_ids;  // strictly ascending

  // Whether both describe the same kernels, built from the same sources by the same tools.
  bool operator==(const PackageManifest& other) const;
};

// The key "library" of the file beside the library.
struct PackageLibrary {
  std::string file;  // a name without folder
  uint64_t size = 0;
  uint64_t checksum = 0;
};

// Reads and checks `text`. With `library`, the key "library" is required and read into it. Whatever
// the text is, this neither throws nor crashes.
//
// Schema and ABI version must be this library's. The TVM-FFI version that the package was compiled
// against must have the major and minor number of the libtvm_ffi in this process: its ABI is stable
// within a minor version, and should a package need a symbol of a later patch, the dynamic linker
// says so when the library is loaded.
PackageVerdict ParsePackageManifest(std::string_view text, PackageManifest* manifest,
                                    PackageLibrary* library);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_PACKAGE_MANIFEST_H_
