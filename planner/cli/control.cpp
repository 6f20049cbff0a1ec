#include "planner/cli/ask.hpp"
#include "planner/cli/commands.hpp"
#include "planner/cli/job_operand.hpp"

namespace espalier::cli {

std::string control(const Arguments& arguments, const wire::Config& config) {
  const std::string& what = arguments.words[0];
  const auto id = job_operand(arguments, 1);
  expect_words(arguments, 2);
  Json question{{"job", id}};
  if (!arguments.type.empty()) question["type"] = arguments.type;
  if (!arguments.nodes.empty()) question["nodes"] = arguments.nodes;
  const Json reply = ask(config, what, question);
  if (arguments.json) return reply.dump(2) + "\n";
  if (what == "reclaim" && reply.value("decision", 0) > 0)
    return "Decision " + std::to_string(reply["decision"].get<long>()) + " takes the extensions of job " +
           std::to_string(id) + " back\n";
  if (what == "migrate" && reply.value("decision", 0) > 0)
    return "Decision " + std::to_string(reply["decision"].get<long>()) + " moves job " + std::to_string(id) + "\n";
  if (what == "migrate")
    return "The base of job " + std::to_string(id) + " waits for " +
           (arguments.type.empty() && arguments.nodes.empty() ? "any GPUs that it may have"
            : arguments.type.empty()                          ? "nodes " + arguments.nodes
                                                              : "GPUs of type " + arguments.type) +
           "\n";
  return "";  // silence is success, as in scontrol
}

std::string forget(const Arguments& arguments, const wire::Config& config) {
  Json question{{"all", arguments.all}};
  if (!arguments.all) question["profile"] = id_operand(arguments, 1, "a profile id, or --all");
  expect_words(arguments, arguments.all ? 1 : 2);
  const Json reply = ask(config, "forget", question);
  if (arguments.json) return reply.dump(2) + "\n";
  if (!arguments.all) return "";
  const std::size_t count = reply.at("forgotten").size();
  return std::to_string(count) + (count == 1 ? " profile is" : " profiles are") + " forgotten\n";
}

}  // namespace espalier::cli
