#include "planner/daemon/metrics/figures_collector.hpp"

#include <string>
#include <utility>

#include "planner/core/json.hpp"

namespace espalier {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  void begin(const char* name, const char* help, MetricType type = MetricType::Gauge) {
    MetricFamily family;
    family.name = name;
    family.help = help;
    family.type = type;
    all_.push_back(std::move(family));
  }
  template <class Number>
  void add(Labels labels, Number value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    (all_.back().type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = static_cast<double>(value);
    all_.back().metric.push_back(std::move(metric));
  }
  template <class Number>
  void one(const char* name, const char* help, Number value) {
    begin(name, help);
    add({}, value);
  }
  std::vector<MetricFamily> take() { return std::move(all_); }

 private:
  std::vector<MetricFamily> all_;
};

// Prometheus itself sets a label "job" for what it scrapes.
Labels job_labels(const JobFigures& row) {
  return {{"slurm_job", std::to_string(row.id)}, {"uid", std::to_string(row.uid)}};
}

void add_cluster(Families& families, const ClusterFigures& now) {
  families.begin("espalier_build_info", "The version of espalierd, as a label.");
  families.add({{"version", ESPALIER_VERSION}}, 1);
  families.one("espalier_slurm_up", "1 while slurmctld answers espalierd.", now.slurm_answers);
  families.one("espalier_slurm_answer_timestamp_seconds", "When slurmctld was last asked with success.",
               now.snapshot_time);
  families.begin("espalier_jobs", "Elastic jobs, by the phase of their launcher.");
  for (std::size_t phase = 0; phase < now.jobs.size(); ++phase)
    families.add({{"phase", to_string(static_cast<JobPhase>(phase))}}, now.jobs[phase]);
  families.one("espalier_jobs_connected", "Elastic jobs whose launcher is connected.", now.connected);
  families.one("espalier_jobs_held", "Elastic jobs that a user holds: they do not grow.", now.held);
  families.one("espalier_jobs_without_series", "Elastic jobs beyond [metrics] jobs, which have no series of their own.",
               now.rows_left_out);
  families.one("espalier_waiting_jobs", "Jobs of any kind that wait for GPUs.", now.waiting_jobs);
  families.one("espalier_waiting_gpus", "GPUs that the waiting jobs ask for.", now.wanted_gpus);
  families.begin("espalier_gpus",
                 "GPUs by what they do: lent (extensions), anchor (own GPUs of elastic jobs), other (of other jobs), "
                 "idle (free to be lent), freeing (of ended jobs), closed (free, on nodes that take no extension).");
  for (const auto& [state, gpus] : std::initializer_list<std::pair<const char*, std::size_t>>{{"lent", now.lent},
                                                                                              {"anchor", now.anchor},
                                                                                              {"other", now.other},
                                                                                              {"idle", now.idle},
                                                                                              {"freeing", now.freeing},
                                                                                              {"closed", now.closed}})
    families.add({{"state", state}}, gpus);
  families.one("espalier_unfit_gpus",
               "GPUs on which the workers of a running job died again and again, or that have errors.", now.unfit);
  families.one("espalier_store_bytes", "Text in the decision store that counts for planner.store_mb.", now.store_bytes);
}

void add_jobs(Families& families, const ClusterFigures& now) {
  families.begin("espalier_job_gpus", "GPUs of an elastic job: its anchor, and what it was lent.");
  for (const JobFigures& row : now.rows) {
    for (const bool lent : {false, true}) {
      Labels labels = job_labels(row);
      labels.push_back({"part", lent ? "lent" : "anchor"});
      families.add(std::move(labels), lent ? row.lent_gpus : row.anchor_gpus);
    }
  }
  families.begin("espalier_job_step", "Last completed step of an elastic job.");
  for (const JobFigures& row : now.rows) families.add(job_labels(row), row.step);
  families.begin("espalier_job_generation", "Generation that trains: how often the job was changed.");
  for (const JobFigures& row : now.rows) families.add(job_labels(row), row.generation);
  families.begin("espalier_job_step_seconds", "Measured time of a step of an elastic job.");
  for (const JobFigures& row : now.rows)
    if (row.step_seconds > 0) families.add(job_labels(row), row.step_seconds);
  families.begin("espalier_job_tokens_per_second", "Tokens that an elastic job trains on in a second.");
  for (const JobFigures& row : now.rows)
    if (row.tokens_per_second > 0) families.add(job_labels(row), row.tokens_per_second);
}

}  // namespace

void FiguresCollector::publish(ClusterFigures figures) {
  auto fresh = std::make_shared<const ClusterFigures>(std::move(figures));
  const std::lock_guard lock(mutex_);
  figures_.swap(fresh);
}

std::shared_ptr<const ClusterFigures> FiguresCollector::newest() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

std::vector<MetricFamily> FiguresCollector::Collect() const {
  const auto now = newest();
  Families families;
  add_cluster(families, *now);
  add_jobs(families, *now);
  return families.take();
}

}  // namespace espalier
