#include "tests/bench/planner/busy_cluster.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/core/topology/from_view.hpp"
#include "tests/bench/planner/typed_cluster.hpp"

namespace espalier::bench {
namespace {

constexpr uid_t kUser = 1000;
constexpr int kTries = 50;  // draws of a job that are in vain before no other is tried

// The connection to a launcher, which is asked for nothing here.
class SilentLink final : public wire::Connection {
 public:
  const wire::Peer& peer() const override { return peer_; }
  void send(const wire::Frame&) override {}
  void close() override {}
  void limit_frames(std::size_t, wire::Loop::Milliseconds) override {}

 private:
  wire::Peer peer_;
};

SlurmJob running_job(JobId id, std::string comment, const char* partition, std::vector<Holding> holdings) {
  SlurmJob job;
  job.id = id;
  job.uid = kUser;
  job.comment = std::move(comment);
  job.partition = partition;
  job.state = SlurmJobState::running;
  job.holdings = std::move(holdings);
  return job;
}

std::vector<Holding> holdings_of(JobId id, const std::vector<GpuId>& gpus) {
  std::vector<Holding> holdings;
  for (const GpuId& gpu : gpus) {
    if (holdings.empty() || holdings.back().node != gpu.node) holdings.push_back({id, gpu.node, {}});
    holdings.back().gpus.push_back(gpu.index);
  }
  return holdings;
}

std::set<GpuId> gpus_in(const std::vector<Holding>& holdings) {
  std::set<GpuId> gpus;
  for (const Holding& held : holdings)
    for (const int index : held.gpus) gpus.insert({held.node, index});
  return gpus;
}

}  // namespace

BusyCluster::BusyCluster(const BusyOptions& options)
    : options_(options), random_(options.seed), link_(std::make_shared<SilentLink>()) {
  if (!(options.movable >= 0 && options.movable <= 1))
    throw Error("--movable " + std::to_string(options.movable) + ": the share of the jobs is from 0 to 1");
  TypedCluster made = typed_cluster(options.gpus, options.types);
  hardware_ = std::move(made.hardware);
  slurm_.cluster = std::move(made.view);
  site_ = std::make_shared<const Site>(site_from_view(slurm_.cluster, {}, hardware_).site);
  kinds_ = sim::paper_kinds(*site_, slurm_.cluster);
  for (std::size_t n = 0; n < slurm_.cluster.nodes.size(); ++n) {
    const NodeView& one = slurm_.cluster.nodes[n];
    node_index_[one.name] = n;
    nodes_of_type_[one.gpu_type].push_back(one.name);
  }
  slurm_.time = 1e6;
  for (int failed = 0; failed < kTries && load() < target_;) failed = place(random_wish()) ? 0 : failed + 1;
}

int BusyCluster::roll(int low, int high) {
  return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1));
}

// Sizes S : M : L : XL = 3 : 1 : 1 : 1, of those that the cluster can hold. Jobs of one size are equally likely, and so
// are the types of GPU that a job can run on.
BusyCluster::Wish BusyCluster::random_wish() {
  using sim::JobSize;
  constexpr std::array<JobSize, 6> kMix{JobSize::S, JobSize::S, JobSize::S, JobSize::M, JobSize::L, JobSize::XL};
  std::vector<const sim::JobKind*> of_size;
  while (of_size.empty()) {
    const JobSize size = kMix[static_cast<std::size_t>(roll(0, 5))];
    for (const sim::JobKind& kind : kinds_)
      if (kind.size == size) of_size.push_back(&kind);
  }
  Wish wish;
  wish.kind = of_size[static_cast<std::size_t>(roll(0, static_cast<int>(of_size.size()) - 1))];
  const auto& on = wish.kind->on;
  wish.on = &on[on.size() > 1 ? static_cast<std::size_t>(roll(0, static_cast<int>(on.size()) - 1)) : 0];
  wish.movable = options_.movable > 0 && roll(0, 999'999) < std::lround(options_.movable * 1e6);
  if (wish.movable && roll(0, 1) == 1)
    for (const sim::BasicPlan& one : on)
      if (one.type == wish.on->type || roll(0, 1) == 1) wish.types.push_back(one.gpu_type);
  return wish;
}

int BusyCluster::node_gpus(const std::string& type) const {
  const std::string& any = nodes_of_type_.at(type).front();
  return static_cast<int>(slurm_.cluster.nodes[node_index_.at(any)].gpu_owner.size());
}

int BusyCluster::idle_gpus() const {
  int sum = 0;
  for (const NodeView& one : slurm_.cluster.nodes) sum += one.idle_gpus();
  return sum;
}

std::vector<int> BusyCluster::idle_on(const std::string& name, int gpus) const {
  const auto& owners = slurm_.cluster.nodes[node_index_.at(name)].gpu_owner;
  std::vector<int> idle;
  for (std::size_t i = 0; i < owners.size() && static_cast<int>(idle.size()) < gpus; ++i)
    if (owners[i] == 0) idle.push_back(static_cast<int>(i));
  return idle;
}

// One node: the fullest with enough room. Several nodes: those with room, the emptiest leaf switch first.
std::optional<std::vector<GpuId>> BusyCluster::find_gpus(int gpus, const std::string& type) const {
  const int per_node = std::min(gpus, node_gpus(type)), wanted = gpus / per_node;
  std::map<std::string, int> leaves;
  std::vector<const NodeView*> fits;
  for (const std::string& name : nodes_of_type_.at(type))
    if (const NodeView& one = slurm_.cluster.nodes[node_index_.at(name)]; one.idle_gpus() >= per_node) {
      fits.push_back(&one);
      ++leaves[one.switches.back()];
    }
  if (static_cast<int>(fits.size()) < wanted) return std::nullopt;
  const auto key = [&](const NodeView& one) {
    return std::tuple(one.idle_gpus(), -leaves[one.switches.back()], std::cref(one.name));
  };
  std::stable_sort(fits.begin(), fits.end(), [&](const NodeView* a, const NodeView* b) {
    const auto x = key(*a), y = key(*b);
    return std::tie(std::get<0>(x), std::get<1>(x), std::get<2>(x).get()) <
           std::tie(std::get<0>(y), std::get<1>(y), std::get<2>(y).get());
  });
  std::vector<GpuId> found;
  for (int n = 0; n < wanted; ++n) {
    const std::string& name = fits[static_cast<std::size_t>(n)]->name;
    for (const int index : idle_on(name, per_node)) found.push_back({name, index});
  }
  return found;
}

void BusyCluster::run(SlurmJob job) {
  for (const Holding& held : job.holdings)
    for (const int index : held.gpus) node(held.node).gpu_owner[static_cast<std::size_t>(index)] = job.id;
  const JobId id = job.id;
  slurm_.jobs[id] = std::move(job);
}

void BusyCluster::end(JobId slurm_job) {
  for (const Holding& held : slurm_.jobs.at(slurm_job).holdings)
    for (const int index : held.gpus) node(held.node).gpu_owner[static_cast<std::size_t>(index)] = 0;
  slurm_.jobs.erase(slurm_job);
}

bool BusyCluster::place(const Wish& wish) {
  const auto gpus = find_gpus(wish.kind->gpus(), wish.on->gpu_type);
  if (!gpus) return false;
  LiveJob live;
  ElasticJob& job = live.job;
  job.id = next_id_++;
  job.uid = kUser;
  job.name = wish.kind->model;
  job.min_gpus = wish.kind->gpus();
  job.max_gpus = options_.gpus;
  job.accuracy = Accuracy::relaxed;
  job.model = wish.kind->shape;
  job.phase = JobPhase::running;
  job.plan = basic_plan(*wish.kind, *gpus, wish.on->gpu_type);
  job.step_seconds =
      evaluate_plan(site_->hardware, site_->topology, wish.kind->coefficients, *job.plan).exact_ms / 1000;
  live.link = link_;
  live.profiles.recall(*site_, wish.kind->coefficients);
  live.movable = wish.movable;
  live.types = wish.types;
  const JobId base = wish.movable ? next_id_++ : job.id;
  job.anchor = holdings_of(base, *gpus);
  run(running_job(job.id, {}, "main", wish.movable ? std::vector<Holding>{} : job.anchor));
  if (wish.movable) {
    run(running_job(base, "espalier:base:" + std::to_string(job.id) + ":1", "main", job.anchor));
    live.bases = {base};
  }
  basic_ += wish.kind->gpus();
  const JobId id = job.id;
  jobs_[id] = std::move(live);
  return true;
}

void BusyCluster::end_one() {
  trigger_ = Trigger::gpus_released;
  slurm_.time += 60;
  if (jobs_.empty()) return;
  const auto ended = std::next(jobs_.begin(), roll(0, static_cast<int>(jobs_.size()) - 1));
  const ElasticJob& job = ended->second.job;
  basic_ -= espalier::gpus_of(job.anchor);
  for (const Holding& held : job.extensions) end(held.job);
  if (const JobId base = base_of(job); base != 0) end(base);
  end(job.id);
  jobs_.erase(ended);
  target_ = 0.85 + 0.01 * roll(0, 10);
}

bool BusyCluster::expects_job() const { return static_cast<int>(waiting_.size()) < options_.types && load() < target_; }

std::optional<BusyCluster::Wish> BusyCluster::wish_of_free_type() {
  for (int tries = 0; tries < kTries; ++tries) {
    Wish wish = random_wish();
    if (std::none_of(waiting_.begin(), waiting_.end(),
                     [&](const auto& one) { return one.second.on->type == wish.on->type; }))
      return wish;
  }
  return std::nullopt;
}

void BusyCluster::wait(Wish wish) {
  WaitingJob waiting;
  waiting.id = next_id_++;
  waiting.gpus = wish.kind->gpus();
  waiting.nodes = std::max(1, waiting.gpus / node_gpus(wish.on->gpu_type));
  if (options_.types > 1) waiting.only_nodes = nodes_of_type_.at(wish.on->gpu_type);
  waiting_[waiting.id] = std::move(wish);
  SlurmJob& job = slurm_.jobs[waiting.id];
  job.id = waiting.id;
  job.partition = "main";
  job.wanted_gpus = waiting.gpus;
  slurm_.cluster.waiting.push_back(std::move(waiting));
}

bool BusyCluster::submit_one() {
  trigger_ = Trigger::job_submitted;
  slurm_.time += 60;
  if (expects_job())
    if (auto wish = wish_of_free_type()) wait(std::move(*wish));
  for (WaitingJob& waiting : slurm_.cluster.waiting)
    waiting.expected_start = slurm_.time + 7200;  // leases may end before that
  return !waiting_.empty();
}

bool BusyCluster::start_waiting() {
  return std::erase_if(waiting_, [&](const auto& one) {
           const JobId id = one.first;
           if (!place(one.second)) return false;
           std::erase_if(slurm_.cluster.waiting, [&](const WaitingJob& waiting) { return waiting.id == id; });
           slurm_.jobs.erase(id);
           return true;
         }) > 0;
}

void BusyCluster::apply(const std::vector<Decision>& decisions) {
  for (const Decision& decision : decisions) {
    const auto live = jobs_.find(decision.job);
    if (live == jobs_.end()) continue;
    if (moves_base(decision)) move(live->second, decision);
    else change(live->second, decision);
    live->second.last_change = slurm_.time;
    ++live->second.job.generation;
  }
}

void BusyCluster::change(LiveJob& live, const Decision& decision) {
  ElasticJob& job = live.job;
  for (const JobId released : decision.release) {
    end(released);
    std::erase_if(job.extensions, [&](const Holding& held) { return held.job == released; });
  }
  for (const ExtensionRequest& request : decision.acquire) {
    Holding extension{next_id_++, request.node, {}};
    for (const GpuId& gpu : decision.plan.ranks())
      if (gpu.node == request.node && node(gpu.node).gpu_owner[static_cast<std::size_t>(gpu.index)] == 0)
        extension.gpus.push_back(gpu.index);
    run(running_job(extension.job, "espalier:ext:" + std::to_string(job.id) + ":1", kPartition, {extension}));
    job.extensions.push_back(std::move(extension));
  }
  job.plan = decision.plan;
  job.step_seconds = decision.predicted_step_seconds;
}

// A plan that keeps a GPU of the first base is left at once for one without it, as the launcher does when the second
// base runs.
void BusyCluster::move(LiveJob& live, const Decision& decision) {
  ElasticJob& job = live.job;
  const JobId left = base_of(job), base = next_id_++;
  const std::set<GpuId> before = gpus_in(job.anchor);
  std::vector<GpuId> after;
  for (const ExtensionRequest& request : decision.acquire)
    for (const int index : idle_on(request.node, request.gpus)) after.push_back({request.node, index});
  job.anchor = holdings_of(base, after);
  run(running_job(base, "espalier:base:" + std::to_string(job.id) + ":1", "main", job.anchor));
  end(left);
  live.bases = {base};
  live.moves.push_back(slurm_.time);
  job.plan = decision.plan;
  const PlanningBasis known{*site_, live.profiles.coefficients(*site_)};
  const auto ranks = decision.plan.ranks();
  if (std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) { return before.contains(gpu); })) {
    for (const GpuId& gpu : ranks)
      if (!before.contains(gpu) && std::find(after.begin(), after.end(), gpu) == after.end()) after.push_back(gpu);
    job.plan = plan_on_subset(job, after, &known);
    if (!job.plan) throw Error("job " + std::to_string(job.id) + ": has no plan on its second base alone");
  }
  job.step_seconds = evaluate_plan(site_->hardware, site_->topology, *known.coefficients, *job.plan).exact_ms / 1000;
}

}  // namespace espalier::bench
