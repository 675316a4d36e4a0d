// Matrices in NumPy's .npy format.
#ifndef NPY_H_
#define NPY_H_

#include <cstdint>
#include <string>
#include <vector>

struct NpyMatrix {
  std::string dtype;  // NumPy's description: "<f4", "<f2", "<u2", "|u1", ...
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<uint8_t> bytes;  // row-major
};

// Both throw std::runtime_error that names the file. A 1-D array is read as one row.
NpyMatrix ReadNpy(const std::string& path);
void WriteNpy(const std::string& path, const NpyMatrix& matrix);

#endif  // NPY_H_
