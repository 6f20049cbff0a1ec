#include "planner/cli/ask.hpp"
#include "planner/cli/commands.hpp"
#include "planner/cli/records.hpp"

namespace espalier::cli {

std::string ping(const Arguments& arguments, const wire::Config& config) {
  expect_words(arguments, 1);
  const Json reply = ask(config, "ping");
  return arguments.json ? reply.dump(2) + "\n" : format(ping_record(reply), true);
}

}  // namespace espalier::cli
