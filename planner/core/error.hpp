// The one recoverable error of all C++ parts. Broken invariants are not errors: they abort (ESPALIER_INVARIANT).
#pragma once

#include <stdexcept>
#include <string>

namespace espalier {

// A message for a person: "component: thing: what is wrong; remedy". The component is prefixed where it is printed
// ("espalier: launch: ..."), so `what()` starts with the thing.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Prints and aborts; for conditions that only a bug in this code can break.
[[noreturn]] void invariant_broken(const char* condition, const char* file, int line);

}  // namespace espalier

#define ESPALIER_INVARIANT(condition) \
  ((condition) ? static_cast<void>(0) : ::espalier::invariant_broken(#condition, __FILE__, __LINE__))
