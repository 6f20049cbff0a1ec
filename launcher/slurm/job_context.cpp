#include "launcher/slurm/job_context.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "launcher/process/resource_limits.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/step_share.hpp"
#include "launcher/slurm/unanswered.hpp"
#include "launcher/world/container.hpp"
#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/wire/munge_check.hpp"

namespace espalier::launcher {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <class Number>
Number number(const char* name, Number low, Number high, Number fallback) {
  const std::string text = variable(name);
  if (text.empty()) return fallback;
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw Error(std::string(name) + "=\"" + text + "\": no number between " + std::to_string(low) + " and " +
                std::to_string(high) + "; do not set it by hand");
  return value;
}

// "YYYY-MM-DDTHH:MM:SS" in local time, as the plugin writes it.
double deadline_of(const std::string& text) {
  if (text.empty()) return 0;
  std::tm time{};
  std::istringstream in(text);
  in >> std::get_time(&time, "%Y-%m-%dT%H:%M:%S");
  time.tm_isdst = -1;
  const std::time_t seconds = in.fail() ? -1 : std::mktime(&time);
  if (seconds <= 0) throw Error("ESPALIER_DEADLINE=\"" + text + "\": no time; do not set it by hand");
  return static_cast<double>(seconds);
}

// "h100+a100", as the plugin writes it.
std::set<std::string> types_of(const std::string& text) {
  std::set<std::string> types;
  std::istringstream in(text);
  for (std::string type; std::getline(in, type, '+');)
    if (!type.empty()) types.insert(type);
  return types;
}

// With time= the time for which the job waits for its base does not count. So the job itself must not end before.
void check_own_limit(const JobContext& context, long own) {
  if (context.base_minutes == 0) return;
  const long most = partition_minutes(context.partition);
  // Slurm shows a job without a limit for a moment as one of a year, while its backfill scheduler looks at it.
  constexpr long kYear = 365 * 24 * 60;
  if (own == 0 || own >= (most != 0 ? most : kYear)) return;
  throw Error("job " + std::to_string(context.job) +
              ": time= limits what its bases run, and the submitted job's own limit must be the partition's maximum, " +
              (most == 0 ? "unlimited" : std::to_string(most) + " minutes") + ", but it is " + std::to_string(own) +
              " minutes; submit it with --time=" + (most == 0 ? "UNLIMITED" : std::to_string(most)) +
              ", or leave time= out");
}

// Its base holds the GPUs, and comes later.
void complete_movable(JobContext& context) {
  if (!context.anchor_gpus().empty())
    throw Error("job " + std::to_string(context.job) + ": a movable job requests no GPUs itself, but this one holds " +
                std::to_string(context.anchor_gpus().size()) +
                "; leave out --gres and --gpus: Espalier submits a job with MIN GPUs, its base");
  context.base_partition = context.partition;
  const auto nodes = partition_nodes(context.partition);
  if (std::none_of(nodes.begin(), nodes.end(), [](const NodeCapacity& node) { return node.gpus > 0; })) {
    if (context.config.base_partition.empty())
      throw Error(
          "job " + std::to_string(context.job) + ": partition " + context.partition +
          " has no GPUs for the job's base; submit it to a partition with GPUs (or the site names one for bases: "
          "launch.base_partition in espalier.toml)");
    context.base_partition = context.config.base_partition;
  }
  context.base_most_minutes = partition_minutes(context.base_partition);
  if (context.min_gpus < 1) throw Error("ESPALIER_MIN: a movable job needs MIN; do not set it by hand");
  if (context.max_gpus == 0) context.max_gpus = context.config.max_gpus;
  context.max_gpus = std::max(std::min(context.max_gpus, context.config.max_gpus), context.min_gpus);
  if (context.base_gpus == 0) context.base_gpus = context.min_gpus;
  if (context.base_gpus < context.min_gpus || context.base_gpus > context.max_gpus)
    throw Error("ESPALIER_BASE=\"" + std::to_string(context.base_gpus) + "\": the base needs MIN to " +
                std::to_string(context.max_gpus) + " GPUs; give base= of --elastic so");
  context.anchor.clear();
}

}  // namespace

bool is_movable() { return variable("ESPALIER_MOVABLE") == "1"; }

std::vector<GpuId> JobContext::anchor_gpus() const {
  std::vector<GpuId> gpus;
  for (const Holding& holding : anchor)
    for (const int index : holding.gpus) gpus.push_back({holding.node, index});
  return gpus;
}

JobContext read_context(std::vector<std::string> program) {
  JobContext context;
  context.config = wire::load_config();
  context.job = number<JobId>("SLURM_JOB_ID", 1, 0xfffffffeu, 0);
  if (context.job == 0) throw Error("SLURM_JOB_ID: not set; espalier-launch is started by srun --elastic, not by hand");
  // From Slurm 26.05 on, steps that Slurm starts itself have negative numbers here, e.g. -5 for a batch script. The
  // bits of the number are the step id that other releases write.
  context.step = static_cast<unsigned>(number<std::int64_t>("SLURM_STEP_ID", -16, 0xffffffff, 0));
  context.node = variable("SLURMD_NODENAME");
  if (context.node.empty()) throw Error("SLURMD_NODENAME: not set; espalier-launch runs in a Slurm step");
  context.self = std::filesystem::read_symlink("/proc/self/exe").string();
  context.program = std::move(program);
  context.limits = resource_limits();
  context.container = container_options(variable("ESPALIER_PYXIS"));
  if (!context.container.empty()) {
    context.config.start_seconds += kImageSeconds;
    context.config.protocol_seconds += kImageSeconds;  // counts from before the image is made
  }
  context.node_setup = variable("ESPALIER_NODE_SETUP");
  if (!context.node_setup.empty()) {
    context.config.start_seconds += context.config.node_setup_seconds;
    context.config.protocol_seconds += context.config.node_setup_seconds;
  }
  context.min_gpus = number<int>("ESPALIER_MIN", 0, 1000000, 0);
  context.max_gpus = number<int>("ESPALIER_MAX", 0, 1000000, 0);
  context.floor_gpus = context.min_gpus;
  context.deadline = deadline_of(variable("ESPALIER_DEADLINE"));
  context.movable = is_movable();
  if (context.movable) {
    context.types = types_of(variable("ESPALIER_TYPES"));
    context.base_gpus = number<int>("ESPALIER_BASE", 0, 1000000, 0);
    context.base_minutes = number<long>("ESPALIER_TIME", 0, 36500 * 1440L, 0);
  }
  if (const std::string accuracy = variable("ESPALIER_ACCURACY"); !accuracy.empty()) {
    context.accuracy = accuracy_from(accuracy);
    context.accuracy_given = true;
  }
  return context;
}

void complete(JobContext& context) {
  const auto job = load_job(context.job);
  if (!job) throw Error("slurm: job " + std::to_string(context.job) + " is unknown");
  context.site = load_site(context.config.extension_qos);
  if (const std::string problem = wire::munge_problem(); !problem.empty()) {
    const std::string words = wire::without_munge(context.site.auth_type, problem);
    if (wire::lacks_munge(context.site.auth_type, problem)) throw Error(words);
    throw Unanswered(words);  // Slurm needs MUNGE as well, so munged will be back
  }
  context.name = job->name;
  context.account = job->account;
  context.features = job->features;
  context.reservation = job->reservation;
  context.wckey = job->wckey;
  context.nice = std::max(0, job->nice);  // a user cannot ask for less
  context.typed_gpus = job->typed_gpus;
  context.anchor = job->holdings;
  context.partition = job->partition;
  context.qos = job->qos;
  context.ends = job->ends;
  context.limit_minutes = job->limit_minutes;
  context.restarts = job->restarts;
  context.may_be_requeued = job->may_be_requeued;
  if (context.movable) check_own_limit(context, job->limit_minutes);
  if (context.movable) return complete_movable(context);
  const StepShare share = share_of_step();
  context.bound_gpus = share.bound;
  if (const std::string lack = lack_of(share, context.anchor, context.node); !lack.empty())
    throw Error("job " + std::to_string(context.job) + ": step " + std::to_string(context.step) + " lacks " + lack +
                ", and an elastic step has all GPUs of its job; leave out options of srun that ask for fewer, or "
                "submit each step as a job of its own");
  context.base = context.job;
  std::vector<std::string> names;
  for (const Holding& held : context.anchor) names.push_back(held.node);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  context.nodes = load_nodes(names);
  const int gpus = static_cast<int>(context.anchor_gpus().size());
  if (context.min_gpus == 0) context.min_gpus = gpus;
  if (context.max_gpus == 0) context.max_gpus = context.config.max_gpus;
  context.max_gpus = std::max(std::min(context.max_gpus, context.config.max_gpus), gpus);
  context.min_gpus = std::min(context.min_gpus, gpus);
  context.floor_gpus = std::min(context.floor_gpus, gpus);
}

std::string vault_prefix(JobId job, unsigned step) {
  return "espalier-vault-" + std::to_string(job) + "." + std::to_string(step);
}

std::string vault_prefix(const JobContext& context) {
  return context.movable ? "espalier-vault-" + std::to_string(context.job) + ".movable"
                         : vault_prefix(context.job, context.step);
}

}  // namespace espalier::launcher
