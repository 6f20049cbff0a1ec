// Traces of jobs in every format. The first byte chooses one, or that the format is found out.
#include <cmath>
#include <string>

#include "planner/core/error.hpp"
#include "planner/sim/trace.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void trace(std::string_view input) {
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input.front()) % 8;
  const std::string text(input.substr(1));
  try {
    const sim::TraceFormat format =
        choice == 7 ? sim::detect_trace_format(text) : static_cast<sim::TraceFormat>(choice);
    const sim::Trace read = sim::parse_trace(text, format);
    for (const sim::TraceJob& job : read.jobs)
      require(std::isfinite(job.submit) && std::isfinite(job.seconds) && std::isfinite(job.steps) && job.seconds >= 0 &&
              job.steps >= 0 && job.gpus > 0 && job.line > 0);
    sim::busiest_window(read, 3600);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
