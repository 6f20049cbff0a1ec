// The only exception type for recoverable errors in the C++ parts. A broken invariant is not an
// error: it aborts (ESPALIER_INVARIANT).
#pragma once

#include <stdexcept>
#include <string>

namespace espalier {

// A message for people: "component: thing: what is wrong; remedy". what() starts with the thing.
// The program adds the component when it prints the message ("espalier: launch: ...").
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Prints the condition and aborts. For conditions that only a bug in this code can break.
[[noreturn]] void invariant_broken(const char* condition, const char* file, int line);

}  // namespace espalier

#define ESPALIER_INVARIANT(condition) \
  ((condition) ? static_cast<void>(0) : ::espalier::invariant_broken(#condition, __FILE__, __LINE__))
