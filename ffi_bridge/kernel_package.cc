#include "ffi_bridge/kernel_package.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <iterator>
#include <set>
#include <system_error>

#include "common/environment.h"
#include "ffi_bridge/errors.h"
#include "ffi_bridge/kernel_package_registry.h"

namespace cutedsl_quant {
namespace {

namespace fs = std::filesystem;

constexpr char kLibrarySuffix[] = ".so";
constexpr char kManifestSuffix[] = ".json";
constexpr char kFolderBeside[] = "cutedsl_kernels";
constexpr size_t kMaxManifestSize = 64 << 20;
// Stays in the cache between the copy out of the page cache and the sum; 256 KiB is 4 times slower.
constexpr size_t kReadSize = 64 << 10;
// What is worth a thread of its own: copies out of the page cache are as slow as 3 GB/s.
constexpr uint64_t kMinPartSize = 1 << 20;
constexpr uint64_t kMaxParts = 16;

PackageVerdict Verdict(PackageStatus status, std::string message) {
  return {status, std::move(message)};
}

// A regular file, opened for reading. Read instead of mapped: a file that shrinks meanwhile is an
// error, not a signal.
class File {
 public:
  // The message of verdict() names the file.
  explicit File(const std::string& path) : path_(path) {
    // Not blocking, in case it is a pipe.
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
      Fail(std::strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
      Fail("not a regular file");
    } else {
      size_ = static_cast<uint64_t>(status.st_size);
    }
  }
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const PackageVerdict& verdict() const { return verdict_; }
  uint64_t size() const { return size_; }

  // Goes to `offset`, for the reads after.
  void Seek(uint64_t offset) {
    if (lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET) < 0) Fail(std::strerror(errno));
  }

  // Fills `buffer` as far as the file goes; the number of bytes read, 0 at the end or on an error.
  size_t Read(char* buffer, size_t size) {
    size_t done = 0;
    while (done < size) {
      const ssize_t n = read(descriptor_, buffer + done, size - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        Fail(std::strerror(errno));
        return 0;
      }
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

 private:
  void Fail(const char* why) { verdict_ = Verdict(PackageStatus::kUnreadable, path_ + ": " + why); }

  const std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  PackageVerdict verdict_;
};

PackageVerdict ReadManifestFile(const std::string& path, std::string* text) {
  File file(path);
  if (!file.verdict().ok()) return file.verdict();
  if (file.size() > kMaxManifestSize) {
    return Verdict(PackageStatus::kBadManifest, path + ": larger than any manifest");
  }
  text->resize(file.size());
  text->resize(file.Read(&(*text)[0], text->size()));
  return file.verdict();
}

// A part of a library's checksum, or why there is none.
struct PartialSum {
  uint64_t sum = 0;
  PackageVerdict verdict;
};

PartialSum SumPart(const std::string& path, uint64_t begin, uint64_t end) {
  File file(path);
  if (file.verdict().ok()) file.Seek(begin);
  PackageChecksum checksum(begin);
  std::vector<char> buffer(kReadSize);
  while (file.verdict().ok() && begin < end) {
    const size_t n = file.Read(buffer.data(), std::min<uint64_t>(buffer.size(), end - begin));
    if (n == 0) break;  // it has become shorter, so that the sum is another
    checksum.Add(buffer.data(), n);
    begin += n;
  }
  return {checksum.value(), file.verdict()};
}

PackageVerdict VerifyLibraryFile(const std::string& path, const PackageLibrary& expected) {
  const File file(path);
  if (!file.verdict().ok()) return file.verdict();
  if (file.size() != expected.size) {
    return Verdict(PackageStatus::kDamaged, path + ": " + std::to_string(file.size()) +
                                                " bytes; its manifest says " +
                                                std::to_string(expected.size));
  }
  // Where no thread can be started, a part is summed up when it is asked for.
  std::vector<std::future<PartialSum>> parts;
  const uint64_t part_size = std::max(kMinPartSize, (file.size() / kMaxParts + 8) / 8 * 8);
  for (uint64_t begin = part_size; begin < file.size(); begin += part_size) {
    parts.push_back(std::async(SumPart, path, begin, begin + part_size));
  }
  PartialSum total = SumPart(path, 0, part_size);
  for (auto& part : parts) {
    const PartialSum more = part.get();
    total.sum += more.sum;
    if (total.verdict.ok()) total.verdict = more.verdict;
  }
  if (!total.verdict.ok()) return total.verdict;
  if (total.sum != expected.checksum) {
    return Verdict(PackageStatus::kDamaged, path + ": the checksum differs from its manifest's");
  }
  return {};
}

bool EndsWith(const std::string& text, const char* suffix) {
  const size_t n = std::strlen(suffix);
  return text.size() > n && text.compare(text.size() - n, n, suffix) == 0;
}

// Without .so or .json; empty if it ends in neither.
std::string Stem(const std::string& path) {
  for (const char* suffix : {kLibrarySuffix, kManifestSuffix}) {
    if (EndsWith(path, suffix)) return path.substr(0, path.size() - std::strlen(suffix));
  }
  return "";
}

std::string FileName(const std::string& path) { return fs::path(path).filename().string(); }

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Where this code lies: the path as it was loaded, and with symbolic links resolved.
std::vector<std::string> OwnFolders() {
  Dl_info info;
  link_map* map = nullptr;
  static const char here = 0;
  if (dladdr1(&here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return {};
  // The executable itself has no name here, and argv[0] need not be a path.
  const bool is_executable = map == nullptr || map->l_name == nullptr || map->l_name[0] == '\0';
  std::error_code error;
  const fs::path file = is_executable ? fs::read_symlink("/proc/self/exe", error)
                                      : fs::absolute(info.dli_fname, error);
  if (error) return {};
  std::vector<std::string> folders = {file.parent_path().string()};
  const fs::path resolved = fs::canonical(file, error);
  if (!error && resolved.parent_path() != file.parent_path()) {
    folders.push_back(resolved.parent_path().string());
  }
  return folders;
}

}  // namespace

void PackageChecksum::Add(const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t sum = sum_, factor = factor_;
  for (; size >= 8; bytes += 8, size -= 8, factor += 2) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);  // the hosts of GPUs are little-endian
    sum += word * factor;
  }
  if (size > 0) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, size);
    sum += word * factor;
  }
  sum_ = sum;
  factor_ = factor;
}

KernelPackage::KernelPackage(const CutedslQuantKernelPackage* linked) : package_(linked) {
  path_ = "linked:?";
  // The layout of what follows the version is known only if the version is.
  if (linked->abi_version != CUTEDSL_QUANT_KERNEL_ABI_VERSION) {
    verdict_ =
        Verdict(PackageStatus::kOtherVersion,
                path_ + ": kernel ABI version " + std::to_string(linked->abi_version) +
                    "; this library calls " + std::to_string(CUTEDSL_QUANT_KERNEL_ABI_VERSION));
    return;
  }
  verdict_ = ParsePackageManifest(linked->manifest == nullptr ? "" : linked->manifest, &manifest_,
                                  nullptr);
  has_manifest_ = verdict_.ok();
  if (!manifest_.name.empty()) path_ = "linked:" + manifest_.name;
  if (!has_manifest_) verdict_.message = path_ + ": " + verdict_.message;
}

KernelPackage::KernelPackage(const std::string& path) {
  const std::string stem = Stem(path);
  path_ = stem.empty() ? path : stem + kLibrarySuffix;
  if (stem.empty()) {
    verdict_ = Verdict(PackageStatus::kUnreadable,
                       path + (Exists(path) ? ": neither a folder nor a .so or .json file"
                                            : ": no such file or folder"));
    return;
  }
  const std::string manifest_path = stem + kManifestSuffix;
  std::string text;
  verdict_ = ReadManifestFile(manifest_path, &text);
  if (!verdict_.ok()) return;
  verdict_ = ParsePackageManifest(text, &manifest_, &library_);
  has_manifest_ = verdict_.ok();
  if (!has_manifest_) {
    verdict_.message = manifest_path + ": " + verdict_.message;
  } else if (library_.file != FileName(path_)) {
    verdict_ =
        Verdict(PackageStatus::kInconsistent, manifest_path + ": describes \"" + library_.file +
                                                  "\", not \"" + FileName(path_) + "\"");
  }
}

void KernelPackage::Open() {
  if (opened_) return;
  opened_ = true;
  if (!verdict_.ok()) return;
  verdict_ = package_ != nullptr ? CheckTable(package_) : OpenLibrary();
}

PackageVerdict KernelPackage::OpenLibrary() {
  if (auto verdict = VerifyLibraryFile(path_, library_); !verdict.ok()) return verdict;
  std::error_code error;
  const std::string absolute = fs::absolute(path_, error).string();
  void* handle = error ? nullptr : dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = error ? nullptr : dlerror();
    return Verdict(PackageStatus::kNotLoadable,
                   why != nullptr ? why : path_ + ": cannot be loaded");
  }
  const auto getter = reinterpret_cast<CutedslQuantKernelPackageGetter>(
      dlsym(handle, CUTEDSL_QUANT_KERNEL_PACKAGE_SYMBOL));
  const CutedslQuantKernelPackage* package = getter == nullptr ? nullptr : getter();
  if (package == nullptr) {
    return Verdict(PackageStatus::kNotLoadable,
                   path_ + ": exports no " CUTEDSL_QUANT_KERNEL_PACKAGE_SYMBOL);
  }
  if (package->abi_version != CUTEDSL_QUANT_KERNEL_ABI_VERSION || package->manifest == nullptr) {
    return Verdict(PackageStatus::kInconsistent,
                   path_ + ": its table is of another version than its manifest says");
  }
  PackageManifest embedded;
  if (auto verdict = ParsePackageManifest(package->manifest, &embedded, nullptr); !verdict.ok()) {
    return Verdict(verdict.status, path_ + ": the embedded manifest: " + verdict.message);
  }
  if (!(embedded == manifest_)) {
    return Verdict(PackageStatus::kInconsistent,
                   path_ + ": the embedded manifest differs from the one beside it");
  }
  return CheckTable(package);
}

PackageVerdict KernelPackage::CheckTable(const CutedslQuantKernelPackage* package) {
  const auto& ids = manifest_.config_ids;
  bool agrees = package->num_kernels == ids.size() && (ids.empty() || package->kernels != nullptr);
  for (size_t i = 0; agrees && i < ids.size(); ++i) {
    agrees = package->kernels[i].config_id == ids[i] && package->kernels[i].call != nullptr;
  }
  if (!agrees) {
    return Verdict(PackageStatus::kInconsistent,
                   path_ + ": the kernel table differs from the manifest");
  }
  package_ = package;
  return {};
}

bool KernelPackage::Serves(int32_t compute_capability) const {
  const auto& served = manifest_.compute_capabilities;
  return std::find(served.begin(), served.end(), compute_capability) != served.end();
}

TVMFFISafeCallType KernelPackage::Find(uint32_t config_id) const {
  if (!loaded()) return nullptr;
  const CutedslQuantPackagedKernel* begin = package_->kernels;
  const CutedslQuantPackagedKernel* end = begin + package_->num_kernels;
  const auto* found = std::lower_bound(
      begin, end, config_id,
      [](const CutedslQuantPackagedKernel& kernel, uint32_t id) { return kernel.config_id < id; });
  return found != end && found->config_id == config_id ? found->call : nullptr;
}

PackageSearch PackageSearch::Default() {
  PackageSearch search;
  search.paths = GetEnvironment().kernel_path;
  search.beside = OwnFolders();
  return search;
}

// Takes over the package that was loaded before, if there is one.
template <typename Predicate>
bool KernelPackageIndex::Keep(Predicate is_wanted) {
  const auto found = std::find_if(before_.begin(), before_.end(), is_wanted);
  if (found == before_.end()) return false;
  packages_.push_back(std::move(*found));
  before_.erase(found);
  return true;
}

void KernelPackageIndex::AddFile(const std::string& path) {
  const std::string library = Stem(path) + kLibrarySuffix;
  if (Keep([&](const KernelPackage& package) { return package.path() == library; })) return;
  KernelPackage package(path);
  std::error_code error;
  for (const KernelPackage& other : packages_) {
    if (other.path() == package.path() || fs::equivalent(other.path(), package.path(), error))
      return;
  }
  packages_.push_back(std::move(package));
}

void KernelPackageIndex::AddFolder(const std::string& folder, bool packages_only) {
  std::set<std::string> stems;  // sorted: the same order on every machine
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string stem = Stem(it->path().string());
    if (!stem.empty()) stems.insert(stem);
  }
  for (const std::string& stem : stems) {
    if (packages_only || (Exists(stem + kLibrarySuffix) && Exists(stem + kManifestSuffix))) {
      AddFile(stem + kLibrarySuffix);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory && packages_only) {
    packages_.emplace_back(folder,
                           Verdict(PackageStatus::kUnreadable, folder + ": " + error.message()));
  }
}

void KernelPackageIndex::AddLinked() {
  if (!search_->linked) return;
  const auto linked = RegisteredKernelPackages();
  for (; linked_seen_ < linked.size(); ++linked_seen_) {
    const CutedslQuantKernelPackage* const table = linked[linked_seen_];
    if (!Keep([&](const KernelPackage& package) { return package.table() == table; })) {
      packages_.emplace_back(table);
    }
  }
}

void KernelPackageIndex::Search() {
  if (!search_) search_ = PackageSearch::Default();
  before_ = std::move(packages_);
  before_.erase(std::remove_if(before_.begin(), before_.end(),
                               [](const KernelPackage& package) { return !package.loaded(); }),
                before_.end());
  packages_.clear();
  linked_seen_ = 0;
  for (const std::string& path : search_->paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      AddFolder(path, /*packages_only=*/true);
    } else {
      AddFile(path);
    }
  }
  AddLinked();
  for (const std::string& folder : search_->beside) {
    AddFolder(folder, /*packages_only=*/false);
    AddFolder(folder + "/" + kFolderBeside, /*packages_only=*/true);
  }
  // Files may be gone; what was loaded from them is not.
  std::move(before_.begin(), before_.end(), std::back_inserter(packages_));
  before_.clear();
}

void KernelPackageIndex::Refresh() {
  searched_ ? AddLinked() : Search();
  searched_ = true;
}

void KernelPackageIndex::Reset() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  searched_ = false;
}

KernelPackageIndex::Lookup KernelPackageIndex::Find(uint32_t config_id,
                                                    int32_t compute_capability) {
  std::lock_guard<std::mutex> lock(mutex_);
  Refresh();
  bool rejected = false, served = false;
  for (KernelPackage& package : packages_) {
    if (package.has_manifest() && !package.Serves(compute_capability)) continue;
    package.Open();
    if (TVMFFISafeCallType call = package.Find(config_id)) return {call, MissReason::kNone};
    if (!package.loaded()) RecordError("kernel package not used: " + package.verdict().message);
    rejected |= !package.loaded();
    served |= package.loaded();
  }
  if (packages_.empty()) return {nullptr, MissReason::kNoPackage};
  if (rejected) return {nullptr, MissReason::kPackageRejected};
  return {nullptr, served ? MissReason::kNotPackaged : MissReason::kArchitecture};
}

std::vector<uint32_t> KernelPackageIndex::ConfigIds(int32_t compute_capability) {
  std::lock_guard<std::mutex> lock(mutex_);
  Refresh();
  std::set<uint32_t> ids;
  for (KernelPackage& package : packages_) {
    if (!package.Serves(compute_capability)) continue;
    package.Open();
    if (!package.loaded()) continue;
    ids.insert(package.manifest().config_ids.begin(), package.manifest().config_ids.end());
  }
  return {ids.begin(), ids.end()};
}

std::vector<KernelPackageIndex::Report> KernelPackageIndex::Reports() {
  std::lock_guard<std::mutex> lock(mutex_);
  Refresh();
  std::vector<Report> reports;
  for (KernelPackage& package : packages_) {
    package.Open();
    reports.push_back({package.path(), package.verdict(), package.manifest()});
  }
  return reports;
}

}  // namespace cutedsl_quant
