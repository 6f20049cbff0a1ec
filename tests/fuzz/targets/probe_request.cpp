// What `espalier-train --calibrate` is asked to measure.
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/probe/request.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void probe_request(std::string_view input) {
  try {
    const ProbeRequest read = espalier::probe_request(std::string(input));
    require(read.seconds > 0);
    const ProbeRequest again = espalier::probe_request(to_text(read));
    require(again.pairs == read.pairs && again.seconds == read.seconds);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
