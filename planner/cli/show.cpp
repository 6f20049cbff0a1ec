#include "planner/cli/ask.hpp"
#include "planner/cli/commands.hpp"
#include "planner/cli/job_operand.hpp"
#include "planner/cli/records.hpp"

namespace espalier::cli {
namespace {

template <class Convert>
std::string all(const Json& list, Convert convert, bool one_line, const char* none) {
  std::string text;
  for (const Json& entry : list) text += format(convert(entry), one_line);
  return text.empty() ? std::string(none) + "\n" : text;
}

std::string show_decision(const Json& decision, bool one_line) {
  std::string text = format(decision_record(decision), one_line);
  for (const Record& candidate : candidate_records(decision)) text += format(candidate, one_line);
  return text;
}

}  // namespace

std::string show(const Arguments& arguments, const wire::Config& config) {
  if (arguments.words.size() < 2)
    throw UsageError("show: needs job, jobs, scale, decision, decisions, nodes, profile, profiles or config");
  const std::string& what = arguments.words[1];
  const bool line = arguments.one_line;
  const bool single = what == "job" || what == "scale" || what == "decision" || what == "profile";
  if (!single && what != "jobs" && what != "decisions" && what != "nodes" && what != "profiles" && what != "config")
    throw UsageError("show " + what +
                     ": no such thing; use job, jobs, scale, decision, decisions, nodes, profile, profiles or config");
  expect_words(arguments, single ? 3 : 2);
  Json question = Json::object();
  if (what == "job" || what == "scale") question[what] = job_operand(arguments, 2);
  else if (single) question[what] = id_operand(arguments, 2, what == "profile" ? "a profile id" : "a decision id");
  if (what == "decisions" && !arguments.job.empty()) question["job"] = job_number(arguments.job);
  if (what == "decisions" && arguments.limit) question["limit"] = *arguments.limit;
  const Json reply = ask(config, what, question);
  if (arguments.json) return reply.dump(2) + "\n";
  if (what == "job") return format(job_record(reply.at("job")), line);
  if (what == "scale") {
    std::string text = format(scale_record(reply.at("scale")), line);
    for (const Json& row : reply.at("scale").at("rows")) text += format(scale_row_record(row), line);
    return text;
  }
  if (what == "jobs") return all(reply.at("jobs"), job_record, line, "No elastic job runs");
  if (what == "decision") return show_decision(reply.at("decision"), line);
  if (what == "decisions") return all(reply.at("decisions"), decision_record, line, "No decision yet");
  if (what == "profile") return format(profile_record(reply.at("profile")), line);
  if (what == "profiles") return all(reply.at("profiles"), profile_record, line, "Nothing was learnt yet");
  if (what == "config") return format(config_record(reply), line);
  return all(reply.at("nodes"), node_record, line, "No node") +
         (reply.at("waiting").empty() ? "" : all(reply.at("waiting"), waiting_record, line, ""));
}

}  // namespace espalier::cli
