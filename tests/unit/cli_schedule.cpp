// `espalier schedule`: its command line, and the figures that it prints.
#include <doctest/doctest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/cli/commands.hpp"
#include "planner/core/json.hpp"

using namespace espalier;
using namespace espalier::cli;

namespace {

using Words = std::vector<std::string>;

template <class Wrong>
std::string complaint(const Words& words) {
  try {
    schedule(words);
  } catch (const UsageError& error) {
    return std::is_same_v<Wrong, UsageError> ? error.what() : "wrong usage: " + std::string(error.what());
  } catch (const Error& error) {
    return std::is_same_v<Wrong, UsageError> ? "error: " + std::string(error.what()) : error.what();
  }
  return "accepted";
}

nlohmann::json json_of(Words words) {
  words.emplace_back("--json");
  return nlohmann::json::parse(schedule(words));
}

Words on(const char* ranks, const char* micro_batches, Words more) {
  Words words{"--ranks", ranks, "--micro-batches", micro_batches};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A file in a folder of its own, removed at the end.
class File {
 public:
  explicit File(const std::string& text)
      : folder_(std::filesystem::temp_directory_path() /
                ("espalier-schedule-" + std::to_string(getpid()) + "-" + std::to_string(++made_))) {
    std::filesystem::create_directory(folder_);
    std::ofstream(path()) << text;
  }
  ~File() { std::filesystem::remove_all(folder_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path() const { return (folder_ / "schedule.csv").string(); }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path()).rdbuf();
    return all.str();
  }

 private:
  static inline int made_ = 0;
  std::filesystem::path folder_;
};

}  // namespace

TEST_CASE(
    "ZB-V on 8 ranks and 16 micro-batches has at most 7% bubble in 1F1B's memory, V-Half at most 28% in half of it") {
  const auto v = json_of(on("8", "16", {"--kind", "zb-v"})), half = json_of(on("8", "16", {"--kind", "v-half"}));
  const auto base = json_of(on("8", "16", {"--kind", "1f1b"}));
  CHECK(base["peak_activation_micro_batches"] == 8);
  CHECK(base["bubble"].get<double>() == doctest::Approx(0.3043).epsilon(1e-3));
  CHECK(v["bubble"].get<double>() <= 0.07);
  CHECK(v["span_bubble"].get<double>() == doctest::Approx(0));
  CHECK(v["peak_activation_micro_batches"].get<double>() <= 8);
  CHECK(v["by_rank"].size() == 8);
  CHECK(half["bubble"].get<double>() <= 0.28);
  CHECK(half["peak_activation_micro_batches"].get<double>() <= 4);
}

TEST_CASE("all known schedules are compared by default, and those that do not fit are marked") {
  const auto all = json_of(on("4", "8", {"--memory", "2"}));
  CHECK(all["schedules"].size() == 9);
  CHECK(all["schedules"][0]["fits"] == false);
  CHECK(all["schedules"][6]["kind"] == "v-half");
  CHECK(all["schedules"][6]["fits"] == true);
  CHECK(schedule(on("4", "8", {"--memory", "2"})).find("does not fit") != std::string::npos);
}

TEST_CASE("a searched schedule fits, and is not slower than the best known one") {
  const auto found = json_of(
      on("4", "8", {"--search", "--memory", "2,3,2,2", "--forward", "1,1,1,1.5", "--hop", "0.1", "--effort", "0.02"}));
  CHECK(found["kind"] == "searched");
  CHECK(found["fits"] == true);
  if (found.contains("best_generator"))
    CHECK(found["time"].get<double>() <= found["best_generator_time"].get<double>());
}

TEST_CASE("a schedule goes into a file and comes back, and the search starts from it") {
  File file("");
  schedule(on("3", "6", {"--kind", "v-min", "--csv", file.path()}));
  CHECK(json_of({"--file", file.path()})["time"] == json_of(on("3", "6", {"--kind", "v-min"}))["time"]);
  const auto both = json_of({"--file", file.path(), "--search", "--effort", "0.02"});
  CHECK(both["schedules"][1]["time"].get<double>() <= both["schedules"][0]["time"].get<double>());
}

TEST_CASE("the drawings have a line or a row of boxes for each rank") {
  CHECK(schedule(on("2", "2", {"--kind", "1f1b", "--draw"})).find("   0 |ff..bb.bb|") != std::string::npos);
  CHECK(schedule(on("2", "2", {"--kind", "1f1b", "--draw"})).find("   1 |.fbbfbb..|") != std::string::npos);
  File file("");
  schedule(on("2", "3", {"--kind", "zb-h1", "--svg", file.path()}));
  const std::string svg = file.text();
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.find("rank 1</text>") != std::string::npos);
  std::size_t boxes = 0;
  for (std::size_t at = svg.find("<rect x"); at != std::string::npos; at = svg.find("<rect x", at + 1)) ++boxes;
  CHECK(boxes == 2 * 3 * 3);
}

TEST_CASE("times may be given for each rank or for each chunk") {
  const auto even = json_of(on("2", "4", {"--kind", "zb-v", "--forward", "2"}));
  CHECK(json_of(on("2", "4", {"--kind", "zb-v", "--forward", "2,2"}))["time"] == even["time"]);
  CHECK(json_of(on("2", "4", {"--kind", "zb-v", "--forward", "1,1,1,1"}))["time"] == even["time"]);
}

// As `espalier show job JOBID --json` tells it: two stages, the second slower, and room for two micro-batches.
const char* const kShown =
    R"({"job": {"pipeline": {"schedule": "1f1b", "micro_batches": 8, "weight_assumed": true, "stages": [
      {"forward_ms": 2, "backward_input_ms": 2, "backward_weight_ms": 2, "send_ms": 0.5, "after_ms": 7,
       "activation_bytes": 1073741824, "room_bytes": 2147483648},
      {"forward_ms": 3, "backward_input_ms": 3, "backward_weight_ms": 3, "send_ms": 0, "after_ms": 1,
       "activation_bytes": 1073741824, "room_bytes": 2147483648}]}}})";

TEST_CASE("a measured job's costs are compared as those that are typed, within its GPUs' memory") {
  const File file(kShown);
  const auto shown = json_of({"--profile", file.path(), "--kind", "1f1b,gpipe"});
  const auto typed = json_of(on("2", "8",
                                {"--kind", "1f1b,gpipe", "--forward", "2,3", "--backward-input", "2,3",
                                 "--backward-weight", "2,3", "--hop", "0.5", "--memory", "2"}));
  CHECK(shown == typed);
  const std::string text = schedule({"--profile", file.path(), "--kind", "1f1b,gpipe"});
  CHECK(text.find("2 stages, 8 micro-batches, 1f1b. Times in ms, memory in GiB, as measured. A step takes up to 7 ms "
                  "more") != std::string::npos);
  CHECK(text.find("is assumed, by the model's shape") != std::string::npos);
  // What is searched fits into the GPUs; a limit of the user's own counts instead.
  const auto found = json_of({"--profile", file.path(), "--search"});
  CHECK(found["time"].get<double>() <= shown["schedules"][0]["time"].get<double>());
  CHECK(
      complaint<Error>({"--profile", file.path(), "--kind", "gpipe", "--memory", "2"}).find("none of the schedules") !=
      std::string::npos);
  CHECK(complaint<Error>({"--profile", file.path(), "--kind", "gpipe"}) == "accepted");
}

TEST_CASE("a measured job's edges are on the ranks that have the first and the last chunk") {
  Json measured = Json::parse(kShown);
  Json& pipeline = measured["job"]["pipeline"];
  pipeline["first"] = {{"forward_ms", 0.5}, {"backward_input_ms", 0}, {"backward_weight_ms", 0.25}, {"bytes", 0}};
  pipeline["last"] = {{"forward_ms", 1}, {"backward_input_ms", 1}, {"backward_weight_ms", 1}, {"bytes", 1610612736}};
  const File file(measured.dump());
  // In a V rank 0 has both; on one chunk each rank has one.
  CHECK(json_of({"--profile", file.path(), "--kind", "zb-v", "--memory", "4"}) ==
        json_of(on("2", "8",
                   {"--kind", "zb-v", "--forward", "1.5,1.5,1.5,2", "--backward-input", "1,1.5,1.5,2",
                    "--backward-weight", "1.25,1.5,1.5,2", "--hop", "0.5", "--memory", "4"})));
  CHECK(json_of({"--profile", file.path(), "--kind", "1f1b", "--memory", "4"}) ==
        json_of(on("2", "8",
                   {"--kind", "1f1b", "--forward", "2.5,4", "--backward-input", "2,4", "--backward-weight", "2.25,4",
                    "--hop", "0.5", "--memory", "4"})));
  // The head's parameters leave half a GiB of two: too little for the rank that has the head.
  for (const char* kind : {"1f1b", "zb-v"}) {
    CHECK(json_of({"--profile", File(kShown).path(), "--kind", kind})["fits"] == true);
    CHECK(json_of({"--profile", file.path(), "--kind", kind})["fits"] == false);
  }
}

TEST_CASE("a job's costs are not given twice, and a file without them is refused in words") {
  const File file(kShown), other("{\"job\": {\"pipeline\": null}}");
  for (const char* option : {"--ranks", "--micro-batches", "--file", "--forward", "--backward-input",
                             "--backward-weight", "--backward", "--activation", "--hop"})
    CHECK(complaint<UsageError>({"--job", "7", option, "2"}) ==
          "--job: tells " + std::string(option) + " itself; leave " + option + " out");
  CHECK(complaint<UsageError>({"--job", "7", "--profile", file.path()}).find("excludes") != std::string::npos);
  CHECK(complaint<UsageError>({"--job", "0"}).find("--job") != std::string::npos);
  CHECK(complaint<Error>({"--profile", other.path()}) ==
        "--profile: " + other.path() +
            ": no pipeline was measured; a job is measured in its first steps, and its plan must have stages");
  CHECK(complaint<Error>({"--profile", "/nowhere"}) ==
        "--profile: /nowhere: cannot be read: No such file or directory");
  for (const char* option : {"--effort", "--freed-by-input"})
    CHECK(complaint<UsageError>({"--ranks", "2", "--micro-batches", "4", option, "nan"}) ==
          std::string(option) + ": must be a number");
  CHECK(complaint<Error>({"--profile", "/"}) == "--profile: /: cannot be read: Is a directory");
}

TEST_CASE("schedule needs ranks") { CHECK(complaint<UsageError>({}) == "schedule: needs --ranks=N, or --file=CSV"); }
TEST_CASE("schedule needs micro-batches") {
  CHECK(complaint<UsageError>({"--ranks", "2"}) == "schedule: needs --micro-batches=N");
}
TEST_CASE("schedule refuses no ranks at all") {
  CHECK(complaint<UsageError>(on("0", "4", {})).starts_with("schedule: --ranks: "));
}
TEST_CASE("schedule refuses a kind that does not exist") {
  CHECK(complaint<UsageError>(on("2", "4", {"--kind", "zb"}))
            .starts_with("--kind: schedule \"zb\": there is none of this name"));
}
TEST_CASE("schedule refuses a kind that is named twice") {
  CHECK(complaint<UsageError>(on("2", "4", {"--kind", "1f1b,1f1b"})) == "--kind: 1f1b is named twice; name it once");
}
TEST_CASE("schedule refuses chunks that no kind can have") {
  CHECK(complaint<UsageError>(on("2", "4", {"--kind", "zb-v", "--chunks", "3"})) ==
        "--chunks: zb-v has 2 on each rank; leave --chunks out");
}
TEST_CASE("schedule refuses a wrong number of times") {
  CHECK(complaint<UsageError>(on("2", "4", {"--kind", "zb-v", "--forward", "1,2,3"})) ==
        "--forward: has 3 values; give one, one a rank (2) or one a chunk (4)");
}
TEST_CASE("schedule refuses times that are not positive") {
  CHECK(
      complaint<UsageError>(on("2", "4", {"--backward", "0"})).starts_with("--backward: every value must be between"));
  CHECK(complaint<UsageError>(on("2", "4", {"--hop", "-1"})).starts_with("--hop: every value must be between"));
  CHECK(
      complaint<UsageError>(on("2", "4", {"--forward", "nan"})).starts_with("--forward: every value must be between"));
}
TEST_CASE("schedule refuses a wrong number of memory limits") {
  CHECK(complaint<UsageError>(on("2", "4", {"--memory", "1,2,3"})) ==
        "--memory: has 3 values; give one, or one a rank (2)");
}
TEST_CASE("schedule refuses a memory limit that nothing fits in") {
  CHECK(complaint<Error>(on("2", "4", {"--memory", "0.5"}))
            .starts_with("--memory: none of the schedules fits; memory-min needs least, 1"));
  CHECK(complaint<Error>(on("2", "4", {"--search", "--memory", "1,0.5"})) ==
        "--memory: no schedule fits: rank 1 needs 1 for one micro-batch alone, and has 0.5");
}
TEST_CASE("schedule refuses a file beside ranks or kinds, and several schedules for one CSV") {
  CHECK(complaint<UsageError>({"--file", "x", "--ranks", "2"}).starts_with("--file: tells ranks"));
  CHECK(complaint<UsageError>({"--file", "x", "--kind", "1f1b"}) == "--file: not beside --kind; leave one of them out");
  CHECK(complaint<UsageError>(on("2", "4", {"--csv", "x"})).starts_with("--csv: writes one schedule"));
}
TEST_CASE("schedule refuses a file that is not there or wrong, and names it") {
  CHECK(complaint<Error>({"--file", "/nowhere/x.csv"}).starts_with("/nowhere/x.csv: cannot be read: No such file"));
  File file("0F0,0B0,0B0\n");
  CHECK(complaint<Error>({"--file", file.path()}) == file.path() + ": row 1, column 3 (0B0): it is there twice");
}
TEST_CASE("schedule refuses sizes that would take all memory") {
  CHECK(complaint<UsageError>(on("1024", "4096", {}))
            .starts_with("schedule: ranks x micro-batches x chunks is too large"));
}
