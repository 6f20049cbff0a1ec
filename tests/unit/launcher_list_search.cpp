// Which profiles start a search for lists, and what becomes of its result.
#include "launcher/job/list_search.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "planner/core/pipeline/csv.hpp"
#include "planner/core/pipeline_form.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::launcher;
using namespace std::chrono_literals;

namespace {

struct Job {
  wire::Loop loop;
  PlanningBasis known;
  Profile profile;
  bool idle = true;
  int busy = 0;  // so often it was asked while it was not idle
  std::int64_t left = 1000;
  std::vector<std::pair<Decision, std::optional<Lists>>> proposed;
  ListSearch search{loop, 7, callbacks(), 50ms};

  explicit Job(const char* schedule = "auto") {
    auto cluster = model_cases::cluster();
    cluster.hardware.types[0].memory_bytes = 1e12;
    Plan plan{16, 4, {}};
    for (int s = 0; s < 4; ++s) plan.stages.push_back({3, 1, {model_cases::replica(4, 0, s, 1)}});
    JobCoefficients job = model_cases::known_job({});
    job.deferred = 0.5;
    profile = model_cases::profile_of(cluster, job, with_form(plan, pipeline_form("zb-v", 2)));
    for (ReplicaProfile& one : profile.replicas) one.spread = 0.001;
    profile.steps = 16;
    profile.shape.setting = TrainingSetting{"p", "r", "float32", schedule};
    known.site = {cluster.hardware, cluster.topology};
  }
  ListSearch::Callbacks callbacks() {
    ListSearch::Callbacks on;
    on.idle = [this] {
      if (!idle) ++busy;
      return idle;
    };
    on.steps_left = [this] { return left; };
    on.known = [this]() -> const PlanningBasis& { return known; };
    on.propose = [this](const Decision& decision, const std::optional<Lists>& lists) {
      proposed.emplace_back(decision, lists);
      loop.stop();
    };
    return on;
  }
  // Until something was proposed, or `limit` is over.
  std::size_t run(std::chrono::milliseconds limit) {
    const auto end = loop.after(limit, [this] { loop.stop(); });
    loop.run();
    return proposed.size();
  }
};

constexpr auto kFound = 60s;   // a search takes far less than a second
constexpr auto kNothing = 2s;  // in which one would have ended

}  // namespace

TEST_CASE("a calm profile of a job that leaves its schedule to Espalier brings faster lists for the same plan, once") {
  Job job;
  job.search.profiled(job.profile);
  REQUIRE(job.run(kFound) == 1);
  const auto& [decision, lists] = job.proposed.front();
  CHECK(decision.id == 0);
  CHECK(decision.job == 7);
  CHECK(decision.plan == job.profile.plan);
  CHECK(decision.acquire.empty());
  CHECK(decision.release.empty());
  CHECK(decision.reason.starts_with("lists searched for the measured stages and the GPUs' memory take "));
  CHECK(decision.reason.find("zb-v takes ") != std::string::npos);
  REQUIRE(decision.candidates.size() == 2);
  CHECK(decision.candidates[0].predicted_step_seconds > decision.candidates[1].predicted_step_seconds);
  CHECK_FALSE(decision.candidates[0].rejected_by.empty());
  CHECK(decision.candidates[1].rejected_by.empty());
  CHECK(pipeline::read_csv(lists.value().csv).rank_of_chunk == std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0});
  // The lists run now: their own profile asks for no others.
  job.search.another_plan();
  job.search.profiled(job.profile);
  CHECK(job.run(kNothing) == 1);
  // Another plan does.
  job.search.another_plan();
  job.search.profiled(job.profile);
  CHECK(job.run(kFound) == 2);
}

TEST_CASE(
    "no lists are searched for a job that chose its schedule, is busy, or is nearly done, nor on a restless profile") {
  Job chosen("zb-v");
  chosen.search.profiled(chosen.profile);
  CHECK(chosen.run(kNothing) == 0);
  Job job;
  job.left = 20;
  job.search.profiled(job.profile);
  job.left = 1000;
  job.idle = false;
  job.search.profiled(job.profile);
  job.idle = true;
  Profile restless = job.profile;
  restless.replicas[0].spread = 0.2;
  job.search.profiled(restless);
  CHECK(job.run(kNothing) == 0);
  // None of these counts as a search.
  job.search.profiled(job.profile);
  CHECK(job.run(kFound) == 1);
}

TEST_CASE("lists for a plan that no longer runs are dropped, and a job that became busy is asked again") {
  Job job;
  job.search.profiled(job.profile);
  job.search.another_plan();
  CHECK(job.run(kNothing) == 0);
  job.search.profiled(job.profile);
  job.idle = false;
  for (int i = 0; i < 600 && job.busy == 0; ++i) job.run(100ms);
  CHECK(job.busy == 1);
  CHECK(job.proposed.empty());
  job.idle = true;
  job.search.profiled(job.profile);
  CHECK(job.run(kFound) == 1);
}

TEST_CASE("lists that the ranks refuse, or fail on, are the last ones; a change given up for another reason is not") {
  Job job;
  CHECK_FALSE(job.search.given_up());  // another change
  job.search.refused();                // and its plan
  job.search.profiled(job.profile);
  REQUIRE(job.run(kFound) == 1);
  CHECK(job.search.given_up());  // Slurm took an extension back, say
  CHECK_FALSE(job.search.given_up());
  job.search.profiled(job.profile);
  REQUIRE(job.run(kFound) == 2);
  job.search.refused();
  CHECK(job.search.given_up());
  job.search.another_plan();
  job.search.profiled(job.profile);
  CHECK(job.run(kNothing) == 2);
  Job failed;
  failed.search.failed();
  failed.search.profiled(failed.profile);
  CHECK(failed.run(kNothing) == 0);
}

namespace {

// Lists are found after `before` steps of a second each, the first of which took twice as long, and run.
void start_lists(Job& job, int before = 6) {
  job.search.another_plan();
  job.search.stepped(2);
  for (int i = 1; i < before; ++i) job.search.stepped(1);
  job.search.profiled(job.profile);
  REQUIRE(job.run(kFound) == 1);
  job.idle = false;
  for (int i = 0; i < 40; ++i) job.search.stepped(9);  // the change is still under way
  job.idle = true;
  CHECK_FALSE(job.search.runs());
  job.search.another_plan();
  CHECK(job.search.runs());
}
void steps(Job& job, int count, double seconds) {
  for (int i = 0; i < count; ++i) job.search.stepped(seconds);
}

}  // namespace

TEST_CASE("lists that turn out slower than the plan's own are left after 20 steps, for good; others stay") {
  Job slower;
  start_lists(slower);
  steps(slower, 19, 1.1);
  CHECK(slower.proposed.size() == 1);
  slower.search.stepped(1.1);
  REQUIRE(slower.proposed.size() == 2);
  CHECK_FALSE(slower.proposed[1].second);
  CHECK(slower.proposed[1].first.plan == slower.profile.plan);
  CHECK(slower.proposed[1].first.reason == "with the searched lists a step takes 1.1 s, with zb-v it took 1 s");
  slower.search.another_plan();
  CHECK_FALSE(slower.search.runs());
  slower.search.profiled(slower.profile);
  steps(slower, 40, 1);
  CHECK(slower.run(kNothing) == 2);
  Job faster;
  start_lists(faster);
  steps(faster, 20, 0.9);
  steps(faster, 40, 2);  // something else made it slow later
  CHECK(faster.proposed.size() == 1);
}

TEST_CASE("one slow step, or steps beside something else, are no reason to leave lists") {
  Job job;
  start_lists(job);
  steps(job, 10, 0.9);
  job.search.stepped(5);
  job.idle = false;
  steps(job, 30, 3);
  job.idle = true;
  steps(job, 9, 0.9);
  steps(job, 40, 0.9);
  CHECK(job.proposed.size() == 1);
}

TEST_CASE("where the change away from slow lists is given up, it is tried again after 20 more steps") {
  Job job;
  start_lists(job);
  steps(job, 20, 1.2);
  REQUIRE(job.proposed.size() == 2);
  CHECK(job.search.given_up());
  CHECK(job.search.runs());
  steps(job, 19, 1.2);
  CHECK(job.proposed.size() == 2);
  steps(job, 1, 1.2);
  CHECK(job.proposed.size() == 3);
  CHECK_FALSE(job.proposed[2].second);
}

TEST_CASE("the second generation that is lost in its first steps on lists ends the search") {
  Job job;
  job.search.lost();  // without lists
  for (int loss = 0; loss < 2; ++loss) {
    start_lists(job);
    job.proposed.clear();
    steps(job, 3, 1);
    job.search.lost();
    job.search.another_plan();
  }
  job.search.profiled(job.profile);
  CHECK(job.run(kNothing) == 0);
  Job later;
  start_lists(later);
  steps(later, 20, 1);
  later.proposed.clear();
  later.search.lost();
  later.search.lost();
  later.search.another_plan();
  later.search.profiled(later.profile);
  CHECK(later.run(kFound) == 1);
}
