// What a worker says first: the message `hello` with the capabilities of its program.
#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/wire/capabilities.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void worker_hello(std::string_view input) {
  wire::Frame frame{wire::Hello::type, try_json(input)};
  if (!frame.body.is_object()) return;  // decode() takes no other body
  try {
    const wire::WorkerHello read = wire::read_hello(frame);
    require(!read.can.units.empty() && read.can.units.front() >= 1);
    require(!read.can.data_only || read.can.global_batch >= 1);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
