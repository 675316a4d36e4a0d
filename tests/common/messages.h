// What tests of error messages share.
#ifndef CUTEDSL_QUANT_TESTS_COMMON_MESSAGES_H_
#define CUTEDSL_QUANT_TESTS_COMMON_MESSAGES_H_

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <vector>

namespace cutedsl_quant {

// The message of what a call throws, which must be an Exception; empty if nothing.
template <typename Exception = std::exception, typename Function>
std::string MessageOf(Function function) {
  try {
    function();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

// `what` stands before a failure.
inline void ExpectPieces(const std::string& message, const std::vector<const char*>& pieces,
                         const std::string& what = "") {
  for (const char* piece : pieces) {
    EXPECT_NE(message.find(piece), std::string::npos)
        << what << ": \"" << piece << "\" in: " << message;
  }
}

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_COMMON_MESSAGES_H_
