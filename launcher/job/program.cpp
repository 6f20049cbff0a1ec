#include "launcher/job/program.hpp"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "planner/core/data_parallel.hpp"

namespace espalier::launcher {

Program::Program(wire::Loop& loop, const wire::Config& config, Callbacks callbacks, AwakeLooks looks)
    : config_(config), callbacks_(std::move(callbacks)), limit_(loop, looks) {}

void Program::await_hello() {
  limit_.start(std::chrono::seconds(config_.protocol_seconds), [this] {
    if (speaks_) return;
    elastic_ = false;
    spdlog::warn(
        "espalier: launch: the program did not say hello within {} s (does it speak Espalier's worker protocol?); "
        "it runs on its first allocation, without elasticity",
        config_.protocol_seconds);
  });
}

void Program::hello(const wire::Hello& hello, bool of_current) {
  if (speaks_) {
    // Rank 0 alone tells the lists of its schedule, which may be long.
    if (hello.rank == 0 && of_current) told_.parallel.lists = hello.parallel.lists;
    if (!(hello.model == told_.model) && of_current)
      spdlog::warn("espalier: launch: rank {} was configured with another model than rank 0", hello.rank);
    return;
  }
  speaks_ = true;
  limit_.stop();
  if (callbacks_.planned() && !(hello.model == told_.model))
    return callbacks_.contradicts("the program trains another model than it told with --describe");
  std::string lists = hello.rank == 0 ? hello.parallel.lists : std::move(told_.parallel.lists);
  told_ = {hello.model, hello.total_steps, hello.handoff, hello.spare, hello.parallel};
  told_.parallel.lists = std::move(lists);
  if (data_only() && callbacks_.bitwise_demanded())
    return callbacks_.contradicts(
        "--elastic asks for accuracy=bitwise, and the program cannot promise it: its gradients are summed in an order "
        "that depends on the number of GPUs; leave accuracy out or write accuracy=relaxed");
  callbacks_.introduced();
}

bool Program::data_only() const { return told_.model.family == kDataFamily; }

bool Program::wants_spares(int started) {
  return told_.spare && config_.spares && std::exchange(spares_after_, started) != started;
}

}  // namespace espalier::launcher
