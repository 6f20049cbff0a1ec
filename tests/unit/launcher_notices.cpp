#include "launcher/job/notices.hpp"

#include <doctest/doctest.h>

#include "planner/core/topology/from_view.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

// A job on n1 and n2 with an extension on n3.
struct Job {
  wire::Loop loop;
  JobContext context;
  ElasticJob job;
  Plan plan = uniform_plan(1, 4, 8, 16, 4, {{"n1", 0}, {"n1", 1}, {"n3", 0}, {"n3", 1}});
  PlanningBasis known;
  std::set<JobId> taken{20};
  bool idle = true;
  std::vector<Holding> before;
  std::set<std::string> lost_nodes;
  std::set<GpuId> unfit;
  double needs = 1, since = 0;
  int saves = 0;
  std::vector<Holding> arrived;
  int taken_arrived = 0;
  std::vector<NodeView> arrived_nodes;
  std::vector<std::string> stays;
  std::vector<Decision> proposed;
  HeldGpus gpus{context, gpu_callbacks()};
  std::unique_ptr<Notices> notices;

  Job() {
    context.job = context.base = job.id = 7;
    context.anchor = job.anchor = {{7, "n1", {0, 1}}};
    job.extensions = {{20, "n3", {0, 1}}};
    job.max_gpus = 4;
    job.model = {"gpt2", 8, 256, 8, 128, 1000, 16, 4};
    job.plan = plan;
    ClusterView view;
    for (const char* name : {"n1", "n3"}) {
      NodeView node;
      node.name = name;
      node.gpu_type = "h100";
      node.gpu_owner.assign(2, 7);
      view.nodes.push_back(node);
    }
    known.site = site_from_view(view, {}).site;
    Notices::Callbacks on;
    on.taken = [this] { return taken; };
    on.base_before = [this] { return before.empty() ? 0 : before.front().job; };
    on.arrived = [this] { return arrived; };
    on.take_arrived = [this] { ++taken_arrived; };
    on.arrived_nodes = [this] { return arrived_nodes; };
    on.stays = [this](const std::string& why) { stays.push_back(why); };
    on.since = [this](const std::set<JobId>&) { return since; };
    on.idle = [this] { return idle; };
    on.job = [this] { return job; };
    on.known = [this]() -> const PlanningBasis& { return known; };
    on.needs = [this] { return needs; };
    on.save = [this] { ++saves; };
    on.propose = [this](const Decision& decision) {
      proposed.push_back(decision);
      loop.stop();
    };
    notices = std::make_unique<Notices>(loop, context, gpus, std::move(on));
  }
  HeldGpus::Callbacks gpu_callbacks() {
    HeldGpus::Callbacks on;
    on.extensions = [this](bool) { return job.extensions; };
    on.base_before = [this] { return before; };
    on.falters = [](JobId) { return false; };
    on.node_lost = [this](const std::string& node) { return lost_nodes.contains(node); };
    on.unfit = [this] { return unfit; };
    on.plan = [this]() -> const Plan& { return plan; };
    return on;
  }
};

}  // namespace

TEST_CASE("a notice is answered with a plan on the GPUs that stay") {
  Job one;
  one.notices->answer();
  REQUIRE(one.proposed.size() == 1);
  const Decision& decision = one.proposed.front();
  CHECK(decision.kind == DecisionKind::shrink);
  CHECK(decision.trigger == Trigger::preempted);
  CHECK(decision.release == std::vector<JobId>{20});
  const auto ranks = decision.plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{{"n1", 0}, {"n1", 1}});
}

// MIN is never larger than the job's own allocation: the job has fewer GPUs only after a node of that was lost.
TEST_CASE("below MIN of --elastic nothing is proposed, and a checkpoint is asked for, once") {
  Job one;
  one.context.anchor = one.job.anchor = {{7, "n1", {0, 1}}, {7, "n2", {0}}};
  one.context.floor_gpus = one.job.floor_gpus = 3;
  one.lost_nodes = {"n2"};
  one.notices->answer();
  one.notices->answer();
  CHECK(one.proposed.empty());
  CHECK(one.saves == 1);
  one.lost_nodes.clear();  // its keeper is heard again
  one.notices->answer();
  REQUIRE(one.proposed.size() == 1);
  const auto ranks = one.proposed.front().plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{{"n1", 0}, {"n1", 1}, {"n2", 0}});
}

// Such a job was told that it ends, though the recovery after that would have taken the GPU.
TEST_CASE("a GPU of the job's own where ranks died is used where fewer than MIN would be left without it") {
  Job one;
  one.plan = uniform_plan(1, 2, 8, 16, 4, {{"n1", 0}, {"n3", 0}});
  one.job.plan = one.plan;
  one.unfit = {{"n1", 1}};
  one.context.floor_gpus = one.job.floor_gpus = 2;
  one.notices->answer();
  CHECK(one.saves == 0);
  REQUIRE(one.proposed.size() == 1);
  const auto ranks = one.proposed.front().plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{{"n1", 0}, {"n1", 1}});
}

TEST_CASE("a smaller plan may use GPUs of the job's own that its present plan leaves idle") {
  Job one;
  one.plan = uniform_plan(1, 3, 8, 12, 4, {{"n1", 0}, {"n3", 0}, {"n3", 1}});
  one.job.plan = one.plan;
  one.job.model.global_batch = 12;
  one.context.floor_gpus = one.job.floor_gpus = 2;
  one.notices->answer();
  REQUIRE(one.proposed.size() == 1);
  const auto ranks = one.proposed.front().plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{{"n1", 0}, {"n1", 1}});
}

TEST_CASE("a notice waits while the job is busy, and nothing is done without one") {
  Job one;
  one.idle = false;
  one.notices->answer();
  CHECK(one.proposed.empty());
  one.idle = true;
  one.taken.clear();
  one.notices->answer();
  CHECK(one.proposed.empty());
}

TEST_CASE("an answer that came to nothing is given again later, and not at once") {
  Job one;
  one.notices->failed();
  one.notices->answer();
  CHECK(one.proposed.empty());
  const auto limit = one.loop.after(std::chrono::seconds(60), [&] { one.loop.stop(); });
  one.loop.run();
  CHECK(one.proposed.size() == 1);
}

TEST_CASE("without time for a smaller generation a checkpoint is asked for, once") {
  Job one;
  one.context.site.kill_wait_seconds = 30;
  one.since = 28;
  one.needs = 5;
  one.notices->answer();
  one.notices->answer();
  CHECK(one.saves == 1);
  CHECK(one.proposed.empty());
  one.needs = 1;
  one.notices->answer();
  CHECK(one.proposed.size() == 1);
}

TEST_CASE("training moves from a smaller base to all GPUs of the one that has been granted, after notices") {
  Job one;
  one.arrived = {{9, "n3", {0, 1}}};
  one.job.extensions.clear();
  one.plan = uniform_plan(1, 1, 8, 16, 4, {{"n3", 3}});
  one.job.plan = one.plan;
  one.notices->answer();  // an extension is taken back first
  CHECK(one.taken_arrived == 0);
  one.proposed.clear();
  one.taken.clear();
  one.idle = false;
  one.notices->answer();
  CHECK(one.proposed.empty());
  one.idle = true;
  one.notices->answer();
  REQUIRE(one.proposed.size() == 1);
  CHECK(one.taken_arrived == 1);
  const Decision& decision = one.proposed.front();
  CHECK(decision.kind == DecisionKind::migrate);
  CHECK(decision.reason == "Slurm has granted base 9, for which the job waited");
  const auto ranks = decision.plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{{"n3", 0}, {"n3", 1}});
}

TEST_CASE("a move to a base on other nodes keeps one GPU of the smaller one, which a later change leaves") {
  Job one;
  one.taken.clear();
  one.arrived = {{9, "n3", {0, 1}}};
  one.job.extensions.clear();
  one.plan = uniform_plan(1, 1, 8, 16, 4, {{"n1", 0}});
  one.job.plan = one.plan;
  one.notices->answer();
  REQUIRE(one.proposed.size() == 1);
  const auto ranks = one.proposed.front().plan.ranks();
  CHECK(ranks.front().node == "n3");
  CHECK(std::find(ranks.begin(), ranks.end(), GpuId{"n1", 0}) != ranks.end());
}

TEST_CASE("a granted base for which there is no plan is told of, and not moved to") {
  Job one;
  one.taken.clear();
  one.arrived = {{9, "n3", {0, 1}}};
  one.job.floor_gpus = 1;
  one.job.model.layers = 0;
  one.notices->answer();
  CHECK(one.stays == std::vector<std::string>{"no plan fits on it"});
  CHECK(one.taken_arrived == 0);
  CHECK(one.proposed.empty());
}

TEST_CASE("a bit-identical training on GPUs does not move to a granted base with GPUs of another type") {
  Job one;
  one.taken.clear();
  one.arrived = {{9, "n3", {0, 1}}};
  one.job.extensions.clear();
  one.plan = uniform_plan(1, 1, 8, 16, 4, {{"n3", 3}});
  one.job.plan = one.plan;
  one.job.model.setting = TrainingSetting{"espalier-train-cuda 0.1.0", "", "", "", false, false};
  NodeView present, granted;
  present.gpu_type = "h100";
  granted.gpu_type = "a100";
  one.context.nodes = {present};
  one.arrived_nodes = {granted};
  SUBCASE("it stays, and the base is given back") {
    one.notices->answer();
    REQUIRE(one.stays.size() == 1);
    CHECK(one.stays.front() ==
          "it has GPUs of type a100, and accuracy=bitwise keeps the training on h100, as others may round differently; "
          "name one type with types=, or give accuracy=relaxed");
    CHECK(one.taken_arrived == 0);
    CHECK(one.proposed.empty());
    return;
  }
  SUBCASE("a part of the base has another type") {
    one.arrived_nodes = {present, granted};
    one.notices->answer();
    REQUIRE(one.stays.size() == 1);
    CHECK(one.stays.front().find("it has GPUs of type a100 and h100, and") == 0);
    return;
  }
  SUBCASE("the type is the same") { one.arrived_nodes = {present}; }
  SUBCASE("with accuracy=relaxed") { one.job.accuracy = Accuracy::relaxed; }
  SUBCASE("on processors") { one.job.model.setting->program = "espalier-train 0.1.0"; }
  one.notices->answer();
  CHECK(one.stays.empty());
  CHECK(one.proposed.size() == 1);
}

TEST_CASE("a base that the plan still uses is left for all GPUs of the base after it") {
  Job one;
  one.taken.clear();
  one.before = {{6, "n3", {0, 1}}};
  one.job.extensions.clear();
  one.plan = uniform_plan(1, 2, 8, 16, 4, {{"n1", 0}, {"n3", 1}});
  one.job.plan = one.plan;
  one.notices->answer();
  REQUIRE(one.proposed.size() == 1);
  const Decision& decision = one.proposed.front();
  CHECK(decision.kind == DecisionKind::migrate);
  CHECK(decision.reason == "training leaves base 6");
  CHECK(decision.release.empty());
  const auto ranks = decision.plan.ranks();
  CHECK(std::set<GpuId>(ranks.begin(), ranks.end()) == std::set<GpuId>{{"n1", 0}, {"n1", 1}});
}
