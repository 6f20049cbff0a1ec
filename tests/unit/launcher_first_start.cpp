#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/job/first_start.hpp"
#include "planner/core/topology/from_view.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

// A launcher's side: what FirstStart asked for, in order.
struct Job {
  wire::Loop loop;
  ElasticJob job;
  PlanningBasis known;
  std::string log;
  std::optional<Decision> started;
  RankOrder order = RankOrder::planned;
  std::unique_ptr<FirstStart> start;

  explicit Job(std::vector<std::string> program, FirstStart::Limits limits = {}) {
    job.id = 7;
    job.max_gpus = 8;
    job.anchor = {{7, "n1", {0, 1}}};
    ClusterView view;
    view.nodes.resize(1);
    view.nodes[0].name = "n1";
    view.nodes[0].gpu_type = "h100";
    view.nodes[0].gpu_owner.assign(4, 0);
    known.site = site_from_view(view, {}).site;
    FirstStart::Callbacks on;
    on.job = [this] { return job; };
    on.known = [this]() -> const PlanningBasis& { return known; };
    on.described = [this](const wire::Description& told) {
      log += "described ";
      job.model = told.model;
    };
    on.tell_planner = [this] { log += "asked "; };
    on.run_ranks = [this] { log += "ranks "; };
    on.acquire = [this](const std::vector<ExtensionRequest>&) { log += "acquire "; };
    on.cancel_acquired = [this] { log += "cancel "; };
    on.given_up = [this](const Decision&, const std::string&) { log += "given_up "; };
    on.start = [this](const Decision& decision, RankOrder how) {
      log += "start ";
      started = decision;
      order = how;
      loop.stop();
    };
    on.refuse = [this](const std::string& why) {
      log += "refused: " + why;
      loop.stop();
    };
    start = std::make_unique<FirstStart>(loop, std::move(program), std::vector<std::string>{"PATH=/usr/bin:/bin"},
                                         limits, std::move(on));
  }
  void hello() {
    job.model = {"gpt2", 8, 256, 8, 128, 1000, 16, 4};
    start->told_by_hello();
  }
  void run() {
    const auto limit = loop.after(std::chrono::seconds(60), [this] { loop.stop(); });
    loop.run();
  }
  Decision proposal(const Plan& plan) const {
    Decision decision;
    decision.id = 5;
    decision.kind = DecisionKind::start;
    decision.plan = plan;
    return decision;
  }
};

// Removed at the end of the program.
struct Scripts {
  std::filesystem::path folder;
  Scripts() {
    std::string name = (std::filesystem::temp_directory_path() / "espalier-test-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  Scripts(const Scripts&) = delete;
  Scripts& operator=(const Scripts&) = delete;
  ~Scripts() { std::filesystem::remove_all(folder); }
};

std::string script(const std::string& name, const std::string& body) {
  static const Scripts scripts;
  const std::string path = (scripts.folder / name).string();
  std::ofstream(path) << "#!/bin/sh\n# espalier: describes itself\n" << body << "\n";
  return path;
}

const char* const kModel =
    R"({"model":{"family":"gpt2","layers":8,"hidden":256,"heads":8,"sequence":128,"vocabulary":1000,)"
    R"("global_batch":16,"micro_batches":4},"total_steps":10,"handoff":"adopt","spare":true,"parallel":)"
    R"({"pp":0,"dp":0,"tp":0,"micro_batches":0,"tp_degrees":[],"first":null}})";

Plan two(int pp) { return uniform_plan(pp, 2 / pp, 8, 16, 4, {{"n1", 0}, {"n1", 1}}); }

}  // namespace

TEST_CASE("only a program that says so is asked to describe itself") {
  const std::string own = script("own", "exit 0");
  CHECK(describes_itself({own}));
  CHECK(describes_itself({"sh", own}));
  CHECK_FALSE(describes_itself({"sh", "-c", "true"}));
  CHECK_FALSE(describes_itself({"/no/such/program"}));
  CHECK_FALSE(describes_itself({}));
}

TEST_CASE("a described program waits for the planner's plan and starts on it") {
  Job one({"sh", script("described", std::string("echo '") + kModel + "'")});
  const auto answer = one.loop.every(std::chrono::milliseconds(5), [&] { one.start->proposed(one.proposal(two(2))); });
  one.start->begin();
  one.run();
  CHECK(one.log == "described asked start ");
  CHECK(one.order == RankOrder::planned);
  REQUIRE(one.started);
  CHECK(one.started->id == 5);
  CHECK(one.started->plan == two(2));
}

TEST_CASE("a deadline that cannot be kept ends the job before generation 0, and the plan that follows is given up") {
  for (const bool refuses : {true, false}) {
    CAPTURE(refuses);
    Job one({"sh", script("late", std::string("echo '") + kModel + "'")});
    one.job.deadline = 1'000'000'000;  // long over
    const auto answer = one.loop.every(std::chrono::milliseconds(5), [&] {
      one.start->deadline_checked({false, refuses, {}}, false);
      one.start->proposed(one.proposal(two(2)));
    });
    one.start->begin();
    one.run();
    if (refuses) {
      CHECK(one.log.starts_with("described asked refused: deadline "));
      CHECK(one.log.ends_with("given_up "));
      CHECK(!one.started);
    } else {
      CHECK(one.log == "described asked start ");
    }
  }
}

TEST_CASE("a program whose description fails, hangs or is something else starts its ranks first") {
  FirstStart::Limits limits;
  limits.describe = std::chrono::milliseconds(300);
  limits.plan = std::chrono::milliseconds(1);
  for (const char* body : {"exit 3", "echo hello", "echo '{}'", "sleep 600", "exec yes"}) {
    CAPTURE(body);
    Job one({"sh", script("odd", body)}, limits);
    const auto look = one.loop.every(std::chrono::milliseconds(5), [&] {
      if (one.log == "ranks ") one.hello();
    });
    one.start->begin();
    one.run();
    CHECK(one.log == "ranks asked start ");
    CHECK(one.order == RankOrder::given);
  }
}

TEST_CASE("a planner that is silent, away or proposes nonsense: the launcher chooses itself") {
  FirstStart::Limits limits;
  limits.plan = std::chrono::milliseconds(50);
  SUBCASE("silent") {
    Job one({"sh"}, limits);
    one.start->begin();
    one.hello();
    one.run();
    CHECK(one.log == "ranks asked start ");
    CHECK(one.started->reason.find("in time") != std::string::npos);
  }
  SUBCASE("away") {
    Job one({"sh"});
    one.start->planner_away();
    one.start->begin();
    one.hello();
    CHECK(one.log == "ranks start ");
  }
  SUBCASE("away while it is asked") {
    Job one({"sh"});
    one.start->begin();
    one.hello();
    one.start->planner_away();
    one.run();
    CHECK(one.log == "ranks asked start ");
  }
  const auto nonsense = [&](const Plan& plan) {
    Job one({"sh"});
    one.start->begin();
    one.hello();
    one.start->proposed(one.proposal(plan));
    CHECK(one.log == "ranks asked given_up start ");
    one.start->proposed(one.proposal(two(2)));
    CHECK(one.log == "ranks asked given_up start given_up ");  // late
    CHECK(one.started->id == 0);
    CHECK(validate(one.started->plan, 8).empty());
    CHECK(one.started->plan.ranks() == std::vector<GpuId>{{"n1", 0}, {"n1", 1}});
  };
  SUBCASE("other layers") { nonsense(uniform_plan(2, 1, 9, 16, 4, {{"n1", 0}, {"n1", 1}})); }
  SUBCASE("other batch") { nonsense(uniform_plan(2, 1, 8, 32, 4, {{"n1", 0}, {"n1", 1}})); }
  SUBCASE("ranks in another order") { nonsense(uniform_plan(2, 1, 8, 16, 4, {{"n1", 1}, {"n1", 0}})); }
  SUBCASE("no plan") { nonsense(Plan{}); }
}

TEST_CASE("a planned start refuses GPUs that are not the job's, and TP under bitwise") {
  const std::string program = script("refusing", std::string("echo '") + kModel + "'");
  const auto ends_with_own_choice = [&](const Plan& plan) {
    Job one({"sh", program});
    const auto answer = one.loop.every(std::chrono::milliseconds(5), [&] { one.start->proposed(one.proposal(plan)); });
    one.start->begin();
    one.run();
    CHECK(one.started->id == 0);
  };
  ends_with_own_choice(uniform_plan(2, 1, 8, 16, 4, {{"n1", 0}, {"n2", 0}}));
  ends_with_own_choice(uniform_plan(2, 1, 8, 16, 4, {{"n1", 1}, {"n1", 0}}));
  ends_with_own_choice(uniform_plan(1, 1, 8, 16, 4, {{"n1", 0}, {"n1", 1}}, 2));
}

TEST_CASE("a wide start waits for its extensions a bounded time, and starts alone without them") {
  const std::string program = script("wide", std::string("echo '") + kModel + "'");
  FirstStart::Limits limits;
  limits.wide = std::chrono::milliseconds(60);
  for (const char* how : {"granted", "failed", "late", "lost"}) {
    CAPTURE(how);
    Job one({"sh", program}, limits);
    bool told = false;
    const auto answer = one.loop.every(std::chrono::milliseconds(5), [&] {
      if (one.start->asks_for_extensions()) {
        if (std::exchange(told, true)) return;
        if (std::string(how) == "granted" || std::string(how) == "lost") one.start->granted();
        if (std::string(how) == "failed") one.start->acquire_failed("no");
        return;
      }
      Decision wide = one.proposal(uniform_plan(4, 1, 8, 16, 4, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}}));
      wide.acquire = {{"n2", 2, 2, 100, 10}};
      one.start->proposed(wide);
    });
    one.start->begin();
    one.run();
    if (std::string(how) == "granted" || std::string(how) == "lost") {
      CHECK(one.log == "described asked acquire start ");
      CHECK(one.started->plan.gpu_count() == 4);
      if (std::string(how) == "granted") continue;
      one.start->start_alone("n2 is gone");
      CHECK(one.started->plan.gpu_count() <= 2);
    } else {
      CHECK(one.log == "described asked acquire cancel given_up start ");
      CHECK(one.started->id == 0);
      CHECK(one.started->plan.gpu_count() <= 2);
    }
  }
}

TEST_CASE("a second wide start, of a planner that was started again, is answered and changes nothing") {
  const std::string program = script("twice", std::string("echo '") + kModel + "'");
  Job one({"sh", program});
  bool told = false;
  const auto answer = one.loop.every(std::chrono::milliseconds(5), [&] {
    Decision wide = one.proposal(uniform_plan(4, 1, 8, 16, 4, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}}));
    wide.acquire = {{"n2", 2, 2, 100, 10}};
    if (!one.start->asks_for_extensions()) return one.start->proposed(wide);
    if (std::exchange(told, true)) return;
    wide.id = 6;
    one.start->proposed(wide);
    CHECK(one.start->asks_for_extensions());
    one.start->granted();
  });
  one.start->begin();
  one.run();
  CHECK(one.log == "described asked acquire given_up start ");
  CHECK(one.started->id == 5);
}

TEST_CASE("a model that fits nowhere is refused before any rank starts") {
  std::string model = kModel;
  model.replace(model.find("\"hidden\":256"), 12, "\"hidden\":65536");
  FirstStart::Limits limits;
  limits.plan = std::chrono::milliseconds(1);
  Job one({"sh", script("huge", "echo '" + model + "'")}, limits);
  one.start->begin();
  one.run();
  CHECK(one.log.starts_with("described asked refused: no plan on 2 GPU(s)"));
  CHECK_FALSE(one.started);
}
