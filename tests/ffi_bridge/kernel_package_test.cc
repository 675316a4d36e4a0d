// Opening kernel packages: every way in which one can be broken is a verdict with a message, never
// an exception or a crash; and which of several packages serves a kernel.
#include "ffi_bridge/kernel_package.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "cutedsl_quant/config.h"
#include "ffi_bridge/kernel_package_registry.h"
#include "tests/ffi_bridge/fake_manifest.h"
#include "tests/ffi_bridge/package_files.h"

extern "C" const CutedslQuantKernelPackage* linked_fake_package();

namespace cutedsl_quant {
namespace {

const char kFields[] = FAKE_MANIFEST_FIELDS;

// `text` with its first `from` replaced; the test is wrong if there is none.
std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

KernelPackage Opened(const std::string& path) {
  KernelPackage package(path);
  package.Open();
  return package;
}

PackageSearch Paths(std::vector<std::string> paths) {
  return {std::move(paths), /*linked=*/false, /*beside=*/{}};
}

// The constants of the fake package are what the library says they are.
TEST(FakePackage, NamesAndIdsAgree) {
  EXPECT_EQ(QuantizeConfig::FromName(FAKE_FIRST_KERNEL)->Id(), FAKE_FIRST_ID);
  EXPECT_EQ(QuantizeConfig::FromName(FAKE_SECOND_KERNEL)->Id(), FAKE_SECOND_ID);
}

// A loader that refuses everything would pass the tests of refusals.
TEST(KernelPackage, OpensAWholePackageByEitherOfItsFiles) {
  TemporaryFolder folder;
  WritePackage(folder / "fake", kFields, FakeLibrary("good"));
  for (const char* name : {"fake.so", "fake.json"}) {
    const KernelPackage package = Opened(folder / name);
    EXPECT_EQ(package.verdict().status, PackageStatus::kLoaded) << package.verdict().message;
    EXPECT_EQ(package.verdict().message, "");
    EXPECT_EQ(package.path(), folder / "fake.so");
    EXPECT_EQ(package.manifest().name, "fake");
    EXPECT_EQ(package.manifest().architecture, "host");
    EXPECT_EQ(package.manifest().config_ids,
              (std::vector<uint32_t>{FAKE_FIRST_ID, FAKE_SECOND_ID}));
    EXPECT_TRUE(package.Serves(0));
    EXPECT_TRUE(package.Serves(90));
    EXPECT_FALSE(package.Serves(100));
    EXPECT_NE(package.Find(FAKE_FIRST_ID), nullptr);
    EXPECT_NE(package.Find(FAKE_SECOND_ID), nullptr);
    EXPECT_NE(package.Find(FAKE_FIRST_ID), package.Find(FAKE_SECOND_ID));
    EXPECT_EQ(package.Find(FAKE_FIRST_ID + 1), nullptr);
    EXPECT_EQ(package.Find(0), nullptr);
    EXPECT_EQ(package.Find(~0u), nullptr);
  }
}

// Only Open makes kernels callable: the constructor must not load code.
TEST(KernelPackage, IsNotLoadedBeforeItIsOpened) {
  TemporaryFolder folder;
  WritePackage(folder / "fake", kFields, FakeLibrary("good"));
  const KernelPackage package(folder / "fake.so");
  EXPECT_TRUE(package.has_manifest());
  EXPECT_EQ(package.Find(FAKE_FIRST_ID), nullptr);
}

// The published formula; a slip in it would refuse every package, or none.
TEST(KernelPackage, ChecksumOfKnownBytes) {
  PackageChecksum empty;
  EXPECT_EQ(empty.value(), 0u);
  PackageChecksum words;
  words.Add("\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\x80\2\1", 18);
  EXPECT_EQ(words.value(), 1u + 3u * 0x8000000000000001u + 5u * 0x0102u);
  PackageChecksum pieces;
  pieces.Add("\1\0\0\0\0\0\0\0", 8);
  pieces.Add("\1\0\0\0\0\0\0\x80\2\1", 10);
  EXPECT_EQ(pieces.value(), words.value());
  PackageChecksum begin, end(8);
  begin.Add("\1\0\0\0\0\0\0\0", 8);
  end.Add("\1\0\0\0\0\0\0\x80\2\1", 10);
  EXPECT_EQ(begin.value() + end.value(), words.value());
}

struct Fault {
  const char* name;
  std::function<void(const std::string& stem)> write;  // <stem>.so and <stem>.json
  PackageStatus status;
  const char* message;  // part of it
};

std::string Good() { return FakeLibrary("good"); }

// The good library beside another manifest.
std::function<void(const std::string&)> WithFields(const std::string& fields) {
  return [fields](const std::string& stem) { WritePackage(stem, fields, Good()); };
}
std::function<void(const std::string&)> WithText(const std::string& text) {
  return [text](const std::string& stem) {
    WriteFile(stem + ".so", Good());
    WriteFile(stem + ".json", text);
  };
}
// Another library beside a manifest that fits its bytes.
std::function<void(const std::string&)> WithLibrary(const std::string& name) {
  return [name](const std::string& stem) { WritePackage(stem, kFields, FakeLibrary(name)); };
}
// The good manifest beside a library that was damaged after it was written.
std::function<void(const std::string&)> Damaged(std::function<std::string(std::string)> damage) {
  return [damage](const std::string& stem) {
    WritePackage(stem, kFields, Good());
    WriteFile(stem + ".so", damage(Good()));
  };
}
// Bytes that the manifest vouches for, but that are no library.
std::function<void(const std::string&)> Vouched(std::function<std::string(std::string)> change) {
  return [change](const std::string& stem) { WritePackage(stem, kFields, change(Good())); };
}

std::string Without(const std::string& key) {
  // Fields are "key": value pairs; another name for the key removes it.
  return Replace(kFields, "\"" + key + "\"", "\"x\"");
}

std::vector<Fault> Faults() {
  using S = PackageStatus;
  const std::string first = "\"" FAKE_FIRST_KERNEL "\"", second = "\"" FAKE_SECOND_KERNEL "\"";
  std::vector<Fault> faults = {
      // Files.
      {"no files", [](const std::string&) {}, S::kUnreadable, "fake.json: No such file"},
      {"no manifest", [](const std::string& stem) { WriteFile(stem + ".so", Good()); },
       S::kUnreadable, "fake.json: No such file"},
      {"no library",
       [](const std::string& stem) {
         WriteFile(stem + ".json", ManifestText(kFields, "fake.so", Good()));
       },
       S::kUnreadable, "fake.so: No such file"},
      {"manifest is a folder",
       [](const std::string& stem) { std::filesystem::create_directory(stem + ".json"); },
       S::kUnreadable, "not a regular file"},
      {"manifest is a pipe",
       [](const std::string& stem) { mkfifo((stem + ".json").c_str(), 0600); }, S::kUnreadable,
       "not a regular file"},
      {"library is a folder",
       [](const std::string& stem) {
         std::filesystem::create_directory(stem + ".so");
         WriteFile(stem + ".json", ManifestText(kFields, "fake.so", Good()));
       },
       S::kUnreadable, "not a regular file"},

      // The manifest as JSON.
      {"empty manifest", WithText(""), S::kBadManifest, "empty"},
      {"not JSON", WithText("ELF"), S::kBadManifest, "not JSON"},
      {"half a manifest", WithText(ManifestText(kFields, "fake.so", Good()).substr(0, 200)),
       S::kBadManifest, "not JSON"},
      {"NUL bytes", WithText(std::string(100, '\0')), S::kBadManifest, "not JSON"},
      {"null", WithText("null"), S::kBadManifest, "not a JSON object"},
      {"not an object", WithText("[1, 2]"), S::kBadManifest, "not a JSON object"},
      {"deep nesting", WithText(std::string(1 << 20, '[')), S::kBadManifest, "nested"},
      {"deep nesting of objects", WithText([] {
         std::string text;
         for (int i = 0; i < 1 << 18; ++i) text += "{\"a\":";
         return text;
       }()),
       S::kBadManifest, "nested"},
      {"an endless string", WithText("{\"" + std::string(1 << 20, 'a')), S::kBadManifest,
       "not JSON"},

      // Versions.
      {"another schema", WithFields(Replace(kFields, "\"schema\": 1", "\"schema\": 2")),
       S::kOtherVersion, "schema 2"},
      {"another schema without the other keys", WithText("{\"schema\": 99}"), S::kOtherVersion,
       "schema 99"},
      {"another kernel ABI",
       WithFields(Replace(kFields, "\"abi_version\": 1", "\"abi_version\": 7")), S::kOtherVersion,
       "ABI version 7"},
      {"another TVM-FFI", WithFields(Replace(kFields, FAKE_TVM_FFI_VERSION, "0.99.1")),
       S::kOtherVersion, "TVM-FFI 0.99.1"},
      {"another major TVM-FFI",
       WithFields(
           Replace(kFields, FAKE_TVM_FFI_VERSION, "77." FAKE_TEXT(TVM_FFI_VERSION_MINOR) ".0")),
       S::kOtherVersion, "TVM-FFI 77."},
      {"no version", WithFields(Replace(kFields, FAKE_TVM_FFI_VERSION, "latest")), S::kBadManifest,
       "\"latest\", not a version"},

      // Keys.
      {"schema is a string", WithFields(Replace(kFields, "\"schema\": 1", "\"schema\": \"1\"")),
       S::kBadManifest, "\"schema\" is not an integer"},
      {"schema is a fraction", WithFields(Replace(kFields, "\"schema\": 1", "\"schema\": 1.5")),
       S::kBadManifest, "\"schema\" is not an integer"},
      {"name is a number", WithFields(Replace(kFields, "\"fake\"", "3")), S::kBadManifest,
       "\"name\" is not a string"},
      {"kernels is an object",
       WithFields(Replace(kFields, "[" + first + ", " + second + "]", "{}")), S::kBadManifest,
       "\"kernels\" is not an array"},
      {"a kernel is a number", WithFields(Replace(kFields, second, "5")), S::kBadManifest,
       "not a string"},
      {"a capability is a string", WithFields(Replace(kFields, "[0, 90]", "[\"sm_90\"]")),
       S::kBadManifest, "compute_capabilities"},
      {"an unknown kernel", WithFields(Replace(kFields, second, "\"cutedsl_mxfp8_int4\"")),
       S::kBadManifest, "no configuration"},
      {"no library key", WithText("{" + std::string(kFields) + "}"), S::kBadManifest,
       "\"library\" is missing"},
      {"library is a string", WithText("{" + std::string(kFields) + ", \"library\": \"fake.so\"}"),
       S::kBadManifest, "\"library\" is not an object"},
      {"no size", WithText("{" + std::string(kFields) + ", \"library\": {\"file\": \"fake.so\"}}"),
       S::kBadManifest, "\"library.size\" is missing"},
      {"bad checksum",
       WithText("{" + std::string(kFields) +
                ", \"library\": {\"file\": \"fake.so\", \"size\": 1, \"checksum\": \"xyz\"}}"),
       S::kBadManifest, "16 lower-case hexadecimal digits"},
      {"library elsewhere", WithText(ManifestText(kFields, "../fake.so", Good())), S::kBadManifest,
       "without folder"},

      // Order and agreement.
      {"kernels not sorted",
       WithFields(Replace(kFields, first + ", " + second, second + ", " + first)), S::kInconsistent,
       "ascending"},
      {"a kernel twice", WithFields(Replace(kFields, second, first)), S::kInconsistent,
       "ascending"},
      {"a renamed library", WithText(ManifestText(kFields, "other.so", Good())), S::kInconsistent,
       "\"other.so\", not \"fake.so\""},
      {"another name embedded", WithFields(Replace(kFields, "\"fake\"", "\"other\"")),
       S::kInconsistent, "embedded manifest differs"},
      {"other sources embedded", WithFields(Replace(kFields, "\"abc\"", "\"abd\"")),
       S::kInconsistent, "embedded manifest differs"},
      {"other devices embedded", WithFields(Replace(kFields, "[0, 90]", "[0]")), S::kInconsistent,
       "embedded manifest differs"},
      {"other kernels embedded", WithFields(Replace(kFields, ", " + second, "")), S::kInconsistent,
       "embedded manifest differs"},
      {"table of another ABI", WithLibrary("other_abi"), S::kInconsistent, "another version"},
      {"embedded manifest is not JSON", WithLibrary("bad_embedded"), S::kBadManifest,
       "embedded manifest"},
      {"table not sorted", WithLibrary("swapped"), S::kInconsistent, "table differs"},
      {"table repeats a kernel", WithLibrary("repeated"), S::kInconsistent, "table differs"},
      {"table too short", WithLibrary("short"), S::kInconsistent, "table differs"},
      {"kernel without address", WithLibrary("null_kernel"), S::kInconsistent, "table differs"},

      // The library.
      {"empty library", Damaged([](std::string) { return std::string(); }), S::kDamaged,
       "0 bytes; its manifest says"},
      {"truncated library", Damaged([](std::string so) { return so.substr(0, so.size() / 2); }),
       S::kDamaged, "bytes; its manifest says"},
      {"longer library", Damaged([](std::string so) { return so + '\0'; }), S::kDamaged,
       "bytes; its manifest says"},
      {"vouched for, empty", Vouched([](std::string) { return std::string(); }), S::kNotLoadable,
       "fake.so"},
      {"vouched for, not ELF", Vouched([](std::string) { return std::string(4096, 'x'); }),
       S::kNotLoadable, "fake.so"},
      {"of another processor", Vouched([](std::string so) {
         so.at(18) = static_cast<char>(0xF3);  // e_machine: RISC-V
         return so;
       }),
       S::kNotLoadable, "fake.so"},
      {"no getter", WithLibrary("no_getter"), S::kNotLoadable,
       "exports no cutedsl_quant_kernel_package"},
      {"getter returns null", WithLibrary("no_package"), S::kNotLoadable,
       "exports no cutedsl_quant_kernel_package"},
      {"a symbol is missing", WithLibrary("undefined"), S::kNotLoadable, "undefined symbol"},
  };
  const std::pair<const char*, std::string> nulls[] = {
      {"kernels", "[" + first + ", " + second + "]"},
      {"compute_capabilities", "[0, 90]"},
      {"name", "\"fake\""},
  };
  for (const auto& [key, value] : nulls) {
    faults.push_back(
        {key, WithFields(Replace(kFields, value, "null")), S::kBadManifest, "is not a"});
  }
  faults.push_back({"null library", WithText("{" + std::string(kFields) + ", \"library\": null}"),
                    S::kBadManifest, "\"library\" is not an object"});
  for (const char* key : {"schema", "abi_version", "tvm_ffi", "name", "architecture",
                          "compute_capabilities", "cutlass_dsl", "source_digest", "kernels"}) {
    faults.push_back({key, WithFields(Without(key)), S::kBadManifest, "is missing"});
  }
  return faults;
}

// Each fault alone: its status, a message that says what is wrong, and no kernel.
TEST(KernelPackage, RefusesWhatIsBroken) {
  for (const Fault& fault : Faults()) {
    SCOPED_TRACE(fault.name);
    TemporaryFolder folder;
    fault.write(folder / "fake");
    const KernelPackage package = Opened(folder / "fake.so");
    EXPECT_STREQ(PackageStatusName(package.verdict().status), PackageStatusName(fault.status));
    EXPECT_NE(package.verdict().message.find(fault.message), std::string::npos)
        << package.verdict().message;
    EXPECT_EQ(package.Find(FAKE_FIRST_ID), nullptr);
    EXPECT_EQ(package.Find(FAKE_SECOND_ID), nullptr);
  }
}

// Every bit counts: one flipped anywhere must not reach the dynamic linker.
TEST(KernelPackage, RefusesAnyFlippedBit) {
  TemporaryFolder folder;
  const std::string good = Good();
  WritePackage(folder / "fake", kFields, good);
  for (size_t i = 0; i < good.size(); i += 1 + good.size() / 97) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 1 << i % 8);
    WriteFile(folder / "fake.so", damaged);
    EXPECT_EQ(Opened(folder / "fake.so").verdict().status, PackageStatus::kDamaged) << "byte " << i;
  }
}

// Large files are read by several threads: no part may be left out or read twice.
TEST(KernelPackage, ReadsEveryPartOfALargeFile) {
  constexpr size_t kMiB = 1 << 20;
  for (const size_t size : {5 * kMiB + 5, 20 * kMiB + 5}) {
    TemporaryFolder folder;
    std::string large = Good();
    large.resize(size, 'x');  // the linker does not look behind the last section
    WritePackage(folder / "fake", kFields, large);
    for (const size_t at :
         {kMiB - 1, kMiB, 3 * kMiB - 1, 3 * kMiB, 4 * kMiB, size - 6, size - 5, size - 1}) {
      std::string damaged = large;
      damaged[at] ^= 1;
      WriteFile(folder / "fake.so", damaged);
      EXPECT_EQ(Opened(folder / "fake.so").verdict().status, PackageStatus::kDamaged)
          << at << " of " << size;
    }
    // Last, as a file must not change once it is loaded.
    WriteFile(folder / "fake.so", large);
    EXPECT_EQ(Opened(folder / "fake.so").verdict().status, PackageStatus::kLoaded) << size;
  }
}

// A file that opens and then fails to be read; this one is readable at no address that a file
// starts with, for root too.
TEST(KernelPackage, RefusesWhatCannotBeRead) {
  TemporaryFolder folder;
  WritePackage(folder / "fake", kFields, "");
  std::filesystem::remove(folder / "fake.so");
  std::filesystem::create_symlink("/proc/self/mem", folder / "fake.so");
  const KernelPackage package = Opened(folder / "fake.so");
  EXPECT_EQ(package.verdict().status, PackageStatus::kUnreadable);
  EXPECT_NE(package.verdict().message.find("Input/output error"), std::string::npos)
      << package.verdict().message;
}

// A path that is no package file.
TEST(KernelPackage, RefusesOtherPaths) {
  TemporaryFolder folder;
  WriteFile(folder / "readme.txt", "x");
  EXPECT_EQ(Opened(folder / "readme.txt").verdict().message,
            (folder / "readme.txt") + ": neither a folder nor a .so or .json file");
  EXPECT_EQ(Opened(folder / "typo").verdict().message,
            (folder / "typo") + ": no such file or folder");
}

// A linked package has no file to check, but everything else must fit.
TEST(KernelPackage, ChecksLinkedPackages) {
  const CutedslQuantKernelPackage good = *linked_fake_package();
  KernelPackage package(&good);
  package.Open();
  EXPECT_TRUE(package.verdict().ok()) << package.verdict().message;
  EXPECT_EQ(package.path(), "linked:fake");
  EXPECT_EQ(package.Find(FAKE_FIRST_ID), good.kernels[0].call);

  const auto status = [](const CutedslQuantKernelPackage& linked) {
    KernelPackage package(&linked);
    package.Open();
    return package.verdict().status;
  };
  CutedslQuantKernelPackage other = good;
  other.abi_version = 2;
  EXPECT_EQ(status(other), PackageStatus::kOtherVersion);
  other = good;
  other.manifest = "{";
  EXPECT_EQ(status(other), PackageStatus::kBadManifest);
  other.manifest = nullptr;
  EXPECT_EQ(status(other), PackageStatus::kBadManifest);
  other = good;
  other.num_kernels = 1;
  EXPECT_EQ(status(other), PackageStatus::kInconsistent);
  other = good;
  other.kernels = nullptr;
  EXPECT_EQ(status(other), PackageStatus::kInconsistent);
}

// The reasons that the dispatcher counts; a wrong one sends users looking in the wrong place.
TEST(KernelPackageIndex, SaysWhyThereIsNoKernel) {
  TemporaryFolder empty, good, broken, both;
  WritePackage(good / "fake", kFields, Good());
  WritePackage(broken / "fake", kFields, Good());
  WriteFile(broken / "fake.so", "");
  WritePackage(both / "a", kFields, Good());
  WriteFile(both / "a.so", "");
  WritePackage(both / "b", kFields, Good());
  const uint32_t absent = FAKE_FIRST_ID + 1;
  struct Case {
    const char* name;
    std::vector<std::string> paths;
    uint32_t id;
    int32_t capability;
    MissReason reason;
  };
  const std::vector<Case> cases = {
      {"no path", {}, FAKE_FIRST_ID, 0, MissReason::kNoPackage},
      {"an empty folder", {empty.path()}, FAKE_FIRST_ID, 0, MissReason::kNoPackage},
      {"a path that does not exist",
       {empty / "typo"},
       FAKE_FIRST_ID,
       0,
       MissReason::kPackageRejected},
      {"served", {good.path()}, FAKE_FIRST_ID, 0, MissReason::kNone},
      {"served by file", {good / "fake.so"}, FAKE_SECOND_ID, 90, MissReason::kNone},
      {"another configuration", {good.path()}, absent, 0, MissReason::kNotPackaged},
      {"another device", {good.path()}, FAKE_FIRST_ID, 100, MissReason::kArchitecture},
      {"broken", {broken.path()}, FAKE_FIRST_ID, 0, MissReason::kPackageRejected},
      {"broken, for another device",
       {broken.path()},
       FAKE_FIRST_ID,
       100,
       MissReason::kArchitecture},
      {"broken, then good", {broken.path(), good.path()}, FAKE_FIRST_ID, 0, MissReason::kNone},
      {"broken and good in one folder", {both.path()}, FAKE_FIRST_ID, 0, MissReason::kNone},
      {"broken and good, another configuration",
       {both.path()},
       absent,
       0,
       MissReason::kPackageRejected},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    KernelPackageIndex index(Paths(c.paths));
    const auto lookup = index.Find(c.id, c.capability);
    EXPECT_STREQ(MissReasonName(lookup.reason), MissReasonName(c.reason));
    EXPECT_EQ(lookup.call != nullptr, c.reason == MissReason::kNone);
  }
}

// A damaged package for another device must not cost this one anything, not even reading it.
TEST(KernelPackageIndex, OpensOnlyWhatTheDeviceNeeds) {
  TemporaryFolder folder;
  WritePackage(folder / "a", Replace(kFields, "[0, 90]", "[120]"), Good());
  WritePackage(folder / "b", kFields, Good());
  KernelPackageIndex index(Paths({folder.path()}));
  EXPECT_NE(index.Find(FAKE_FIRST_ID, 0).call, nullptr);
  WriteFile(folder / "a.so", "");  // not opened so far: the report is the first to read it
  const auto reports = index.Reports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].path, folder / "a.so");
  EXPECT_EQ(reports[0].verdict.status, PackageStatus::kDamaged);
  EXPECT_EQ(reports[1].verdict.status, PackageStatus::kLoaded);
  EXPECT_EQ(reports[1].manifest.name, "fake");
}

// Reports are what a user reads when nothing works: every path, once, with its reason.
TEST(KernelPackageIndex, ReportsEveryPathOnce) {
  TemporaryFolder folder;
  WritePackage(folder / "fake", kFields, Good());
  std::filesystem::create_symlink(folder / "fake.so", folder / "link.so");
  std::filesystem::create_symlink(folder / "fake.json", folder / "link.json");
  KernelPackageIndex index(
      Paths({folder / "fake.so", folder / "fake.json", folder.path(), folder / "typo"}));
  const auto reports = index.Reports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].path, folder / "fake.so");
  EXPECT_TRUE(reports[0].verdict.ok());
  EXPECT_EQ(reports[1].path, folder / "typo");
  EXPECT_EQ(reports[1].verdict.status, PackageStatus::kUnreadable);
}

// The folder of an executable holds other files, which are none of our business; cutedsl_kernels/
// in it is.
TEST(KernelPackageIndex, LooksBesideWithoutTouchingOtherFiles) {
  TemporaryFolder folder;
  WriteFile(folder / "settings.json", "{}");
  WriteFile(folder / "libother.so", "x");
  std::filesystem::create_directory(folder / "cutedsl_kernels");
  WritePackage(folder / "cutedsl_kernels/fake", kFields, Good());
  WriteFile(folder / "cutedsl_kernels/half.json", "{}");
  KernelPackageIndex index(PackageSearch{{}, /*linked=*/false, {folder.path()}});
  EXPECT_NE(index.Find(FAKE_FIRST_ID, 0).call, nullptr);
  const auto reports = index.Reports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].path, folder / "cutedsl_kernels/fake.so");
  EXPECT_EQ(reports[1].path, folder / "cutedsl_kernels/half.so");
  EXPECT_EQ(reports[1].verdict.status, PackageStatus::kBadManifest);
}

// A package beside the executable itself, given directly.
TEST(KernelPackageIndex, LooksBesideForPairs) {
  TemporaryFolder folder;
  WritePackage(folder / "fake", kFields, Good());
  KernelPackageIndex index(PackageSearch{{}, /*linked=*/false, {folder.path()}});
  EXPECT_NE(index.Find(FAKE_FIRST_ID, 0).call, nullptr);
}

// Paths that the user names come before linked packages, and those before what lies beside.
TEST(KernelPackageIndex, PrefersPathsThenLinkedThenBeside) {
  RegisterKernelPackage(linked_fake_package());
  RegisterKernelPackage(linked_fake_package());  // a repeat is ignored
  TemporaryFolder path, beside;
  WritePackage(path / "fake", kFields, Good());
  WritePackage(beside / "fake", kFields, Good());
  KernelPackageIndex index(PackageSearch{{path.path()}, /*linked=*/true, {beside.path()}});
  const auto reports = index.Reports();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].path, path / "fake.so");
  EXPECT_EQ(reports[1].path, "linked:fake");
  EXPECT_EQ(reports[2].path, beside / "fake.so");
  const auto by_path = index.Find(FAKE_FIRST_ID, 0).call;
  EXPECT_NE(by_path, linked_fake_package()->kernels[0].call);

  KernelPackageIndex linked(PackageSearch{{}, /*linked=*/true, {beside.path()}});
  EXPECT_EQ(linked.Find(FAKE_FIRST_ID, 0).call, linked_fake_package()->kernels[0].call);
}

// A library that is loaded later can bring a linked package.
TEST(KernelPackageIndex, SeesPackagesLinkedInLater) {
  static CutedslQuantKernelPackage late = *linked_fake_package();
  KernelPackageIndex index(PackageSearch{{}, /*linked=*/true, {}});
  const size_t before = index.Reports().size();
  RegisterKernelPackage(&late);
  EXPECT_EQ(index.Reports().size(), before + 1);
}

// A package that is repaired, or comes later, must not wait for the next process; and it takes the
// place in the order that it would have had.
TEST(KernelPackageIndex, LooksAgainAfterAReset) {
  RegisterKernelPackage(linked_fake_package());
  TemporaryFolder path, beside;
  WritePackage(path / "fake", kFields, Good());
  WriteFile(path / "fake.so", "");
  KernelPackageIndex index(PackageSearch{{path.path()}, /*linked=*/true, {beside.path()}});
  const auto linked = linked_fake_package()->kernels[0].call;
  EXPECT_EQ(index.Find(FAKE_FIRST_ID, 0).call, linked);
  WritePackage(path / "fake", kFields, Good());
  WritePackage(beside / "fake", kFields, Good());
  EXPECT_EQ(index.Find(FAKE_FIRST_ID, 0).call, linked);
  index.Reset();
  const auto repaired = index.Find(FAKE_FIRST_ID, 0).call;
  EXPECT_NE(repaired, linked);
  EXPECT_NE(repaired, nullptr);
  const auto reports = index.Reports();
  ASSERT_GE(reports.size(), 3u);
  EXPECT_EQ(reports.front().path, path / "fake.so");
  EXPECT_EQ(reports.back().path, beside / "fake.so");
  for (const auto& report : reports) EXPECT_TRUE(report.verdict.ok()) << report.verdict.message;
}

// Loaded packages are not read again, and stay when their files are gone.
TEST(KernelPackageIndex, KeepsWhatIsLoaded) {
  TemporaryFolder folder;
  WritePackage(folder / "fake", kFields, Good());
  KernelPackageIndex index(Paths({folder.path()}));
  const auto call = index.Find(FAKE_FIRST_ID, 0).call;
  WriteFile(folder / "fake.json", "{}");
  index.Reset();
  EXPECT_EQ(index.Find(FAKE_FIRST_ID, 0).call, call);
  std::filesystem::remove(folder / "fake.json");
  std::filesystem::remove(folder / "fake.so");
  index.Reset();
  EXPECT_EQ(index.Find(FAKE_FIRST_ID, 0).call, call);
  EXPECT_EQ(index.Reports().size(), 1u);
}

// A folder that cannot be listed is not an empty one.
TEST(KernelPackageIndex, ReportsAFolderThatCannotBeRead) {
  TemporaryFolder folder;
  WritePackage(folder / "fake", kFields, Good());
  KernelPackageIndex index(Paths({folder.path()}));
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit none = limit;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const MissReason reason = index.Find(FAKE_FIRST_ID, 0).reason;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_STREQ(MissReasonName(reason), MissReasonName(MissReason::kPackageRejected));
  const auto reports = index.Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].path, folder.path());
  EXPECT_EQ(reports[0].verdict.status, PackageStatus::kUnreadable);
  EXPECT_NE(reports[0].verdict.message.find("open files"), std::string::npos)
      << reports[0].verdict.message;
  index.Reset();
  EXPECT_NE(index.Find(FAKE_FIRST_ID, 0).call, nullptr);
}

// Where the default search looks; a relative argv[0] or a symbolic link must not lose the folder.
TEST(PackageSearch, DefaultLooksBesideTheExecutable) {
  const PackageSearch search = PackageSearch::Default();
  EXPECT_TRUE(search.linked);
  const auto executable = std::filesystem::canonical("/proc/self/exe").parent_path().string();
  bool found = false;
  for (const std::string& folder : search.beside)
    found |= std::filesystem::canonical(folder) == executable;
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace cutedsl_quant
