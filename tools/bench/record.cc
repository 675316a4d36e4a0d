#include "tools/bench/record.h"

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace cutedsl_quant {
namespace bench {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

Record& Record::Add(const char* name, const std::string& value) {
  return AddRaw(name, Quoted(value));
}

Record& Record::Add(const char* name, double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.6g", value);
  return AddRaw(name, text);
}

Record& Record::Add(const char* name, int64_t value) { return AddRaw(name, std::to_string(value)); }

Record& Record::Add(const char* name, bool value) { return AddRaw(name, value ? "true" : "false"); }

Record& Record::Add(const Times& times, const std::string& unit) {
  return Add(("median_" + unit).c_str(), times.median)
      .Add(("min_" + unit).c_str(), times.min)
      .Add(("max_" + unit).c_str(), times.max);
}

Record& Record::AddRaw(const char* name, const std::string& value) {
  fields_ += (fields_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + value;
  return *this;
}

void WriteJson(const std::string& path, const Results& results) {
  std::ofstream file(path);
  const auto list = [&](const char* name, const std::vector<Record>& records) {
    file << ",\n\"" << name << "\": [";
    for (size_t i = 0; i < records.size(); ++i) file << (i ? ",\n  " : "\n  ") << records[i].Json();
    file << "\n]";
  };
  file << "{\"machine\": " << results.machine.Json();
  list("gpu_time", results.gpu);
  list("host_time", results.host);
  list("first_call", results.cold);
  file << "}\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace bench
}  // namespace cutedsl_quant
