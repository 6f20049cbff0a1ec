// espalier-bench pause: its arguments, its model's size and its figures from a measurement.
#include <doctest/doctest.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/pause_figures.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::bench;
using nlohmann::json;

namespace {

json decision(const char* kind, const char* outcome, double pause, double send, int step = 1) {
  return {
      {"kind", kind}, {"outcome", outcome}, {"pause_ms", pause}, {"phases_ms", {{"load_send", send}}}, {"step", step}};
}

}  // namespace

TEST_CASE("the model is the least wide one with so much state") {
  const std::int64_t gibibyte = std::int64_t{1} << 30;
  const torchrt::ModelConfig model = pause_model(gibibyte);
  CHECK(model.hidden == 832);
  CHECK(pause_state_bytes(model) >= gibibyte);
  CHECK(pause_state_bytes(pause_model(1)) < gibibyte / 100);
  CHECK(pause_model(pause_state_bytes(model)).hidden == 832);
  CHECK(pause_model(pause_state_bytes(model) + 1).hidden == 896);
}

TEST_CASE("figures are medians over the grows that were committed; a link's share is that of the busiest node") {
  const plan_files::Folder folder;
  folder.write("decisions.json",
               json{decision("grow", "committed", 300, 200, 9), decision("grow", "aborted: late", 0, 0),
                    decision("grow", "committed", 100, 100, 3), decision("shrink", "committed", 50, 10, 6),
                    decision("grow", "committed", 200, 400, 12)}
                   .dump());
  const std::string log = folder.write("A.out",
                                       "espalier: launch: grow committed at step 3: generation 1, pp3\n"
                                       "espalier: launch: generation 1 has adopted 7000 bytes, copied 5, and got 900 "
                                       "from other nodes, at most 600 on one; 0 had come before the pause\n"
                                       "espalier: launch: shrink committed at step 6: generation 2, pp2\n"
                                       "espalier: launch: generation 2 has adopted 1 bytes, copied 1, and got 1 "
                                       "from other nodes, at most 99999 on one; 0 had come before the pause\n"
                                       "espalier: launch: grow committed at step 9: generation 3, pp3\n"
                                       "espalier: launch: generation 3 has adopted 7000 bytes, copied 5, and got 300 "
                                       "from other nodes, at most 200 on one; 900 had come before the pause\n"
                                       "espalier: launch: grow committed at step 12: generation 5, pp3\n"
                                       "espalier: launch: generation 5 has adopted 7000 bytes, copied 5, and got 300 "
                                       "from other nodes, at most 200 on one; 900 had come before the pause\n");
  folder.write("link.json", R"({"bytes_per_second": 4000})");
  const std::filesystem::path path = std::filesystem::path(log).parent_path();
  const json figures = pause_figures(path);
  CHECK(figures.at("grows") == 3);
  CHECK(figures.at("pause_ms") == 200.0);
  CHECK(figures.at("phases_ms").at("load_send") == 200.0);
  CHECK(figures.at("shrink").at("pause_ms") == 50.0);
  CHECK(figures.at("bytes_sent") == 900.0);
  CHECK(figures.at("bytes_sent_early") == 0.0);
  CHECK(figures.at("grows_sent_early") == 2);
  // 600 bytes in 100 ms, 200 in 200 and in 400 ms.
  CHECK(figures.at("share_of_link") == doctest::Approx(1000.0 / 4000));
  folder.write("decisions.json", json{decision("shrink", "committed", 50, 10)}.dump());
  CHECK_THROWS_WITH_AS(pause_figures(path), doctest::Contains("the job never grew"), Error);
  folder.write("decisions.json", "[");
  CHECK_THROWS_WITH_AS(pause_figures(path), doctest::Contains("cannot be read"), Error);
}

TEST_CASE("steps beside a start are compared with those at rest before it, of the same generation") {
  const plan_files::Folder folder;
  json grow = decision("grow", "committed", 300, 200);
  grow["step"] = 11;
  grow["phases_ms"] = {{"acquire", 500}, {"start", 4000}, {"boundary", 1000}};
  const std::string log = folder.write("decisions.json", json{grow}.dump());
  folder.write("link.json", R"({"bytes_per_second": 4000})");
  std::string metrics;
  const auto step = [&](int number, int generation, double seconds) {
    metrics += json{{"step", number}, {"loss", 1}, {"generation", generation}, {"seconds", seconds}}.dump() + "\n";
  };
  step(1, 0, 9);  // another generation
  step(2, 1, 7);  // warms up
  for (const int at_rest : {3, 4, 5}) step(at_rest, 1, 1);
  step(6, 1, 1.5);  // partly during the start
  step(7, 1, 1.5);
  for (const int beside : {8, 9}) step(beside, 1, 1.5);
  step(10, 1, 1);
  step(11, 1, 1);  // while the start ended
  folder.write("A.jsonl", metrics);
  const std::filesystem::path path = std::filesystem::path(log).parent_path();
  // 1 + 1.5 + 1.5 s are the 4 s of the start.
  CHECK(pause_figures(path).at("slowdown_while_starting") == doctest::Approx((1 + 1.5 + 1.5) / 3 - 1));
  folder.write("A.jsonl", "");
  CHECK_FALSE(pause_figures(path).contains("slowdown_while_starting"));
}

TEST_CASE("a pause is measured for known methods and sensible sizes only") {
  const auto parse = [](std::vector<std::string> arguments) {
    CLI::App app;
    add_pause(app);
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  };
  CHECK_THROWS_AS(parse({"pause", "--state-bytes", "1073741824"}), CLI::ParseError);
  CHECK_THROWS_AS(parse({"pause", "--method", "adopt"}), CLI::ParseError);
  CHECK_THROWS_AS(parse({"pause", "--method", "copy", "--state-bytes", "1073741824"}), CLI::ParseError);
  CHECK_THROWS_AS(parse({"pause", "--method", "adopt", "--state-bytes", "1000"}), CLI::ParseError);
  CHECK_THROWS_AS(parse({"pause", "--method", "adopt", "--state-bytes", "many"}), CLI::ParseError);
  CHECK_THROWS_AS(parse({"pause", "--method", "adopt", "--state-bytes", "1073741824", "--rounds", "0"}),
                  CLI::ParseError);
  CHECK_THROWS_WITH_AS(parse({"pause", "--method", "adopt", "--state-bytes", "1073741824", "--root", "/nowhere"}),
                       doctest::Contains("box.sh: is not there"), Error);
}
