#include "planner/cli/ask.hpp"
#include "planner/cli/commands.hpp"

namespace espalier::cli {

std::string control(const Arguments& arguments, const wire::Config& config) {
  const std::string& what = arguments.words[0];
  const auto id = id_operand(arguments, 1, "a job id");
  expect_words(arguments, 2);
  const Json reply = ask(config, what, {{"job", id}});
  if (arguments.json) return reply.dump(2) + "\n";
  if (what == "reclaim" && reply.value("decision", 0) > 0)
    return "Decision " + std::to_string(reply["decision"].get<long>()) + " takes the extensions of job " +
           std::to_string(id) + " back\n";
  return "";  // silence is success, as in scontrol
}

}  // namespace espalier::cli
