// (configuration, compute capability) -> kernel, for the hot path.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_CACHE_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_CACHE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cutedsl_quant/kernel_provider.h"

namespace cutedsl_quant {

// Remembers the answers of `resolve`, kernels and reasons for having none alike.
//
// A known answer is read without a lock. An unknown one is asked for once, however many threads
// want it: the others wait for that answer, and those that want other keys do not. A call from
// inside `resolve` for its own key is answered with kCompileFailed instead of waiting for itself.
class KernelCache {
 public:
  // Must not throw. The kernel it returns must outlive the cache.
  using Resolve = std::function<KernelLookup(uint32_t config_id, int32_t compute_capability)>;

  explicit KernelCache(Resolve resolve);
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  KernelLookup Find(uint32_t config_id, int32_t compute_capability);

  // Forgets all answers. One that is being worked out meanwhile goes to the thread that does so,
  // and is not remembered.
  void Reset();

 private:
  struct Entry;
  struct Table;

  static uint64_t Key(uint32_t config_id, int32_t compute_capability) {
    return uint64_t{static_cast<uint32_t>(compute_capability)} << 32 | config_id;
  }
  Entry* Insert(uint64_t key);
  KernelLookup ResolveOnce(Entry* entry);

  const Resolve resolve_;
  std::atomic<Table*> table_;
  std::atomic<uint64_t> generation_{0};

  // Guards insertion alone. Tables that were outgrown stay, for readers that are still in them.
  std::mutex insert_mutex_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_CACHE_H_
