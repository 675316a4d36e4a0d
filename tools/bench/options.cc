#include "tools/bench/options.h"

#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <type_traits>

#include "tools/bench/fusions.h"

namespace cutedsl_quant {
namespace bench {
namespace {

template <typename T, typename Name = const char*>
struct Choice {
  Name name;
  T value;
};

constexpr Choice<DType> kDTypes[] = {
    {"fp32", DType::kFloat32}, {"fp16", DType::kFloat16}, {"bf16", DType::kBFloat16}};
constexpr Choice<DType> kFp8DTypes[] = {{"e4m3", DType::kFloat8E4M3}, {"e5m2", DType::kFloat8E5M2}};
constexpr Choice<Directions> kDirections[] = {
    {"rowwise", {true, false}}, {"columnwise", {false, true}}, {"both", {true, true}}};
constexpr Choice<bool> kLayouts[] = {{"compact", false}, {"swizzled", true}};
constexpr Choice<bool> kSwitches[] = {{"off", false}, {"on", true}};
constexpr Choice<Backend> kBackends[] = {{"cuda", Backend::kCuda}, {"cutedsl", Backend::kCutedsl}};

std::vector<Choice<QuantizeConfig, std::string>> Fusions() {
  std::vector<Choice<QuantizeConfig, std::string>> choices;
  for (const QuantizeConfig& fusion : AllFusions()) choices.push_back({FusionName(fusion), fusion});
  return choices;
}

// 2^20, 2^21, ... 2^33 elements.
std::vector<Size> ScalingSizes() {
  std::vector<Size> sizes;
  for (int64_t rows = 256; rows <= int64_t{1} << 21; rows *= 2) sizes.push_back({rows, 4096});
  return sizes;
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t comma; (comma = text.find(',', begin)) != std::string::npos; begin = comma + 1) {
    parts.push_back(text.substr(begin, comma - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// The values of a comma-separated list of names; "all" is all of them.
template <typename Choices>
auto Choose(const std::string& flag, const std::string& text, const Choices& choices) {
  std::vector<std::decay_t<decltype(std::begin(choices)->value)>> values;
  for (const std::string& part : Split(text)) {
    const size_t before = values.size();
    std::string accepted;
    for (const auto& choice : choices) {
      if (part == choice.name || part == "all") values.push_back(choice.value);
      accepted += std::string(choice.name) + ", ";
    }
    if (values.size() == before) {
      throw std::invalid_argument(flag + ": '" + part + "' is none of " + accepted + "all");
    }
  }
  return values;
}

int64_t ParsePositive(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const long long value = strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value <= 0) {
    throw std::invalid_argument(flag + ": '" + text + "' is not a positive number");
  }
  return value;
}

std::vector<Size> ParseSizes(const std::string& flag, const std::string& text) {
  std::vector<Size> sizes;
  for (const std::string& part : Split(text)) {
    const size_t x = part.find('x');
    if (x == std::string::npos) {
      throw std::invalid_argument(flag + ": '" + part + "' is not written like 1024x4096");
    }
    sizes.push_back(
        {ParsePositive(flag, part.substr(0, x)), ParsePositive(flag, part.substr(x + 1))});
  }
  return sizes;
}

template <typename T, size_t kCount, typename Equal>
std::string Find(const Choice<T> (&choices)[kCount], Equal equal) {
  for (const Choice<T>& choice : choices) {
    if (equal(choice.value)) return choice.name;
  }
  return "?";
}

}  // namespace

const char kUsage[] =
    "Measures casts to MXFP8 on GPU 0, plain and fused: GPU time, host time of a call, first "
    "call.\n"
    "\n"
    "  --sizes 1024x4096,...      rows x columns\n"
    "  --scaling                  sizes from 2^20 to 2^33 elements instead\n"
    "  --dtype fp32,fp16,bf16     of the input\n"
    "  --fp8 e4m3,e5m2\n"
    "  --fusion none,dbias,gelu,dgelu,dbias_dgelu,...\n"
    "  --direction rowwise,columnwise,both\n"
    "  --layout compact,swizzled  of the scales\n"
    "  --amax off,on\n"
    "  --backend cuda,cutedsl     copies of the input are always measured, to compare with\n"
    "  --replays 9                times of which the median is taken\n"
    "  --rest 0                   milliseconds to rest before each measurement on the GPU\n"
    "  --only gpu|host|cold       one of the three parts\n"
    "  --json FILE                also write the results there\n"
    "\n"
    "Lists are separated by commas; 'all' is everything.\n";

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      options.help = true;
      return options;
    }
    if (flag == "--first-call-only") {
      options.first_call_only = true;
      continue;
    }
    if (flag == "--scaling") {
      options.sizes = ScalingSizes();
      continue;
    }
    std::string value;
    const size_t equals = flag.find('=');
    if (equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (i + 1 < argc) {
      value = argv[++i];
    }
    if (flag == "--sizes") {
      options.sizes = ParseSizes(flag, value);
    } else if (flag == "--dtype") {
      options.dtypes = Choose(flag, value, kDTypes);
    } else if (flag == "--fp8") {
      options.fp8_dtypes = Choose(flag, value, kFp8DTypes);
    } else if (flag == "--fusion") {
      options.fusions = Choose(flag, value, Fusions());
    } else if (flag == "--direction") {
      options.directions = Choose(flag, value, kDirections);
    } else if (flag == "--layout") {
      options.swizzled = Choose(flag, value, kLayouts);
    } else if (flag == "--amax") {
      options.amax = Choose(flag, value, kSwitches);
    } else if (flag == "--backend") {
      options.backends = Choose(flag, value, kBackends);
    } else if (flag == "--replays") {
      options.replays.count = static_cast<int>(ParsePositive(flag, value));
    } else if (flag == "--rest") {
      options.replays.rest_ms = static_cast<int>(ParsePositive(flag, value));
    } else if (flag == "--only") {
      if (value != "gpu" && value != "host" && value != "cold") {
        throw std::invalid_argument("--only: '" + value + "' is none of gpu, host, cold");
      }
      options.gpu_time = value == "gpu";
      options.host_time = value == "host";
      options.cold_start = value == "cold";
    } else if (flag == "--json") {
      if (value.empty()) throw std::invalid_argument("--json: a file name is missing");
      options.json = value;
    } else {
      throw std::invalid_argument("unknown argument '" + flag + "'");
    }
  }
  return options;
}

std::string NameOf(DType dtype) {
  const auto equal = [&](DType value) { return value == dtype; };
  const std::string name = Find(kDTypes, equal);
  return name != "?" ? name : Find(kFp8DTypes, equal);
}

std::string NameOf(Directions directions) {
  return Find(kDirections, [&](Directions value) {
    return value.rowwise == directions.rowwise && value.colwise == directions.colwise;
  });
}

std::string NameOf(Size size) {
  return std::to_string(size.rows) + "x" + std::to_string(size.cols);
}

std::string LayoutName(bool swizzled) {
  return Find(kLayouts, [&](bool value) { return value == swizzled; });
}

}  // namespace bench
}  // namespace cutedsl_quant
