#include <unistd.h>

#include <fstream>

#include "planner/cli/arguments.hpp"
#include "planner/cli/doctor/arguments.hpp"
#include "planner/cli/doctor/bounded.hpp"
#include "planner/cli/doctor/report.hpp"
#include "planner/core/error.hpp"
#include "tests/unit/doctor_cases.hpp"

using namespace espalier;
using namespace espalier::cli::doctor;
using namespace espalier::cli::doctor::cases;

namespace {
std::vector<Finding> some() {
  std::vector<Finding> list{ok("fine"), skipped("not here"),
                            warning("slow", {{"/a", "X=1", ""}, {"/a", "Y=2", "[part]"}, command("run it")}),
                            fault("bad\x1b[31m", {{"/b", "Z=3", ""}, {"/a", "X=1", ""}, {"/a", "V=4", ""}})};
  for (Finding& finding : list) finding.check = "c";
  return list;
}

// A zombie that nobody has reaped is gone, too.
bool is_gone(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return true;
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end + 1, 3) == " Z ";
}
}  // namespace

TEST_CASE("doctor: the report has each finding, its remedies and the count, and no control characters") {
  const std::string text = report_text(some());
  CHECK(text.find("warning  c                  slow\n           /a: X=1\n           /a, in [part]: Y=2\n") !=
        std::string::npos);
  CHECK(text.find("run: run it") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("4 checks: 1 ok, 1 skipped, 1 warnings, 1 faults\n") != std::string::npos);
}

TEST_CASE("doctor: the lines to add by file, each once, commands last") {
  CHECK(fix_plan(some()) == "# /a\nX=1\nV=4\n# into [part]\nY=2\n\n# /b\nZ=3\n\n# commands\nrun it\n");
  CHECK(fix_plan(judge(healthy())).empty());
  // Two checks that advise the same line.
  Facts facts = healthy();
  (*facts.planner_config.value)["extensions.grants"] = true;
  facts.slurm.value->settings["JobSubmitPlugins"] = "lua";
  CHECK(fix_plan(judge(facts)).starts_with("# /etc/slurm/slurm.conf\nJobSubmitPlugins=lua,espalier\n"));
  CHECK(fix_plan(judge(facts)).find("JobSubmitPlugins") == fix_plan(judge(facts)).rfind("JobSubmitPlugins"));
}

TEST_CASE("doctor: JSON, and the worst verdict") {
  const Json json = Json::parse(report_json(some(), healthy()));
  CHECK(json["verdict"] == "fault");
  CHECK(json["host"] == "ctl");
  CHECK(json["checks"][2]["remedies"][1] == Json{{"file", "/a"}, {"line", "Y=2"}, {"within", "[part]"}});
  CHECK(worst({skipped("x"), ok("y")}) == Verdict::ok);
  CHECK(worst({warning("x"), skipped("y")}) == Verdict::warning);
}

TEST_CASE("doctor: the command line") {
  std::string help;
  CHECK(!parse_arguments({}, help)->administrator);
  CHECK(parse_arguments({"--admin", "--json"}, help)->administrator == true);
  CHECK(parse_arguments({"--user"}, help)->administrator == false);
  CHECK(!parse_arguments({"--help"}, help));
  CHECK(help.find("--fix-plan") != std::string::npos);
  CHECK_THROWS_AS(parse_arguments({"--admin", "--user"}, help), cli::UsageError);
  CHECK_THROWS_AS(parse_arguments({"--json", "--fix-plan"}, help), cli::UsageError);
  CHECK_THROWS_AS(parse_arguments({"word"}, help), cli::UsageError);
}

TEST_CASE("doctor: work in a child process tells its output, its failure and its end") {
  const Bounded fine = run_bounded({"sh", "-c", "echo out; echo err >&2"}, 30);
  CHECK(fine.succeeded());
  CHECK(fine.output == "out\n");
  CHECK(fine.errors == "err\n");
  const Bounded failed = run_bounded({"sh", "-c", "echo first >&2; echo last >&2; exit 3"}, 30);
  CHECK(failed.problem() == "sh ended with code 3: last");
  CHECK(run_bounded({"/no/such/program"}, 30).problem().find("cannot be executed") != std::string::npos);
  CHECK(run_bounded({"sh", "-c", "kill -TERM $$"}, 30).problem() == "sh ended by signal 15");
  CHECK(call_bounded([] { return std::string(200000, 'x'); }, 30).output.size() == 200000);
  CHECK(call_bounded([]() -> std::string { throw Error("libslurm said no"); }, 30).problem() == "libslurm said no");
}

TEST_CASE("doctor: work that does not end is ended, with all that it started") {
  const Bounded slow = run_bounded({"sh", "-c", "sleep 600 & echo $!; wait"}, 0.5);
  CHECK(!slow.in_time);
  CHECK(slow.problem() == "sh no answer within 0.5 s");
  const pid_t grandchild = std::stoi(slow.output);
  bool gone = false;
  for (int i = 0; i < 500 && !(gone = is_gone(grandchild)); ++i) ::usleep(20'000);
  CHECK(gone);
  // What a child leaves behind neither delays the answer nor stays.
  const Bounded left = run_bounded({"sh", "-c", "sleep 600 & echo $!"}, 300);
  CHECK(left.succeeded());
  CHECK(left.seconds < 100);
}
