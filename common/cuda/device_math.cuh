// Device-side building blocks of the cast kernels: memory accesses of a chosen width, the elements
// a thread holds, block maxima and the FP8 conversions.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_DEVICE_MATH_CUH_
#define CUTEDSL_QUANT_COMMON_CUDA_DEVICE_MATH_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "common/numerics.h"

namespace cutedsl_quant {
namespace cuda {

// The widest access to memory that all architectures have.
inline constexpr int kMaxAccessBytes = 16;

// One access to global memory of kBytes (a power of two, the pointer aligned to it), or none.
// Predicated instructions instead of branches, so that the compiler can start all loads of a thread
// before it uses the first.
template <int kBytes>
__device__ __forceinline__ void LoadIf(bool condition, uint32_t* to, const void* from) {
  const uint32_t predicate = condition;
  if constexpr (kBytes == 16) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.u32 p, %5, 0;\n"
        " @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
        : "l"(from), "r"(predicate));
  } else if constexpr (kBytes == 8) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.u32 p, %3, 0;\n @p ld.global.v2.u32 {%0, %1}, [%2];\n}"
        : "+r"(to[0]), "+r"(to[1])
        : "l"(from), "r"(predicate));
  } else if constexpr (kBytes == 4) {
    asm volatile("{\n .reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p ld.global.u32 %0, [%1];\n}"
                 : "+r"(to[0])
                 : "l"(from), "r"(predicate));
  } else if constexpr (kBytes == 2) {
    asm volatile("{\n .reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p ld.global.u16 %0, [%1];\n}"
                 : "+r"(to[0])
                 : "l"(from), "r"(predicate));
  } else {
    static_assert(kBytes == 1);
    asm volatile("{\n .reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p ld.global.u8 %0, [%1];\n}"
                 : "+r"(to[0])
                 : "l"(from), "r"(predicate));
  }
}

template <int kBytes>
__device__ __forceinline__ void StoreIf(bool condition, void* to, const uint32_t* from) {
  const uint32_t predicate = condition;
  if constexpr (kBytes == 16) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.u32 p, %5, 0;\n"
        " @p st.global.v4.u32 [%0], {%1, %2, %3, %4};\n}" ::"l"(to),
        "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]), "r"(predicate)
        : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.u32 p, %3, 0;\n @p st.global.v2.u32 [%0], {%1, %2};\n}" ::"l"(
            to),
        "r"(from[0]), "r"(from[1]), "r"(predicate)
        : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p st.global.u32 [%0], %1;\n}" ::"l"(to),
        "r"(from[0]), "r"(predicate)
        : "memory");
  } else if constexpr (kBytes == 2) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p st.global.u16 [%0], %1;\n}" ::"l"(to),
        "h"(static_cast<uint16_t>(from[0])), "r"(predicate)
        : "memory");
  } else {
    static_assert(kBytes == 1);
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p st.global.u8 [%0], %1;\n}" ::"l"(to),
        "r"(from[0]), "r"(predicate)
        : "memory");
  }
}

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(__half x) { return __half2float(x); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T FromFloat(float x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

// Elements are held in words. A word is one fp32 element, or two 16-bit elements that are compared
// in one instruction. Maxima are of absolute values and start from 0, so that they drop NaN.
struct FloatWords {
  using Word = float;
  static constexpr int kPerWord = 1;
  static __device__ __forceinline__ Word AbsMax(Word a, Word b) {
    return fmaxf(fabsf(a), fabsf(b));
  }
  static __device__ __forceinline__ float MaxOfWord(Word maximum) { return maximum; }
  static __device__ __forceinline__ void Unpack(Word word, float* values) { values[0] = word; }
  // Rounds to T, which the word stands for.
  template <typename T>
  static __device__ __forceinline__ Word Pack(const float* values) {
    return ToFloat(FromFloat<T>(values[0]));
  }
  static __device__ __forceinline__ void Multiply(Word word, const float* factors, float* values) {
    values[0] = word * factors[0];
  }
};

template <typename T>
struct PairWords {
  using Word = uint32_t;
  static constexpr int kPerWord = 2;
  // One instruction for both; the sign of the result means nothing.
  static __device__ __forceinline__ Word AbsMax(Word a, Word b);
  static __device__ __forceinline__ float2 ToFloats(Word word);
  // The factors are powers of two.
  static __device__ __forceinline__ void Multiply(Word word, const float* factors, float* values);

  static __device__ __forceinline__ float MaxOfWord(Word maximum) {
    const float2 values = ToFloats(maximum);
    return fmaxf(fabsf(values.x), fabsf(values.y));
  }
  static __device__ __forceinline__ void Unpack(Word word, float* values) {
    const float2 pair = ToFloats(word);
    values[0] = pair.x;
    values[1] = pair.y;
  }
  template <typename Element>
  static __device__ __forceinline__ Word Pack(const float* values) {
    static_assert(std::is_same_v<Element, T>);
    return PackPair(values[0], values[1]);
  }

 private:
  static __device__ __forceinline__ Word PackPair(float first, float second);
};

template <>
__device__ __forceinline__ uint32_t PairWords<__half>::AbsMax(uint32_t a, uint32_t b) {
  uint32_t maximum;
  asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(maximum) : "r"(a), "r"(b));
  return maximum;
}

template <>
__device__ __forceinline__ uint32_t PairWords<__nv_bfloat16>::AbsMax(uint32_t a, uint32_t b) {
  uint32_t maximum;
  asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(maximum) : "r"(a), "r"(b));
  return maximum;
}

template <>
__device__ __forceinline__ float2 PairWords<__half>::ToFloats(uint32_t word) {
  __half2 pair;
  memcpy(&pair, &word, sizeof(pair));
  return __half22float2(pair);
}

template <>
__device__ __forceinline__ float2 PairWords<__nv_bfloat16>::ToFloats(uint32_t word) {
  return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000u));
}

template <>
__device__ __forceinline__ uint32_t PairWords<__half>::PackPair(float first, float second) {
  const __half2 pair = __floats2half2_rn(first, second);
  uint32_t word;
  memcpy(&word, &pair, sizeof(word));
  return word;
}

template <>
__device__ __forceinline__ uint32_t PairWords<__nv_bfloat16>::PackPair(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  uint32_t word;
  memcpy(&word, &pair, sizeof(word));
  return word;
}

template <>
__device__ __forceinline__ void PairWords<__half>::Multiply(uint32_t word, const float* factors,
                                                            float* values) {
  const float2 pair = ToFloats(word);
  values[0] = pair.x * factors[0];
  values[1] = pair.y * factors[1];
}

// In bf16: exact, as only the exponent changes, but for what lies so far below FP8 that it is cast
// to zero anyway. Saves registers and, where elements are cast twice, instructions.
template <>
__device__ __forceinline__ void PairWords<__nv_bfloat16>::Multiply(uint32_t word,
                                                                   const float* factors,
                                                                   float* values) {
  const uint32_t upper_halves =
      __byte_perm(__float_as_uint(factors[0]), __float_as_uint(factors[1]), 0x7632);
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(word), "r"(upper_halves));
  Unpack(product, values);
}

// How a thread holds kVec neighbouring elements of type T. A single 16-bit element is widened when
// it is loaded.
template <typename T, int kVec>
struct WordsOf {
  using Type = FloatWords;
};
template <int kVec>
struct WordsOf<__half, kVec> {
  using Type = std::conditional_t<kVec == 1, FloatWords, PairWords<__half>>;
};
template <int kVec>
struct WordsOf<__nv_bfloat16, kVec> {
  using Type = std::conditional_t<kVec == 1, FloatWords, PairWords<__nv_bfloat16>>;
};

// Loads kVec elements into words, zeros if not `condition`.
template <typename T, int kVec, typename Word>
__device__ __forceinline__ void LoadWordsIf(bool condition, Word* words, const T* from) {
  constexpr int kBytes = kVec * sizeof(T);
  constexpr int kAccessBytes = kBytes < kMaxAccessBytes ? kBytes : kMaxAccessBytes;
  uint32_t bits[(kBytes + 3) / 4] = {};
#pragma unroll
  for (int at = 0; at < kBytes; at += kAccessBytes) {
    LoadIf<kAccessBytes>(condition, bits + at / 4, reinterpret_cast<const char*>(from) + at);
  }
  if constexpr (kBytes < 4) {
    T value;
    memcpy(&value, bits, kBytes);
    words[0] = ToFloat(value);
  } else {
    memcpy(words, bits, kBytes);
  }
}

// Of kCount maxima in every lane, gives lane l the maximum of number l % kCount over the kLanes (a
// power of two, at least kCount) neighbouring lanes that l belongs to: halves the number of values
// with each exchange, instead of reducing each in all lanes.
template <typename Words, int kLanes, int kCount>
__device__ __forceinline__ typename Words::Word TransposedMax(
    typename Words::Word (&maxima)[kCount], int lane) {
  using Word = typename Words::Word;
#pragma unroll
  for (int step = kCount / 2; step >= 1; step /= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < step; ++i) {
      const Word kept = upper ? maxima[i + step] : maxima[i];
      const Word sent = upper ? maxima[i] : maxima[i + step];
      maxima[i] = Words::AbsMax(kept, __shfl_xor_sync(0xFFFFFFFFu, sent, step));
    }
  }
#pragma unroll
  for (int step = kCount; step < kLanes; step *= 2) {
    maxima[0] = Words::AbsMax(maxima[0], __shfl_xor_sync(0xFFFFFFFFu, maxima[0], step));
  }
  return maxima[0];
}

template <DType kFp8>
inline constexpr __nv_fp8_interpretation_t kInterpretation =
    kFp8 == DType::kFloat8E4M3 ? __NV_E4M3 : __NV_E5M2;

// Multiplies, casts and stores kVec neighbouring elements.
template <DType kFp8, typename Words, int kVec>
__device__ __forceinline__ void CastAndStoreIf(bool condition, uint8_t* to,
                                               const typename Words::Word* words,
                                               const float (&inverse_scales)[kVec]) {
  float values[kVec];
#pragma unroll
  for (int v = 0; v < kVec; v += Words::kPerWord) {
    Words::Multiply(words[v / Words::kPerWord], inverse_scales + v, values + v);
  }
  uint32_t bytes[(kVec + 3) / 4] = {};
  if constexpr (kVec == 1) {
    bytes[0] = __nv_cvt_float_to_fp8(values[0], __NV_SATFINITE, kInterpretation<kFp8>);
  } else {
#pragma unroll
    for (int v = 0; v < kVec; v += 2) {
      const uint32_t pair = __nv_cvt_float2_to_fp8x2(make_float2(values[v], values[v + 1]),
                                                     __NV_SATFINITE, kInterpretation<kFp8>);
      bytes[v / 4] |= pair << v % 4 * 8;
    }
  }
  StoreIf<kVec>(condition, to, bytes);
}

// A grid so many columns wide, whose cells are numbered row by row. Splits a number into row and
// column without a division, as long as numbers stay below 2^31.
class GridColumns {
 public:
  GridColumns() = default;
  explicit GridColumns(int64_t count) : count_(count) {
    // number / count == number * ceil(2^shift / count) / 2^shift, if 2^shift is at least 2^31 times
    // the count. The multiplier stays below 2^32.
    if (count >= kLimit) return;
    while ((int64_t{1} << (shift_ - 31)) < count) ++shift_;
    multiplier_ = static_cast<uint32_t>(numerics::CeilDiv(int64_t{1} << shift_, count));
  }

  int64_t count() const { return count_; }

  __device__ __forceinline__ void Split(int64_t number, int64_t* row, int64_t* column) const {
    if (number < kLimit && count_ < kLimit) {
      *row = static_cast<int64_t>(number * static_cast<uint64_t>(multiplier_) >> shift_);
    } else {
      *row = number / count_;
    }
    *column = number - *row * count_;
  }

 private:
  static constexpr int64_t kLimit = int64_t{1} << 31;
  int64_t count_ = 1;
  uint32_t multiplier_ = 0;
  int32_t shift_ = 31;
};

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_DEVICE_MATH_CUH_
