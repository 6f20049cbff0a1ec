#include "launcher/job/proposal_check.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Proposal {
  JobContext context;
  ProposalFacts facts;
  Decision decision;

  Proposal() {
    context.job = 7;
    context.max_gpus = 4;
    facts.model = {"gpt2", 8, 256, 8, 128, 1000, 16, 4};
    facts.plan = plan({{"n1", 0}, {"n1", 1}});
    facts.own = {{7, "n1", {0, 1}}};
    facts.known = [](JobId id) { return id == 20; };
    decision.job = 7;
    decision.kind = DecisionKind::grow;
    decision.plan = plan({{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}});
    decision.acquire = {{"n2", 2}};
  }
  static Plan plan(const std::vector<GpuId>& gpus) {
    return uniform_plan(1, static_cast<int>(gpus.size()), 8, 16, 4, gpus);
  }
  std::string why() const { return refusal(decision, context, facts).value_or(""); }
};

}  // namespace

TEST_CASE("a proposal that suits is not refused") { CHECK(Proposal().why() == ""); }

TEST_CASE("a proposal is refused with its reason") {
  Proposal one;
  SUBCASE("to a program without the worker protocol") {
    one.facts.elastic = false;
    CHECK(one.why() == "the job runs without elasticity");
  }
  SUBCASE("while something is changed") {
    one.facts.busy = true;
    one.facts.phase = JobPhase::starting;
    CHECK(one.why() == "busy: starting");
  }
  SUBCASE("for another job") {
    one.decision.job = 8;
    CHECK(one.why() == "it is for job 8");
  }
  SUBCASE("with another batch") {
    one.decision.plan.global_batch = 32;
    CHECK(one.why().find("invalid plan: ") == 0);
  }
  SUBCASE("beyond the maximum") {
    one.context.max_gpus = 3;
    CHECK(one.why() == "the plan exceeds the job's maximum");
  }
  SUBCASE("without the anchor's first GPU in the lead") {
    one.decision.plan = Proposal::plan({{"n1", 1}, {"n1", 0}, {"n2", 0}, {"n2", 1}});
    CHECK(one.why() == "invalid plan: rank 0 must stay on the anchor's first GPU");
  }
  SUBCASE("when no GPU of the anchor is left") {
    one.facts.own.clear();
    CHECK(one.why() == "invalid plan: rank 0 must stay on the anchor's first GPU");
  }
  SUBCASE("with an empty request") {
    one.decision.acquire = {{"n2", 0}};
    CHECK(one.why() == "invalid extension request");
  }
  SUBCASE("with an extension of another job") {
    one.decision.release = {20, 21};
    CHECK(one.why() == "extension 21 is not this job's");
  }
}

TEST_CASE("a GPU on which ranks die is refused where the plan is to grow onto it") {
  Proposal one;
  one.facts.unfit = {{"n2", 1}};
  CHECK(one.why() == "workers have died on GPU 1 of n2 again and again, or its driver reports errors");
  one.facts.unfit = {{"n1", 1}};  // the job has it already
  CHECK(one.why() == "");
  one.facts.unfit = {{"n2", 1}};
  one.decision.kind = DecisionKind::shrink;  // which may have no others
  CHECK(one.why() == "");
}

TEST_CASE("a proposal to replace the base is for movable jobs, and names a base that can be had") {
  Proposal one;
  one.context.movable = true;
  one.context.min_gpus = 2;
  one.facts.own = {{30, "n1", {0, 1}}};  // the base is Slurm job 30
  one.decision.kind = DecisionKind::migrate;
  one.decision.plan = Proposal::plan({{"n3", 0}, {"n3", 1}});
  one.decision.acquire = {{"n3", 2}};
  SUBCASE("it suits") { CHECK(one.why() == ""); }
  SUBCASE("the job is anchored") {
    one.context.movable = false;
    CHECK(one.why() == "the job is not movable: its GPUs are those of the submitted job");
  }
  SUBCASE("with fewer GPUs than MIN") {
    one.decision.acquire = {{"n3", 1}};
    CHECK(one.why() == "the new base would have fewer GPUs than MIN");
  }
  SUBCASE("with different numbers of GPUs on its nodes") {
    one.decision.acquire = {{"n3", 2}, {"n4", 1}};
    CHECK(one.why() == "invalid request for a base");
  }
  SUBCASE("together with an extension") {
    one.decision.acquire = {{"n3", 2}, {"n4", 2, 1, 1, 60}};
    CHECK(one.why() == "invalid request for a base");
  }
  SUBCASE("with rank 0 elsewhere") {
    one.decision.plan = Proposal::plan({{"n1", 0}, {"n3", 1}});
    CHECK(one.why() == "invalid plan: rank 0 must be on the first node of the new base");
  }
}

TEST_CASE("a base that is a single replica is left by way of a plan on both bases, beyond the job's maximum") {
  Proposal one;
  one.context.movable = true;
  one.context.min_gpus = one.context.max_gpus = 2;
  one.facts.own = {{30, "n1", {0, 1}}};
  one.facts.plan = Plan{16, 1, {{8, 2, {{16, {{"n1", 0}, {"n1", 1}}}}}}};
  one.decision.kind = DecisionKind::migrate;
  one.decision.acquire = {{"n3", 2}};
  one.decision.plan = Plan{16, 1, {{8, 2, {{8, {{"n3", 0}, {"n3", 1}}}, {8, {{"n1", 0}, {"n1", 1}}}}}}};
  CHECK(one.why() == "");
  SUBCASE("a growth may have no more than the maximum") {
    one.decision.kind = DecisionKind::grow;
    CHECK(one.why() == "the plan exceeds the job's maximum");
  }
  SUBCASE("nor a move more than both bases") {
    one.decision.plan.stages.front().replicas.back().share = 4;
    one.decision.plan.stages.front().replicas.push_back({4, {{"n2", 0}, {"n2", 1}}});
    CHECK(one.why() == "the plan exceeds the job's maximum");
  }
}

TEST_CASE("a smaller base is refused with its reason") {
  JobContext context;
  context.job = 7;
  context.movable = true;
  context.min_gpus = 2;
  context.base_gpus = 4;
  Decision decision;
  decision.job = 7;
  decision.kind = DecisionKind::start;
  decision.acquire = {{"n1", 1}, {"n2", 1}};
  std::string why;
  SUBCASE("or not, where it suits") {}
  SUBCASE("of another job") {
    decision.job = 8;
    why = "it is for job 8";
  }
  SUBCASE("of a job that is not movable") {
    context.movable = false;
    why = "the job is not movable: its GPUs are those of the submitted job";
  }
  SUBCASE("with other numbers of GPUs on its nodes") {
    decision.acquire.back().gpus = 2;
    why = "invalid request for a base";
  }
  SUBCASE("with a lease") {
    decision.acquire.back().lease_minutes = 5;
    why = "invalid request for a base";
  }
  SUBCASE("with fewer GPUs than MIN") {
    decision.acquire.pop_back();
    why = "the base would have fewer GPUs than MIN";
  }
  SUBCASE("that is not smaller") {
    for (ExtensionRequest& part : decision.acquire) part.gpus = 2;
    why = "the base would not be smaller than the one that waits";
  }
  CHECK(smaller_base_refusal(decision, context) == why);
}
