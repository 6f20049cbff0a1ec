#include <doctest/doctest.h>

#include "planner/cli/commands.hpp"

using namespace espalier;
using namespace espalier::cli;

TEST_CASE("options may stand anywhere") {
  const auto a = parse_arguments({"show", "-o", "decisions", "--job", "12", "--limit=5", "--json", "-c", "/x"});
  CHECK(a.words == std::vector<std::string>{"show", "decisions"});
  CHECK(a.one_line);
  CHECK(a.json);
  CHECK(a.job == "12");
  CHECK(a.limit == 5);
  CHECK(a.config == "/x");
  CHECK(parse_arguments({"--job=4711_3"}).job == "4711_3");
}

TEST_CASE("what cannot be understood is a usage error that names it") {
  const auto complaint = [](const std::vector<std::string>& arguments) {
    try {
      parse_arguments(arguments);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(complaint({"--jbo"}).find("--jbo") != std::string::npos);
  CHECK(complaint({"--job"}).find("needs a value") != std::string::npos);
  CHECK(complaint({"--job", "x"}).find("\"x\"") != std::string::npos);
  CHECK(complaint({"--json=1"}).find("takes no value") != std::string::npos);
  CHECK(complaint({"--job", "99999999999"}).find("not a job id") != std::string::npos);
  CHECK(complaint({"--limit", "99999999999"}).find("not a number") != std::string::npos);
  CHECK(complaint({"show"}).empty());
}

TEST_CASE("a command with wrong operands fails before the planner is asked") {
  wire::Config nowhere;
  nowhere.run_dir = "/nonexistent";
  nowhere.planner_host = "";
  const auto run = [&](auto command, const std::vector<std::string>& words) {
    Arguments arguments;
    arguments.words = words;
    return command(arguments, nowhere);
  };
  CHECK_THROWS_AS(run(show, {"show"}), UsageError);
  CHECK_THROWS_AS(run(show, {"show", "cheese"}), UsageError);
  CHECK_THROWS_AS(run(show, {"show", "job"}), UsageError);
  CHECK_THROWS_AS(run(show, {"show", "job", "A"}), UsageError);
  CHECK_THROWS_AS(run(show, {"show", "job", "0"}), UsageError);
  CHECK_THROWS_AS(run(show, {"show", "jobs", "1"}), UsageError);
  CHECK_THROWS_AS(run(explain, {"explain"}), UsageError);
  CHECK_THROWS_AS(run(control, {"hold", "1", "2"}), UsageError);
  CHECK_THROWS_AS(run(ping, {"ping", "pong"}), UsageError);
}
