#include "torchrt/marks_here.hpp"

#include "planner/core/error.hpp"
#include "torchrt/handoff/source_marks.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/recovery/marks.hpp"

namespace espalier::torchrt {

std::optional<wire::VaultMarks> marks_here(const Plan& before, const std::string& node,
                                           const std::function<std::string(int rank)>& address_of) {
  int rank = 0;
  for (const GpuId& gpu : before.ranks()) {
    if (gpu.node == node) {
      try {
        return read_marks(fetch_state(address_of(rank), {kMarks}).fd);
      } catch (const Error&) {
        // It may be about to end. The hand-off itself will find that out.
      }
    }
    ++rank;
  }
  return std::nullopt;
}

}  // namespace espalier::torchrt
