#include "ffi_bridge/kernel_cache.h"

#include <condition_variable>
#include <thread>
#include <utility>

namespace cutedsl_quant {
namespace {

// An answer in one word: a kernel's address (even), or a reason with the lowest bit set. 0 is no
// answer yet.
uintptr_t Encode(KernelLookup lookup) {
  if (lookup.kernel != nullptr) return reinterpret_cast<uintptr_t>(lookup.kernel);
  return static_cast<uintptr_t>(lookup.reason) << 1 | 1;
}

KernelLookup Decode(uintptr_t answer) {
  if (answer & 1) return {nullptr, static_cast<MissReason>(answer >> 1)};
  return {reinterpret_cast<const Kernel*>(answer), MissReason::kNone};
}
static_assert(alignof(Kernel) >= 2);

}  // namespace

struct KernelCache::Entry {
  explicit Entry(uint64_t key) : key(key) {}

  const uint64_t key;
  std::atomic<uintptr_t> answer{0};
  // For those who find no answer.
  std::mutex mutex;
  std::condition_variable resolved;
  std::thread::id resolver;  // the thread in resolve_, if any
};

// Open addressing with linear probing, at most half full; entries are only ever added.
struct KernelCache::Table {
  explicit Table(size_t capacity) : mask(capacity - 1), slots(capacity) {}

  // Each slot is looked at once: a key that was not there a moment ago may be another's by now.
  Entry* Find(uint64_t key) const {
    for (size_t i = Home(key);; i = (i + 1) & mask) {
      Entry* const entry = slots[i].load(std::memory_order_acquire);
      if (entry == nullptr || entry->key == key) return entry;
    }
  }

  // By one thread at a time, for a key that has no entry.
  void Add(Entry* entry) {
    size_t i = Home(entry->key);
    while (slots[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & mask;
    slots[i].store(entry, std::memory_order_release);
  }

  // Fibonacci hashing: the upper half of the product is well mixed.
  size_t Home(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & mask;
  }

  const size_t mask;
  std::vector<std::atomic<Entry*>> slots;
};

KernelCache::KernelCache(Resolve resolve) : resolve_(std::move(resolve)) {
  constexpr size_t kInitialCapacity = 256;
  tables_.push_back(std::make_unique<Table>(kInitialCapacity));
  table_.store(tables_.back().get(), std::memory_order_release);
}

KernelCache::~KernelCache() = default;

KernelLookup KernelCache::Find(uint32_t config_id, int32_t compute_capability) {
  const uint64_t key = Key(config_id, compute_capability);
  Entry* entry = table_.load(std::memory_order_acquire)->Find(key);
  if (entry == nullptr) entry = Insert(key);
  const uintptr_t answer = entry->answer.load(std::memory_order_acquire);
  return answer != 0 ? Decode(answer) : ResolveOnce(entry);
}

KernelCache::Entry* KernelCache::Insert(uint64_t key) {
  std::lock_guard<std::mutex> lock(insert_mutex_);
  Table* table = tables_.back().get();
  if (Entry* entry = table->Find(key)) return entry;  // another thread's
  if (2 * (entries_.size() + 1) > table->slots.size()) {
    tables_.push_back(std::make_unique<Table>(2 * table->slots.size()));
    table = tables_.back().get();
    for (const auto& entry : entries_) table->Add(entry.get());
    table_.store(table, std::memory_order_release);
  }
  entries_.push_back(std::make_unique<Entry>(key));
  table->Add(entries_.back().get());
  return entries_.back().get();
}

KernelLookup KernelCache::ResolveOnce(Entry* entry) {
  const std::thread::id self = std::this_thread::get_id();
  std::unique_lock<std::mutex> lock(entry->mutex);
  while (true) {
    if (const uintptr_t answer = entry->answer.load(std::memory_order_relaxed))
      return Decode(answer);
    if (entry->resolver == std::thread::id()) break;
    if (entry->resolver == self) return {nullptr, MissReason::kCompileFailed};
    entry->resolved.wait(lock);
  }
  entry->resolver = self;
  const uint64_t generation = generation_.load(std::memory_order_acquire);
  lock.unlock();

  const KernelLookup lookup =
      resolve_(static_cast<uint32_t>(entry->key), static_cast<int32_t>(entry->key >> 32));

  lock.lock();
  entry->resolver = std::thread::id();
  if (generation_.load(std::memory_order_acquire) == generation) {
    entry->answer.store(Encode(lookup), std::memory_order_release);
  }
  entry->resolved.notify_all();
  return lookup;
}

void KernelCache::Reset() {
  generation_.fetch_add(1, std::memory_order_acq_rel);
  std::lock_guard<std::mutex> insert_lock(insert_mutex_);
  for (const auto& entry : entries_) {
    std::lock_guard<std::mutex> lock(entry->mutex);
    entry->answer.store(0, std::memory_order_release);
  }
}

}  // namespace cutedsl_quant
