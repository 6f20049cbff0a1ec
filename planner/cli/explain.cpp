#include "planner/cli/ask.hpp"
#include "planner/cli/commands.hpp"
#include "planner/cli/job_operand.hpp"
#include "planner/cli/records.hpp"

namespace espalier::cli {

std::string explain(const Arguments& arguments, const wire::Config& config) {
  const auto id = job_operand(arguments, 1);
  expect_words(arguments, 2);
  const Json reply = ask(config, "explain", {{"job", id}});
  if (arguments.json) return reply.dump(2) + "\n";
  std::string text = format(job_record(reply.at("job")), arguments.one_line);
  if (reply.at("obstacles").empty()) text += "Nothing but the planner's choice keeps it from growing.\n";
  else text += "It does not grow now because:\n";
  for (const Json& reason : reply.at("obstacles")) text += "   " + reason.get<std::string>() + "\n";
  if (const std::string objective = reply.value("objective", ""); !objective.empty())
    text += "Objective " + objective + "\n";
  text += reply.at("decisions").empty() ? "No decision has been taken about it.\n" : "\nDecisions, newest first:\n";
  for (const Json& decision : reply.at("decisions")) {
    text += format(decision_record(decision), arguments.one_line);
    for (const Record& candidate : candidate_records(decision)) text += "   " + format(candidate, true);
    if (!decision.value("candidates", Json::array()).empty()) text += "\n";
  }
  return text;
}

}  // namespace espalier::cli
