// The cache on the hot path: one resolution per key whatever the threads do, and no answer that
// outlives a reset.
#include "ffi_bridge/kernel_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/ffi_bridge/malloc_counter.h"

namespace cutedsl_quant {
namespace {

class NoKernel : public Kernel {
 public:
  bool Launch(const QuantizeConfig&, const KernelArgs&) const noexcept override { return false; }
};

// Runs `body(i)` in `count` threads that all start at the same moment.
template <typename Body>
void Race(int count, Body body) {
  std::atomic<int> waiting{count};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Both kinds of answers are remembered, and keys are not mixed up.
TEST(KernelCache, RemembersAnswersByConfigurationAndCapability) {
  const NoKernel kernel;
  int resolved = 0;
  KernelCache cache([&](uint32_t id, int32_t capability) -> KernelLookup {
    ++resolved;
    if (id == 1 && capability == 90) return {&kernel, MissReason::kNone};
    return {nullptr, capability == 90 ? MissReason::kNotPackaged : MissReason::kArchitecture};
  });
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_EQ(cache.Find(1, 90).kernel, &kernel);
    EXPECT_EQ(cache.Find(1, 90).reason, MissReason::kNone);
    EXPECT_EQ(cache.Find(2, 90).reason, MissReason::kNotPackaged);
    EXPECT_EQ(cache.Find(1, 100).reason, MissReason::kArchitecture);
    EXPECT_EQ(cache.Find(90, 1).reason, MissReason::kArchitecture);
    EXPECT_EQ(cache.Find(2, 90).kernel, nullptr);
  }
  EXPECT_EQ(resolved, 4);
}

// All configurations of several devices: the table grows under readers, and nothing is lost or
// asked for twice.
TEST(KernelCache, GrowsUnderReaders) {
  constexpr int kKeys = 5000, kThreads = 4;
  std::deque<NoKernel> kernels(kKeys);
  std::vector<std::atomic<int>> resolved(kKeys);
  KernelCache cache([&](uint32_t id, int32_t) -> KernelLookup {
    ++resolved[id];
    return {&kernels[id], MissReason::kNone};
  });
  std::atomic<int> wrong{0};
  Race(kThreads, [&](int thread) {
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < kKeys; ++i) {
        const uint32_t id = static_cast<uint32_t>(thread % 2 == 0 ? i : kKeys - 1 - i);
        if (cache.Find(id, 90).kernel != &kernels[id]) ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  for (int i = 0; i < kKeys; ++i) EXPECT_EQ(resolved[i], 1) << i;
}

// However many threads want a kernel at once, it is compiled once, and all of them get it.
TEST(KernelCache, ResolvesOnceForManyThreads) {
  const NoKernel kernel;
  std::atomic<int> resolved{0};
  KernelCache cache([&](uint32_t, int32_t) -> KernelLookup {
    ++resolved;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return {&kernel, MissReason::kNone};
  });
  std::atomic<int> served{0};
  Race(16, [&](int) { served += cache.Find(7, 90).kernel == &kernel; });
  EXPECT_EQ(served, 16);
  EXPECT_EQ(resolved, 1);
}

// No lock is held across a resolution: another key, known or not, does not wait for it. With a lock
// this never ends.
TEST(KernelCache, OtherKeysDoNotWait) {
  std::atomic<bool> slow_started{false}, release{false};
  KernelCache cache([&](uint32_t id, int32_t) -> KernelLookup {
    if (id == 1) {
      slow_started = true;
      while (!release) std::this_thread::yield();
    }
    return {nullptr, MissReason::kNotPackaged};
  });
  cache.Find(2, 90);
  std::thread slow([&] { cache.Find(1, 90); });
  while (!slow_started) std::this_thread::yield();
  cache.Find(2, 90);
  cache.Find(3, 90);
  cache.Reset();
  cache.Find(2, 90);
  release = true;
  slow.join();
}

// A failed compile is not tried again by itself, but after a reset it is.
TEST(KernelCache, ForgetsOnReset) {
  int resolved = 0;
  KernelCache cache([&](uint32_t, int32_t) -> KernelLookup {
    ++resolved;
    return {nullptr, resolved == 1 ? MissReason::kCompileFailed : MissReason::kNotPackaged};
  });
  EXPECT_EQ(cache.Find(1, 90).reason, MissReason::kCompileFailed);
  EXPECT_EQ(cache.Find(1, 90).reason, MissReason::kCompileFailed);
  cache.Reset();
  EXPECT_EQ(cache.Find(1, 90).reason, MissReason::kNotPackaged);
  EXPECT_EQ(resolved, 2);
}

// A resolution that began before a reset saw the old mode: its answer must not be remembered after
// it.
TEST(KernelCache, AnswerFromBeforeAResetIsNotRemembered) {
  std::atomic<int> resolved{0};
  KernelCache* self = nullptr;
  KernelCache cache([&](uint32_t, int32_t) -> KernelLookup {
    if (++resolved == 1) {
      self->Reset();
      return {nullptr, MissReason::kCompileFailed};
    }
    return {nullptr, MissReason::kNotPackaged};
  });
  self = &cache;
  EXPECT_EQ(cache.Find(1, 90).reason, MissReason::kCompileFailed);
  EXPECT_EQ(cache.Find(1, 90).reason, MissReason::kNotPackaged);
  EXPECT_EQ(cache.Find(1, 90).reason, MissReason::kNotPackaged);
  EXPECT_EQ(resolved, 2);
}

// A factory that quantizes while it compiles would otherwise wait for itself for ever.
TEST(KernelCache, AnswersItsOwnResolverInsteadOfWaiting) {
  const NoKernel kernel;
  KernelCache* self = nullptr;
  KernelLookup inner;
  KernelCache cache([&](uint32_t id, int32_t capability) -> KernelLookup {
    inner = self->Find(id, capability);
    return {&kernel, MissReason::kNone};
  });
  self = &cache;
  EXPECT_EQ(cache.Find(1, 90).kernel, &kernel);
  EXPECT_EQ(inner.reason, MissReason::kCompileFailed);
}

// Resets while readers run: every answer is one that the resolver gave.
TEST(KernelCache, ResetsUnderReaders) {
  const NoKernel kernel;
  KernelCache cache(
      [&](uint32_t, int32_t) -> KernelLookup { return {&kernel, MissReason::kNone}; });
  std::atomic<int> wrong{0};
  Race(4, [&](int thread) {
    for (int i = 0; i < 2000; ++i) {
      if (thread == 0) {
        cache.Reset();
      } else if (cache.Find(static_cast<uint32_t>(i % 64), 90).kernel != &kernel) {
        ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

// The hot path allocates nothing.
TEST(KernelCache, WarmLookupsDoNotAllocate) {
  KernelCache cache(
      [](uint32_t, int32_t) -> KernelLookup { return {nullptr, MissReason::kNotPackaged}; });
  cache.Find(1, 90);
  const int64_t before = AllocationsOfThread();
  for (int i = 0; i < 100; ++i) cache.Find(1, 90);
  EXPECT_EQ(AllocationsOfThread(), before);
}

}  // namespace
}  // namespace cutedsl_quant
