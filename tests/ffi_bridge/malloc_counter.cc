#include "tests/ffi_bridge/malloc_counter.h"

#include <cstddef>

namespace {

thread_local int64_t allocations = 0;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// glibc's own, under their second names.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* pointer, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* pointer, size_t size) {
  ++allocations;
  return __libc_realloc(pointer, size);
}
void* memalign(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** pointer, size_t alignment, size_t size) {
  *pointer = memalign(alignment, size);
  return *pointer == nullptr ? 12 /* ENOMEM */ : 0;
}
}

#endif

namespace cutedsl_quant {

int64_t AllocationsOfThread() { return allocations; }

}  // namespace cutedsl_quant
