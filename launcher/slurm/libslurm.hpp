// What every file that calls libslurm needs: its start, ownership of its answers, and its errors in words.
#pragma once

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <string>

#include "launcher/slurm/unanswered.hpp"

namespace espalier::launcher {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
// An answer of libslurm, freed by its own function.
template <class T, auto Free>
using Owned = std::unique_ptr<T, Deleter<Free>>;

inline void initialize() {
  static std::once_flag once;
  std::call_once(once, [] { slurm_init(nullptr); });
}

inline std::string text(const char* chars) { return chars == nullptr ? "" : chars; }

// Throws Unanswered with Slurm's own words for errno. Libslurm's errors do not tell a refusal from an answer that was
// lost.
[[noreturn]] inline void fail(const std::string& what) {
  throw Unanswered(what + ": " + slurm_strerror(errno) + " (" + std::to_string(errno) + ")");
}

// Whether slurmctld has denied a question of this user's. It does so each time.
inline bool is_denied() { return errno == ESLURM_ACCESS_DENIED; }

// The same as fail() of a question about all `things`, "nodes" or "partitions". Throws another Error where the site
// hides them.
[[noreturn]] inline void fail_to_read(const std::string& what, const std::string& things) {
  if (!is_denied()) fail(what);
  throw Error(what + ": PrivateData in slurm.conf hides " + things + " from users; ask the administrator to leave \"" +
              things + "\" out of it");
}

}  // namespace espalier::launcher
