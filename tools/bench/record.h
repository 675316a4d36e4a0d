// Results as JSON objects.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_RECORD_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/measure.h"

namespace cutedsl_quant {
namespace bench {

// Names and values, already in JSON's spelling.
class Record {
 public:
  Record& Add(const char* name, const std::string& value);
  Record& Add(const char* name, double value);
  Record& Add(const char* name, int64_t value);
  Record& Add(const char* name, bool value);
  // median_<unit>, min_<unit>, max_<unit>.
  Record& Add(const Times& times, const std::string& unit);
  std::string Json() const { return "{" + fields_ + "}"; }

 private:
  Record& AddRaw(const char* name, const std::string& value);
  std::string fields_;
};

struct Results {
  Record machine;
  std::vector<Record> gpu;
  std::vector<Record> host;
  std::vector<Record> cold;
};

void WriteJson(const std::string& path, const Results& results);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_RECORD_H_
