#include "launcher/job/generation_zero.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "launcher/job/holdings.hpp"
#include "launcher/job/outcomes.hpp"
#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"
#include "planner/core/topology/from_view.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

wire::Loop::Milliseconds milliseconds(double seconds) {
  return wire::Loop::Milliseconds(static_cast<long>(seconds * 1000));
}

// The nodes of the job's own as Slurm tells of them. A node that Slurm does not tell of has GPUs of an unknown type.
ClusterView own_nodes(const JobContext& context) {
  ClusterView view;
  view.nodes = context.nodes;
  for (const Holding& held : context.anchor) {
    auto node =
        std::find_if(view.nodes.begin(), view.nodes.end(), [&](const NodeView& one) { return one.name == held.node; });
    if (node == view.nodes.end()) {
      node = view.nodes.emplace(node);
      node->name = held.node;
    }
    for (const int gpu : held.gpus)
      if (static_cast<std::size_t>(gpu) >= node->gpu_owner.size())
        node->gpu_owner.resize(static_cast<std::size_t>(gpu) + 1, 0);
  }
  return view;
}

}  // namespace

GenerationZero::GenerationZero(wire::Loop& loop, const JobContext& context, std::vector<std::string> environment,
                               Program& program, Generations& generations, Callbacks callbacks)
    : loop_(loop), context_(context), program_(program), generations_(generations), callbacks_(std::move(callbacks)) {
  FirstStart::Callbacks on;
  on.job = callbacks_.job;
  on.known = [this]() -> const PlanningBasis& { return known_; };
  on.described = [this](const wire::Description& description) { program_.described(description); };
  on.tell_planner = callbacks_.tell_planner;
  on.run_ranks = [this] { run_ranks_unplanned(); };
  on.acquire = callbacks_.acquire;
  on.cancel_acquired = callbacks_.cancel_acquired;
  on.given_up = [this](const Decision& decision, const std::string& why) {
    wire::Outcome outcome = outcome_of(context_.job, decision, "aborted: " + why);
    outcome.generation = generations_.number();
    callbacks_.report(outcome);
  };
  on.start = [this](const Decision& decision, RankOrder order) { start(decision, order); };
  on.refuse = [this](const std::string& why) { callbacks_.fails(false, why); };
  FirstStart::Limits limits;
  limits.describes = context_.container.empty();
  limits.plan = milliseconds(context_.config.plan_seconds);
  limits.wide = milliseconds(context_.config.wide_seconds);
  first_start_ = std::make_unique<FirstStart>(loop_, context_.program, std::move(environment), limits, std::move(on));
}

void GenerationZero::begin(std::chrono::steady_clock::time_point since) {
  began_ = since;
  skip();
  first_start_->begin();
}

void GenerationZero::skip() {
  // Until the planner says more: GPU types as Slurm names them, and their data sheets.
  if (known_.site.topology.nodes() == 0 || !covers_own(known_))
    known_.site = site_from_view(own_nodes(context_), {}).site;
}

void GenerationZero::learn(const wire::Known& known) {
  const UnknownFieldsPass pass;  // espalierd may be of another version
  PlanningBasis knowledge = basis_from(known.basis);
  if (covers_own(knowledge)) known_ = std::move(knowledge);
}

bool GenerationZero::covers_own(const PlanningBasis& knowledge) const {
  const auto own = context_.anchor_gpus();
  return std::all_of(own.begin(), own.end(), [&](const GpuId& gpu) {
    const int node = knowledge.site.topology.find(gpu.node);
    return node >= 0 && static_cast<std::size_t>(gpu.index) < knowledge.site.topology.gpu_types(node).size();
  });
}

// One rank on each GPU of the job's own. The plan follows when the workers have told the model's shape.
void GenerationZero::run_ranks_unplanned() {
  Plan first;
  for (const GpuId& gpu : context_.anchor_gpus()) first.stages.push_back({1, 1, {{1, {gpu}}}});
  generations_.start_first(first);
  program_.await_hello();
}

void GenerationZero::start(const Decision& decision, RankOrder order) {
  started_with_ = decision;
  generations_.set_plan(decision.plan);
  spdlog::info("espalier: launch: generation {} starts on {}", generations_.number(), describe(decision.plan));
  try {
    if (order == RankOrder::given) {
      callbacks_.set_deadline();
      return loop_.defer([this] {
        if (World* const current = generations_.current(); current != nullptr)
          current->assign(generations_.plan(), std::nullopt, context_.accuracy);
      });
    }
    Plan plan = decision.plan;
    place_on_granted(plan, context_.anchor, callbacks_.granted());
    generations_.set_plan(plan);
    generations_.start_first(plan);
    generations_.current()->assign(plan, std::nullopt, context_.accuracy);
    program_.await_hello();
  } catch (const Error& error) {
    callbacks_.fails(wide(), error.what());
  }
}

bool GenerationZero::wide() const {
  if (callbacks_.phase() != JobPhase::launching || generations_.plan().stages.empty()) return false;
  const auto own = context_.anchor_gpus();
  const std::set<GpuId> anchor(own.begin(), own.end());
  const auto ranks = generations_.plan().ranks();
  return std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) { return !anchor.contains(gpu); });
}

void GenerationZero::start_alone() {
  program_.start_anew();
  generations_.begin_over();
  if (started_with_ && started_with_->id != 0) {
    wire::Outcome outcome = outcome_of(context_.job, *started_with_, "aborted: " + why_alone_);
    outcome.kind = DecisionKind::start;
    outcome.generation = generations_.number();
    callbacks_.report(outcome);
  }
  first_start_->start_alone(why_alone_);
}

double GenerationZero::trains() {
  if (World* const current = generations_.current(); current != nullptr) current->send_all(wire::Commit{});
  return std::chrono::duration<double>(wire::steady_now() - began_).count();
}

void GenerationZero::stepped(const wire::Step& step, double start_seconds) {
  if (!started_with_) return;
  const Decision decision = *std::exchange(started_with_, std::nullopt);
  wire::Outcome outcome = outcome_of(context_.job, decision, "committed");
  outcome.kind = DecisionKind::start;
  outcome.generation = generations_.number();
  outcome.step = step.step - 1;
  outcome.plan = generations_.plan();
  outcome.phases_ms = {{"start", start_seconds * 1000}, {"first_step", step.seconds * 1000}};
  tell_own(decision, outcome);
  callbacks_.report(outcome);
}

}  // namespace espalier::launcher
