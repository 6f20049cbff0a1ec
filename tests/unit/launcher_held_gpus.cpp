#include "launcher/job/held_gpus.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Job {
  JobContext context;
  std::set<JobId> silent;
  std::set<std::string> lost_nodes;
  std::set<GpuId> unfit;
  Plan plan;
  std::vector<Holding> before;
  HeldGpus gpus{context, callbacks()};

  Job() {
    context.job = 7;
    context.base = 7;
    context.anchor = {{7, "n1", {0, 1}}, {7, "n2", {0}}};
  }
  HeldGpus::Callbacks callbacks() {
    HeldGpus::Callbacks on;
    on.extensions = [](bool with_acquired) {
      std::vector<Holding> list{{20, "n3", {0, 1}}};
      if (with_acquired) list.push_back({21, "n4", {0}});
      return list;
    };
    on.base_before = [this] { return before; };
    on.falters = [this](JobId id) { return silent.contains(id); };
    on.node_lost = [this](const std::string& node) { return lost_nodes.contains(node); };
    on.unfit = [this] { return unfit; };
    on.plan = [this]() -> const Plan& { return plan; };
    return on;
  }
};

using Gpus = std::set<GpuId>;

}  // namespace

TEST_CASE("GPUs are lost with their node, their extension, or by Slurm's word") {
  Job job;
  CHECK(job.gpus.all(true).size() == 4);
  CHECK(job.gpus.left() == Gpus{{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n3", 0}, {"n3", 1}});
  job.lost_nodes = {"n2"};
  CHECK(job.gpus.left() == Gpus{{"n1", 0}, {"n1", 1}, {"n3", 0}, {"n3", 1}});
  job.silent = {20};
  CHECK(job.gpus.left() == Gpus{{"n1", 0}, {"n1", 1}});
  job.lost_nodes.clear();
  job.silent.clear();
  job.gpus.heard({.closing = {20}, .withdrawn = {"n1"}, .away = ""});
  CHECK(job.gpus.left() == Gpus{{"n2", 0}});
  job.gpus.heard({});  // the answer replaces the one before
  CHECK(job.gpus.left().size() == 5);
}

TEST_CASE("a node that Slurm took from an earlier base counts on the next one, and an extension that ends stays lost") {
  Job job;
  job.gpus.heard({.closing = {20}, .withdrawn = {"n2"}, .away = ""});
  CHECK(job.gpus.left() == Gpus{{"n1", 0}, {"n1", 1}});
  job.context.base = 8;
  job.context.anchor = {{8, "n2", {0, 1}}};
  job.gpus.has_new_base();
  CHECK(job.gpus.left() == Gpus{{"n2", 0}, {"n2", 1}});
  CHECK(job.gpus.own() == job.context.anchor);
}

TEST_CASE("a base that training is leaving is held until it is given back") {
  Job job;
  job.before = {{6, "n5", {0}}};
  CHECK(job.gpus.all(false).back() == Holding{6, "n5", {0}});
  CHECK(job.gpus.left().contains({"n5", 0}));
  CHECK(job.gpus.own() == job.context.anchor);
}

TEST_CASE(
    "what the plan leaves idle is added behind the GPUs that are kept, unless it is lost, unfit or on its way back") {
  Job job;
  job.plan.stages.push_back({1, 1, {{1, {{"n1", 0}, {"n3", 1}}}}});
  using List = std::vector<GpuId>;
  const List kept{{"n3", 1}, {"n1", 0}};
  CHECK(job.gpus.with_idle(kept, {}) == List{{"n3", 1}, {"n1", 0}, {"n1", 1}, {"n2", 0}, {"n3", 0}});
  CHECK(job.gpus.with_idle({{"n1", 0}}, {{"n3", 0}, {"n3", 1}}) == List{{"n1", 0}, {"n1", 1}, {"n2", 0}});
  job.lost_nodes = {"n2"};
  job.silent = {20};
  CHECK(job.gpus.with_idle({{"n1", 0}}, {}) == List{{"n1", 0}, {"n1", 1}});
  job.silent.clear();
  job.plan.stages = {{1, 1, {{1, {{"n1", 0}}}}}};  // the extension is not used
  CHECK(job.gpus.with_idle({{"n1", 0}}, {}) == List{{"n1", 0}, {"n1", 1}});
  job.unfit = {{"n1", 1}};
  CHECK(job.gpus.with_idle({{"n1", 0}}, {}) == List{{"n1", 0}});
  job.context.floor_gpus = 2;  // the job would end without it
  CHECK(job.gpus.with_idle({{"n1", 0}}, {}) == List{{"n1", 0}, {"n1", 1}});
}

TEST_CASE("unfit GPUs are not used, unless the plan uses them or the job has no others of its own") {
  Job job;
  job.unfit = {{"n1", 0}, {"n2", 0}};
  CHECK(job.gpus.own() == std::vector<Holding>{{7, "n1", {1}}});
  job.plan.stages.push_back({1, 1, {{1, {{"n1", 0}}}}});
  CHECK(job.gpus.own() == std::vector<Holding>{{7, "n1", {0, 1}}});
  job.plan = {};
  job.unfit.insert({"n1", 1});
  CHECK(job.gpus.own() == job.context.anchor);
  job.lost_nodes = {"n1"};
  CHECK(job.gpus.own() == std::vector<Holding>{{7, "n2", {0}}});
}
