#include "tests/common/allocation_counter.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocations = 0;

}  // namespace

// All forms that pair with the deletes below, so that sanitizers see matching pairs.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void* operator new(size_t size) {
  if (void* pointer = operator new(size, std::nothrow)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, size_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, const std::nothrow_t&) noexcept { std::free(pointer); }

namespace cutedsl_quant {

int64_t AllocationsOfThread() { return allocations; }

}  // namespace cutedsl_quant
