// What went wrong inside the bridge. Such failures never leave it as exceptions: the call falls
// back, a counter says so, and the message is kept here for whoever wants to know. With
// NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN it also goes to stderr, ahead of the call's warning.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_ERRORS_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_ERRORS_H_

#include <string>
#include <vector>

#include "cutedsl_quant/config.h"

namespace cutedsl_quant {

// Keeps a message, unless it is already kept.
void RecordError(const std::string& message) noexcept;

// Keeps "<what><name of config>: <message>".
void RecordError(const char* what, const QuantizeConfig& config,
                 const std::string& message) noexcept;

// The same with the error that a TVM-FFI call has raised in this thread, which is taken from there.
void RecordRaisedError(const char* what, const QuantizeConfig& config) noexcept;

// The latest messages, oldest first, at most 32.
std::vector<std::string> RecentErrors();

// Forgets them.
void ClearErrors() noexcept;

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_ERRORS_H_
