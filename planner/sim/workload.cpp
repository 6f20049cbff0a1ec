#include "planner/sim/workload.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"
#include "planner/sim/random.hpp"
#include "planner/sim/time_limits.hpp"

namespace espalier::sim {
namespace {

// Takes `count` of `all` in their order. All subsets are equally likely (Knuth's algorithm S).
std::vector<const TraceJob*> sample(const std::vector<const TraceJob*>& all, std::size_t count, Random& random) {
  std::vector<const TraceJob*> taken;
  for (std::size_t i = 0; i < all.size() && taken.size() < count; ++i)
    if (random.below(all.size() - i) < count - taken.size()) taken.push_back(all[i]);
  return taken;
}

class KindChoice {
 public:
  KindChoice(const std::vector<JobKind>& kinds, const WorkloadOptions& options) : kinds_(kinds), options_(options) {
    for (std::size_t k = 0; k < kinds.size(); ++k) by_size_[static_cast<std::size_t>(kinds[k].size)].push_back(k);
    for (std::size_t s = 0; s < by_size_.size(); ++s) {
      if (options.mapping == Mapping::random && options.mix[s] > 0 && by_size_[s].empty())
        throw Error("workload: the mix wants jobs of size " + std::string(std::array{"S", "M", "L", "XL"}[s]) +
                    ", and there is no such kind that fits the cluster; give that size 0, or another table of kinds");
      total_ += options.mix[s];
    }
    if (kinds.empty() || (options.mapping == Mapping::random && total_ <= 0))
      throw Error("workload: there is no kind of jobs to choose from; give a table that has some");
  }

  std::size_t choose(const TraceJob& job, Random& random) const {
    std::optional<std::size_t> named;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      if (job.model.empty() || kinds_[k].model != job.model) continue;
      // A measured model has a kind for each number of GPUs.
      if (!named || std::abs(kinds_[k].gpus() - job.gpus) < std::abs(kinds_[*named].gpus() - job.gpus)) named = k;
    }
    if (named) return *named;
    return options_.mapping == Mapping::gpus ? nearest(job.gpus, random) : any(random);
  }

 private:
  std::size_t any(Random& random) const {
    double at = random.real() * total_;
    std::size_t size = 0;
    while (size + 1 < by_size_.size() && (at >= options_.mix[size] || by_size_[size].empty()))
      at -= options_.mix[size++];
    const auto& list = by_size_[size];
    return list[static_cast<std::size_t>(random.below(list.size()))];
  }
  // The nearest kind by ratio. Of equally near kinds a random one.
  std::size_t nearest(int gpus, Random& random) const {
    const auto ratio = [&](std::size_t k) {
      const double a = kinds_[k].gpus(), b = gpus;
      return std::max(a, b) / std::min(a, b);
    };
    std::vector<std::size_t> best;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      if (!best.empty() && ratio(k) > ratio(best.front())) continue;
      if (!best.empty() && ratio(k) < ratio(best.front())) best.clear();
      best.push_back(k);
    }
    return best[static_cast<std::size_t>(random.below(best.size()))];
  }

  const std::vector<JobKind>& kinds_;
  const WorkloadOptions& options_;
  std::array<std::vector<std::size_t>, 4> by_size_;
  double total_ = 0;
};

bool same_type(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

// -1: no kind runs on such a type.
int type_named(const std::vector<JobKind>& kinds, const std::string& name) {
  for (const JobKind& kind : kinds)
    for (const BasicPlan& at : kind.on)
      if (!name.empty() && same_type(at.gpu_type, name)) return at.type;
  return -1;
}

// Sets the type that the job asks for. Where its kind cannot run on the type, and the model was measured on more GPUs
// of it, the job asks for the fewest of these; else for any type.
void ask_for_type(SimulatedJob& job, const TraceJob& traced, const std::vector<JobKind>& kinds, AskedTypes types,
                  long& adapted) {
  if (types == AskedTypes::any) return;
  job.type = type_named(kinds, traced.gpu_type);
  job.any_type = types == AskedTypes::preferred;
  if (job.type < 0 || kinds[job.kind].on_type(job.type) != nullptr) return;
  ++adapted;
  std::optional<std::size_t> more;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (kinds[k].measured && kinds[k].model == kinds[job.kind].model && kinds[k].gpus() > kinds[job.kind].gpus() &&
        kinds[k].on_type(job.type) != nullptr && (!more || kinds[k].gpus() < kinds[*more].gpus()))
      more = k;
  if (more) job.kind = *more;
  else job.type = -1;
}

// Each job has a draw of its own, which does not depend on the share.
void choose_elastic(std::vector<SimulatedJob>& jobs, const std::vector<JobKind>& kinds,
                    const WorkloadOptions& options) {
  Random random(options.seed + 0x9e3779b97f4a7c15ULL);
  const auto& sizes = options.elastic_gpus;
  for (SimulatedJob& job : jobs) {
    const bool drawn = random.real() < options.elastic_share;
    job.elastic =
        drawn && (sizes.empty() || std::find(sizes.begin(), sizes.end(), kinds[job.kind].gpus()) != sizes.end());
  }
}

// Each job has a draw of its own, which depends neither on the share nor on which jobs are elastic.
void choose_movable(std::vector<SimulatedJob>& jobs, const WorkloadOptions& options) {
  Random random(options.seed + 0x6a09e667f3bcc909ULL);
  for (SimulatedJob& job : jobs) {
    const bool drawn = random.real() < options.movable_share;
    job.movable = drawn && job.elastic;
  }
}

// Each job has a draw of its own, which does not depend on the range.
void set_deadlines(std::vector<SimulatedJob>& jobs, const std::vector<JobKind>& kinds, const WorkloadOptions& options) {
  if (options.deadline_high <= 0) return;
  Random random(options.seed + 0x3c6ef372fe94f82bULL);
  for (SimulatedJob& job : jobs) {
    const BasicPlan* at = kinds[job.kind].on_type(job.type);
    const double alone = job.iterations * (at != nullptr ? at->step_seconds : kinds[job.kind].step_seconds);
    job.deadline =
        job.submit + alone * (options.deadline_low + random.real() * (options.deadline_high - options.deadline_low));
  }
}

}  // namespace

Workload make_workload(const Trace& trace, const std::vector<JobKind>& kinds, int cluster_gpus,
                       const WorkloadOptions& options) {
  std::vector<const TraceJob*> window;
  for (const TraceJob& job : trace.jobs)
    if (job.submit >= options.from && job.submit < options.to) window.push_back(&job);
  const double share =
      options.scale * (options.trace_gpus > 0 ? static_cast<double>(cluster_gpus) / options.trace_gpus : 1);
  const auto count = static_cast<std::size_t>(std::llround(share * static_cast<double>(window.size())));
  if (window.empty())
    throw Error("workload: no job of the trace was submitted in the time that is to be simulated; choose another");
  if (count == 0)
    throw Error("workload: of " + counted(static_cast<std::int64_t>(window.size()), "job") +
                " none is left when they are sampled in proportion; raise the scale, or take all by --trace-gpus=0");
  if (count > window.size())
    throw Error("workload: " + std::to_string(count) + " jobs are wanted, the trace has " +
                std::to_string(window.size()) + " in the time that is to be simulated; lower the scale");
  Random random(options.seed);
  const KindChoice choice(kinds, options);
  Workload workload;
  workload.in_window = static_cast<long>(window.size());
  const auto sampled = sample(window, count, random);
  std::vector<double> limits;                            // time limit over run time in the trace; 0: none is given
  std::vector<bool> scaled;                              // whether a job's iterations follow from its run time
  double traced_seconds = 0, unscaled = 0, counted = 0;  // GPU time
  for (const TraceJob* traced : sampled) {
    SimulatedJob job;
    job.id = static_cast<JobId>(workload.jobs.size() + 1);
    job.submit = (traced->submit - sampled.front()->submit) / options.load;
    job.kind = choice.choose(*traced, random);
    job.trace_id = traced->id;
    ask_for_type(job, *traced, kinds, options.types, workload.adapted);
    const JobKind& kind = kinds[job.kind];
    const BasicPlan* at = kind.on_type(job.type);
    const double step = at != nullptr ? at->step_seconds : kind.step_seconds;
    if (traced->steps > 0 || (kind.measured && traced->measured_steps > 0)) {
      job.iterations = traced->steps > 0 ? traced->steps : traced->measured_steps;
      counted += job.iterations * step * kind.gpus();
      scaled.push_back(false);
    } else {
      const double seconds =
          options.mapping == Mapping::gpus ? traced->seconds * traced->gpus / kind.gpus() : traced->seconds;
      job.iterations = seconds / step;
      scaled.push_back(true);
      unscaled += seconds * kind.gpus();
      traced_seconds += traced->seconds * traced->gpus;
    }
    workload.jobs.push_back(std::move(job));
    limits.push_back(traced->seconds > 0 ? traced->limit / traced->seconds : 0);
  }
  for (std::size_t i = 0; i < sampled.size(); ++i)
    if (scaled[i]) workload.jobs[i].iterations *= traced_seconds / unscaled;
  workload.gpu_seconds = traced_seconds + counted;
  choose_elastic(workload.jobs, kinds, options);
  choose_movable(workload.jobs, options);
  set_deadlines(workload.jobs, kinds, options);
  set_time_limits(workload.jobs, kinds, limits, options.seed);
  return workload;
}

}  // namespace espalier::sim
