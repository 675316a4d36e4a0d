// Kernel packages: shared libraries of kernels compiled ahead of time. Opening one, and an index of
// all that are found.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cutedsl_quant/backend.h"
#include "ffi_bridge/kernel_package_abi.h"
#include "ffi_bridge/package_manifest.h"

namespace cutedsl_quant {

// One package, in two steps: the constructor reads the manifest alone, Open() makes the kernels
// callable. Neither throws because of what a package holds. A library that was opened stays so
// until the process ends.
class KernelPackage {
 public:
  // A package linked into the program.
  explicit KernelPackage(const CutedslQuantKernelPackage* linked);
  // The files <stem>.so and <stem>.json; `path` is either.
  explicit KernelPackage(const std::string& path);
  // None: what stands for a place that could not be searched.
  KernelPackage(std::string path, PackageVerdict verdict)
      : path_(std::move(path)), verdict_(std::move(verdict)) {}

  // For a file: size and checksum are compared before the dynamic linker sees the library, as a
  // damaged one can crash it; then the embedded manifest with the one beside it. Idempotent.
  void Open();

  // The library's file, or "linked:<name>".
  const std::string& path() const { return path_; }
  const PackageManifest& manifest() const { return manifest_; }
  // What the steps so far found.
  const PackageVerdict& verdict() const { return verdict_; }
  // Whether the manifest could be read, so that it is known which devices the package is for.
  bool has_manifest() const { return has_manifest_; }
  // Whether the manifest says that it is for this compute capability.
  bool Serves(int32_t compute_capability) const;

  // Whether its kernels can be called.
  bool loaded() const { return opened_ && verdict_.ok(); }
  // What a linked package was made from, or a loaded one's table; else null.
  const CutedslQuantKernelPackage* table() const { return package_; }

  // The kernel of a configuration; null unless opened successfully, or if there is none.
  TVMFFISafeCallType Find(uint32_t config_id) const;

 private:
  PackageVerdict OpenLibrary();
  PackageVerdict CheckTable(const CutedslQuantKernelPackage* package);

  std::string path_;
  PackageManifest manifest_;
  PackageLibrary library_;
  PackageVerdict verdict_;
  bool has_manifest_ = false;
  bool opened_ = false;
  const CutedslQuantKernelPackage* package_ = nullptr;
};

// Sum over the little-endian 64-bit words w[i] of a file, the last one padded with zeros, of w[i] *
// (2 * i + 1) modulo 2^64. Added to in pieces of a multiple of 8 bytes, except the last. The values
// of a file's parts add up to the file's.
class PackageChecksum {
 public:
  // Of what begins `offset` bytes, a multiple of 8, after the beginning of the file.
  explicit PackageChecksum(uint64_t offset = 0) : factor_(offset / 8 * 2 + 1) {}

  void Add(const void* data, size_t size);
  uint64_t value() const { return sum_; }

 private:
  uint64_t sum_ = 0;
  uint64_t factor_;
};

// Where packages are looked for, in this order: of two packages with the same kernel, the one found
// first serves it.
struct PackageSearch {
  std::vector<std::string>
      paths;  // package files, or folders in which every .so and .json file must be of a package
  bool linked = true;  // packages linked into the program
  // Folders in which other files lie too, so that only a .so with a .json of the same name counts;
  // and, like `paths`, cutedsl_kernels/ in each of them.
  std::vector<std::string> beside;

  // CUTEDSL_QUANT_KERNEL_PATH, linked packages, and beside the library or executable that contains
  // this code.
  static PackageSearch Default();
};

// All packages of a process. Thread-safe. Files are searched for by the first call, and by the
// first one after a reset; packages linked in later (by loading a library that brings one) are seen
// by the calls after.
class KernelPackageIndex {
 public:
  // Without a search, PackageSearch::Default() of the first call.
  explicit KernelPackageIndex(std::optional<PackageSearch> search) : search_(std::move(search)) {}

  struct Lookup {
    TVMFFISafeCallType call = nullptr;
    MissReason reason =
        MissReason::kNone;  // kNoPackage, kPackageRejected, kArchitecture or kNotPackaged
  };
  // Opens only packages for this compute capability.
  Lookup Find(uint32_t config_id, int32_t compute_capability);

  // What Find finds for this compute capability, in ascending order.
  std::vector<uint32_t> ConfigIds(int32_t compute_capability);

  struct Report {
    std::string path;
    PackageVerdict verdict;
    PackageManifest manifest;  // empty if it could not be read
  };
  // Opens everything that was found, and says what became of it, in order of precedence.
  std::vector<Report> Reports();

  // What could not be used is looked at again, and files are searched for again.
  void Reset() noexcept;

 private:
  void Refresh();
  void Search();
  template <typename Predicate>
  bool Keep(Predicate is_wanted);
  void AddLinked();
  void AddFile(const std::string& path);
  void AddFolder(const std::string& folder, bool packages_only);

  std::mutex mutex_;
  std::optional<PackageSearch> search_;
  bool searched_ = false;
  size_t linked_seen_ = 0;
  std::vector<KernelPackage> packages_;
  std::vector<KernelPackage> before_;  // during a search: loaded before it, not found again so far
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_H_
