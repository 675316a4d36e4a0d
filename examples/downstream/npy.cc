#include "npy.h"

#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;
// The data starts at a multiple of this.
constexpr size_t kAlignment = 64;

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw std::runtime_error(path + ": " + what);
}

std::string Match(const std::string& path, const std::string& header, const char* pattern) {
  std::smatch match;
  if (!std::regex_search(header, match, std::regex(pattern))) {
    Fail(path, std::string("no ") + pattern + " in the header " + header);
  }
  return match[1];
}

size_t LittleEndian(const std::string& bytes) {
  size_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

}  // namespace

NpyMatrix ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail(path, "cannot be opened");
  const std::string content(std::istreambuf_iterator<char>(file), {});
  if (content.size() < 12 || content.compare(0, kMagicSize, kMagic) != 0)
    Fail(path, "is no .npy file");
  // Version 1 has two bytes for the header's length, later ones four.
  const size_t length_size = content[kMagicSize] == 1 ? 2 : 4;
  const size_t header_begin = kMagicSize + 2 + length_size;
  const size_t header_size = LittleEndian(content.substr(kMagicSize + 2, length_size));
  if (header_size > content.size() - header_begin) Fail(path, "ends within its header");
  const std::string header = content.substr(header_begin, header_size);

  NpyMatrix matrix;
  matrix.dtype = Match(path, header, "'descr': '([^']*)'");
  if (Match(path, header, "'fortran_order': (True|False)") == "True") {
    Fail(path, "is in column-major order; save numpy.ascontiguousarray(x)");
  }
  const std::string shape = Match(path, header, "'shape': \\(([0-9, ]*)\\)");
  std::vector<int64_t> dims;
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(shape.begin(), shape.end(), number), end; it != end; ++it) {
    dims.push_back(std::stoll(it->str()));
  }
  if (dims.empty() || dims.size() > 2) Fail(path, "has shape (" + shape + "), wanted is a matrix");
  matrix.rows = dims.size() == 2 ? dims[0] : 1;
  matrix.cols = dims.back();
  matrix.bytes.assign(content.begin() + header_begin + header_size, content.end());

  const size_t item_size = std::stoul(Match(path, matrix.dtype, "([0-9]+)$"));
  if (matrix.bytes.size() != matrix.rows * matrix.cols * item_size) {
    Fail(path, "holds " + std::to_string(matrix.bytes.size()) +
                   " bytes of data, which does not fit its shape");
  }
  return matrix;
}

void WriteNpy(const std::string& path, const NpyMatrix& matrix) {
  std::string header = "{'descr': '" + matrix.dtype + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(matrix.rows) + ", " + std::to_string(matrix.cols) + "), }";
  const size_t prefix = kMagicSize + 4;
  header.append(kAlignment - (prefix + header.size() + 1) % kAlignment, ' ').push_back('\n');
  const char version_and_length[] = {1, 0, static_cast<char>(header.size() & 0xFF),
                                     static_cast<char>(header.size() >> 8)};

  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, kMagicSize).write(version_and_length, sizeof(version_and_length));
  file << header;
  file.write(reinterpret_cast<const char*>(matrix.bytes.data()), matrix.bytes.size());
  if (!file.flush()) Fail(path, "cannot be written");
}
