#include "ffi_bridge/errors.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <exception>
#include <mutex>

#include "common/environment.h"

namespace cutedsl_quant {
namespace {

constexpr size_t kMaxErrors = 32;

struct Log {
  std::mutex mutex;
  std::deque<std::string> messages;
};

// Never destroyed: calls may come while the process ends.
Log& GetLog() {
  static Log* const log = new Log;
  return *log;
}

}  // namespace

void RecordError(const std::string& message) noexcept try {
  Log& log = GetLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  if (std::find(log.messages.begin(), log.messages.end(), message) != log.messages.end()) return;
  if (log.messages.size() == kMaxErrors) log.messages.pop_front();
  log.messages.push_back(message);
  if (GetEnvironment().warn_if_not_chosen) {
    std::fprintf(stderr, "cutedsl_quant: %s\n", message.c_str());
  }
} catch (const std::exception&) {
  // Out of memory: the message is lost, the fallback is not.
}

void RecordError(const char* what, const QuantizeConfig& config,
                 const std::string& message) noexcept try {
  RecordError(what + config.Name() + ": " + message);
} catch (const std::exception&) {
}

void RecordRaisedError(const char* what, const QuantizeConfig& config) noexcept try {
  TVMFFIObjectHandle raised = nullptr;
  TVMFFIErrorMoveFromRaised(&raised);
  if (raised == nullptr) return RecordError(what, config, "failed without an error");
  using tvm::ffi::detail::ObjectUnsafe;
  const auto error = ObjectUnsafe::ObjectRefFromObjectPtr<tvm::ffi::Error>(
      ObjectUnsafe::ObjectPtrFromOwned<tvm::ffi::Object>(static_cast<TVMFFIObject*>(raised)));
  RecordError(what, config, error.kind() + ": " + error.message());
} catch (const std::exception&) {
}

std::vector<std::string> RecentErrors() {
  Log& log = GetLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  return {log.messages.begin(), log.messages.end()};
}

void ClearErrors() noexcept {
  Log& log = GetLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  log.messages.clear();
}

}  // namespace cutedsl_quant
