// Memory for the outputs of a test: poisoned before, with guard bytes on both sides.
#ifndef CUTEDSL_QUANT_TESTS_COMMON_GUARDED_BYTES_H_
#define CUTEDSL_QUANT_TESTS_COMMON_GUARDED_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cutedsl_quant {

inline constexpr uint8_t kPoison = 0xA5;

class GuardedBytes {
 public:
  // `offset` moves the first byte away from its 64-byte alignment.
  explicit GuardedBytes(int64_t size, int64_t offset = 0)
      : size_(size), bytes_(size + offset + 3 * kGuard, kGuardByte) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    first_ = bytes_.data() + kGuard + (kGuard - address % kGuard) % kGuard + offset;
    std::fill_n(first_, size_, kPoison);
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  uint8_t* data() { return first_; }
  std::vector<uint8_t> contents() const { return {first_, first_ + size_}; }

  bool untouched() const {
    return guards_intact() &&
           std::all_of(first_, first_ + size_, [](uint8_t b) { return b == kPoison; });
  }
  bool guards_intact() const {
    const auto is_guard = [](uint8_t b) { return b == kGuardByte; };
    return std::all_of(bytes_.data(), static_cast<const uint8_t*>(first_), is_guard) &&
           std::all_of(static_cast<const uint8_t*>(first_ + size_), bytes_.data() + bytes_.size(),
                       is_guard);
  }

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr uint8_t kGuardByte = 0x5C;

  int64_t size_;
  std::vector<uint8_t> bytes_;
  uint8_t* first_;
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_COMMON_GUARDED_BYTES_H_
