#include "tests/bench/planner/busy_cluster.hpp"

#include <algorithm>
#include <array>

#include "planner/core/error.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/solver/evaluator.hpp"

namespace espalier::bench {
namespace {

constexpr int kNodeGpus = 8, kRackNodes = 16;

Plan default_plan(const PaperJob& kind, int layers, int batch, int micro_batches, const std::vector<GpuId>& gpus) {
  Plan plan{batch, micro_batches, {}};
  std::size_t next = 0;
  for (int s = 0; s < kind.pp; ++s) {
    Stage stage{layers / kind.pp + (s < layers % kind.pp ? 1 : 0), kind.tp, {}};
    for (int j = 0; j < kind.dp; ++j) {
      Replica replica{plan.micro_batch() / kind.dp, {}};
      for (int t = 0; t < kind.tp; ++t) replica.gpus.push_back(gpus[next++]);
      stage.replicas.push_back(std::move(replica));
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace

BusyCluster::BusyCluster(int gpus, unsigned seed) : random_(seed), gpus_(gpus) {
  const int nodes = gpus / kNodeGpus;
  auto site = std::make_shared<Site>(paper_cluster(nodes, kRackNodes));
  for (int n = 0; n < nodes; ++n) {
    NodeView view;
    view.name = site->topology.name(n);
    view.gpu_type = "h100";
    char rack[16];
    std::snprintf(rack, sizeof rack, "rack%03d", n / kRackNodes);
    view.switches = {"spine", rack};
    view.gpu_owner.assign(kNodeGpus, 0);
    view.free_cpus = 128;
    view.free_memory_mb = 1 << 20;
    node_index_[view.name] = input_.cluster.nodes.size();
    input_.cluster.nodes.push_back(std::move(view));
  }
  input_.site = std::move(site);
  input_.now = 1e6;
  target_ = 0.95;
  for (int failed = 0; failed < 50 && load() < target_;) {
    if (!place(random_job())) ++failed;
  }
}

int BusyCluster::roll(int low, int high) {
  return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1));
}

// Sizes S : M : L : XL = 3 : 1 : 1 : 1. Jobs of one size are equally likely.
const PaperJob& BusyCluster::random_job() {
  constexpr std::array<JobSize, 6> kMix{JobSize::S, JobSize::S, JobSize::S, JobSize::M, JobSize::L, JobSize::XL};
  const JobSize size = kMix[static_cast<std::size_t>(roll(0, 5))];
  std::vector<const PaperJob*> of_size;
  for (const PaperJob& job : paper_jobs())
    if (job.size == size) of_size.push_back(&job);
  return *of_size[static_cast<std::size_t>(roll(0, static_cast<int>(of_size.size()) - 1))];
}

double BusyCluster::load() const { return static_cast<double>(basic_) / gpus_; }

NodeView& BusyCluster::node(const std::string& name) { return input_.cluster.nodes[node_index_.at(name)]; }

void BusyCluster::own(const GpuId& gpu, JobId owner) {
  node(gpu.node).gpu_owner[static_cast<std::size_t>(gpu.index)] = owner;
}

// One node: the fullest with enough room. Several nodes: idle ones, those of one rack first.
std::optional<std::vector<GpuId>> BusyCluster::find_gpus(int gpus) {
  const int per_node = std::min(gpus, kNodeGpus), wanted = gpus / per_node;
  std::map<std::string, std::vector<std::size_t>> racks;
  std::vector<std::size_t> fits;
  for (std::size_t n = 0; n < input_.cluster.nodes.size(); ++n)
    if (input_.cluster.nodes[n].idle_gpus() >= per_node) {
      fits.push_back(n);
      racks[input_.cluster.nodes[n].switches.back()].push_back(n);
    }
  if (static_cast<int>(fits.size()) < wanted) return std::nullopt;
  std::stable_sort(fits.begin(), fits.end(), [&](std::size_t a, std::size_t b) {
    const auto& x = input_.cluster.nodes[a];
    const auto& y = input_.cluster.nodes[b];
    const auto key = [&](const NodeView& v) {
      return std::tuple(v.idle_gpus(), -static_cast<int>(racks[v.switches.back()].size()), v.name);
    };
    return key(x) < key(y);
  });
  std::vector<GpuId> found;
  for (int n = 0; n < wanted; ++n) {
    const NodeView& view = input_.cluster.nodes[fits[static_cast<std::size_t>(n)]];
    int taken = 0;
    for (int gpu = 0; gpu < kNodeGpus && taken < per_node; ++gpu)
      if (view.gpu_owner[static_cast<std::size_t>(gpu)] == 0) found.push_back({view.name, gpu}), ++taken;
  }
  return found;
}

bool BusyCluster::place(const PaperJob& kind) {
  const auto gpus = find_gpus(kind.gpus());
  if (!gpus) return false;
  ElasticJob job;
  job.id = next_id_++;
  job.name = kind.model;
  job.min_gpus = kind.gpus();
  job.max_gpus = gpus_;
  job.accuracy = Accuracy::relaxed;
  job.model = paper_shape(kind);
  job.phase = JobPhase::running;
  const int batch = paper_batch(kind);
  JobCoefficients coefficients = paper_coefficients(kind, batch, input_.site->hardware);
  // The fastest micro-batch that fits, as a user would find it by trial.
  const PlanBounds bounds;
  Evaluator evaluator(Problem{input_.site->hardware, input_.site->topology, coefficients, bounds});
  Plan best;
  double fastest = kInfeasible;
  for (const int n : evaluator.micro_batch_counts()) {
    if (batch / n % kind.dp != 0) continue;
    const Plan plan = default_plan(kind, job.model.layers, batch, n, *gpus);
    const auto sketch = sketch_of(plan, *input_.site);
    if (evaluator.score_sketch(*sketch) >= kInfeasible) continue;
    const double ms = evaluator.exact_sketch(*sketch);
    if (ms < fastest) fastest = ms, best = plan;
  }
  if (fastest >= kInfeasible) throw Error(std::string(kind.model) + ": its default plan does not fit into memory");
  job.plan = best;
  job.step_seconds = fastest / 1000;
  for (const GpuId& gpu : *gpus) {
    if (job.anchor.empty() || job.anchor.back().node != gpu.node) job.anchor.push_back({job.id, gpu.node, {}});
    job.anchor.back().gpus.push_back(gpu.index);
    own(gpu, job.id);
  }
  basic_ += kind.gpus();
  input_.coefficients[job.id] = std::move(coefficients);
  input_.jobs.push_back(std::move(job));
  return true;
}

void BusyCluster::free_job(JobId slurm_job) {
  for (NodeView& view : input_.cluster.nodes)
    for (JobId& owner : view.gpu_owner)
      if (owner == slurm_job) owner = 0;
}

void BusyCluster::drop_job(std::size_t index) {
  const ElasticJob& job = input_.jobs[index];
  for (const Holding& held : job.anchor) basic_ -= static_cast<int>(held.gpus.size());
  free_job(job.id);
  for (const Holding& held : job.extensions) free_job(held.job);
  input_.coefficients.erase(job.id);
  input_.jobs.erase(input_.jobs.begin() + static_cast<std::ptrdiff_t>(index));
}

void BusyCluster::end_one() {
  if (input_.jobs.empty()) return;
  drop_job(static_cast<std::size_t>(roll(0, static_cast<int>(input_.jobs.size()) - 1)));
  input_.trigger = Trigger::gpus_released;
  input_.now += 60;
  target_ = 0.85 + 0.01 * roll(0, 10);
}

bool BusyCluster::submit_one() {
  input_.trigger = Trigger::job_submitted;
  input_.now += 60;
  if (waiting_ == nullptr) {
    if (load() >= target_) return false;
    waiting_ = &random_job();
    WaitingJob waiting;
    waiting.id = next_id_++;
    waiting.gpus = waiting_->gpus();
    waiting.nodes = std::max(1, waiting_->gpus() / kNodeGpus);
    input_.cluster.waiting.push_back(waiting);
  }
  input_.cluster.waiting.front().expected_start = input_.now + 7200;  // leases may end before that
  return true;
}

bool BusyCluster::start_waiting() {
  if (waiting_ != nullptr && !place(*waiting_)) return false;
  waiting_ = nullptr;
  input_.cluster.waiting.clear();
  return true;
}

void BusyCluster::apply(const std::vector<Decision>& decisions) {
  for (const Decision& decision : decisions) {
    auto job =
        std::find_if(input_.jobs.begin(), input_.jobs.end(), [&](const ElasticJob& j) { return j.id == decision.job; });
    if (job == input_.jobs.end()) continue;
    for (const JobId released : decision.release) {
      free_job(released);
      std::erase_if(job->extensions, [&](const Holding& held) { return held.job == released; });
    }
    for (const ExtensionRequest& request : decision.acquire) {
      Holding extension{next_id_++, request.node, {}};
      for (const GpuId& gpu : decision.plan.ranks())
        if (gpu.node == request.node && node(gpu.node).gpu_owner[static_cast<std::size_t>(gpu.index)] == 0) {
          extension.gpus.push_back(gpu.index);
          own(gpu, extension.job);
        }
      job->extensions.push_back(std::move(extension));
    }
    job->plan = decision.plan;
    job->step_seconds = decision.predicted_step_seconds;
    ++job->generation;
  }
}

double total_gain(const PlanningInput& input, const std::vector<Decision>& decisions) {
  double gain = 0;
  for (const Decision& decision : decisions)
    for (const ElasticJob& job : input.jobs)
      if (job.id == decision.job && decision.kind == DecisionKind::grow)
        gain += job.plan->gpu_count() * (job.step_seconds / decision.predicted_step_seconds - 1);
  return gain;
}

}  // namespace espalier::bench
