#include "planner/cli/simulate_arguments.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "planner/cli/arguments.hpp"
#include "planner/cli/preset_clusters.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/traces/rows.hpp"

namespace espalier::cli {
namespace {

using sim::split;

double real(const std::string& option, const std::string& text, double low, double high) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = !text.empty() && error == std::errc() && end == text.data() + text.size();
  if (number && value >= low && value <= high) return value;
  char range[80];
  std::snprintf(range, sizeof range, "between %g and %g", low, high);
  if (!number || !std::isfinite(value))
    throw UsageError(option + ": \"" + text + "\" is no number; write one " + range);
  throw UsageError(option + ": must be " + range);
}

double time_option(const std::string& option, const std::string& text) {
  const auto time = sim::parse_time_or_date(text);
  if (!time)
    throw UsageError(option + ": \"" + text + "\" is no time; write 2017-10-04, 2017-10-04T23:41:46 or seconds");
  return *time;
}

std::array<double, 4> mix(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() < 3 || parts.size() > 4)
    throw UsageError("--mix: \"" + text + "\" is no mix; write S:M:L or S:M:L:XL, as 3:1:1");
  std::array<double, 4> result{};
  double sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) sum += result[i] = real("--mix", parts[i], 0, 1e6);
  if (sum <= 0) throw UsageError("--mix: one of the parts must be above zero");
  return result;
}

sim::QueueOrder queue_order(const std::string& text) {
  if (text == "fifo") return sim::QueueOrder::fifo;
  if (text == "sjf") return sim::QueueOrder::sjf;
  if (text == "backfill") return sim::QueueOrder::backfill;
  if (text == "slurm") return sim::QueueOrder::slurm;
  throw UsageError("--queue: \"" + text + "\" is no order; use fifo, sjf, backfill or slurm");
}

sim::AskedTypes asked_types(const std::string& text) {
  if (text == "asked") return sim::AskedTypes::asked;
  if (text == "preferred") return sim::AskedTypes::preferred;
  if (text == "any") return sim::AskedTypes::any;
  throw UsageError("--types: \"" + text + "\" is none; use asked, preferred or any");
}

ObjectiveKind objective(const std::string& option, const std::string& text) {
  if (const auto kind = objective_from(text)) return *kind;
  std::string names;
  for (const std::string& name : objective_names()) names += (names.empty() ? "" : ", ") + name;
  throw UsageError(option + ": \"" + text + "\" is none; use one of " + names);
}

void set_deadlines(sim::WorkloadOptions& workload, const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() != 2) throw UsageError("--deadlines: \"" + text + "\" is no range; write LOW:HIGH, as 0.5:1.5");
  workload.deadline_low = real("--deadlines", parts[0], 0.01, 1000);
  workload.deadline_high = real("--deadlines", parts[1], 0.01, 1000);
  if (workload.deadline_low > workload.deadline_high)
    throw UsageError("--deadlines: the first number must not be above the second");
}

// A number of hours, or a number with a unit: 8, 8h, 1d.
double hours(const std::string& text) {
  if (text.empty()) throw UsageError("--busiest: needs hours, as 8h");
  const char unit = text.back();
  const std::string number = unit == 'h' || unit == 'd' ? text.substr(0, text.size() - 1) : text;
  return real("--busiest", number, 1e-3, 1e6) * (unit == 'd' ? 24 : 1);
}

std::vector<int> gpu_counts(const std::string& text) {
  std::vector<int> counts;
  for (const std::string& one : split(text, ',')) {
    const double count = real("--elastic-gpus", one, 1, 1e6);
    if (count != std::floor(count)) throw UsageError("--elastic-gpus: \"" + one + "\" is no whole number");
    counts.push_back(static_cast<int>(count));
  }
  return counts;
}

std::string policy_list() {
  std::string list;
  for (const std::string& name : sim::policy_names()) list += (list.empty() ? "" : ", ") + name;
  return list + ", " + kBound;
}

std::vector<std::string> policies(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& name : split(text, ',')) {
    const auto& known = sim::policy_names();
    if (name != kBound && std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError("--policy: \"" + name + "\": no such policy; use one of " + policy_list());
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw UsageError("--policy: " + name + " is named twice; name it once");
    names.push_back(name);
  }
  return names;
}

}  // namespace

void set_swept(SimulateArguments& arguments, const std::string& key, const std::string& value) {
  const std::string option = "--sweep " + key;
  if (key == "bandwidth") arguments.bandwidth = real(option, value, 1e-4, 100);
  else if (key == "elastic-share") arguments.workload.elastic_share = real(option, value, 0, 1);
  else if (key == "movable") arguments.workload.movable_share = real(option, value, 0, 1);
  else if (key == "load") arguments.workload.load = real(option, value, 0.01, 100);
  else if (key == "scale") arguments.workload.scale = real(option, value, 1e-6, 1e6);
  else if (key == "mix") arguments.workload.mix = mix(value);
  else if (key == "lambda") arguments.lambda = real(option, value, 0, 100);
  else if (key == "trade") arguments.trade = real(option, value, 0, 100);
  else if (key == "short-first") arguments.short_first = real(option, value, 0, 4);
  else if (key == "objective") arguments.objective = objective(option, value);
  else if (key == "queue") arguments.queue = queue_order(value);
  else if (key == "error") arguments.prediction_error = real(option, value, 0, 1);
  else if (key == "seed") arguments.workload.seed = static_cast<std::uint64_t>(real(option, value, 0, 1e9));
  else if (key == "trace") arguments.trace = value;
  else
    throw UsageError(
        "--sweep: \"" + key +
        "\" cannot be swept; use bandwidth, load, scale, mix, elastic-share, movable, lambda, short-first, "
        "trade, objective, queue, trace, error or seed");
}

std::optional<SimulateArguments> parse_simulate(const std::vector<std::string>& words, std::string& help) {
  CLI::App app("What elasticity would do for a cluster: plays a trace of jobs under one or several policies.",
               "espalier simulate");
  SimulateArguments result;
  std::string policy, from, to, busiest, mapping, job_mix, queue, scale, load, lambda, error, bandwidth, sweep, seed,
      trace_gpus, short_first, trade, idle_seconds, elastic_share, elastic_gpus, movable, types, aim, deadlines;
  app.add_option("--cluster", result.cluster,
                 "nodes, GPUs and switches: a file, " + preset_names() + ", or slurm: this one");
  app.add_option("--trace", result.trace, "jobs: a file, which may be gzipped");
  app.add_option("--format", result.format, "of the trace: csv, sacct, philly, philly-json, helios, pai, arena");
  app.add_option("--jobs", result.jobs, "table of the kinds of jobs; else Suika's Tab. 1");
  app.add_option("--profile", result.profile,
                 "instead: measured iteration times of models by GPU type, as Arena's profile.csv");
  app.add_option("--types", types, "GPU types that the trace names: asked, preferred or any (asked)");
  app.add_option("--config", result.config,
                 "espalier.toml: the planner's settings, of suika, suika-dp, flextrain, flextrain-dp, arena-anchored "
                 "and espalier");
  app.add_option("--policy", policy, "one or several of " + policy_list());
  app.add_option("--seed", seed, "of the sampling and of injected errors (1)");
  app.add_option("--from", from, "jobs submitted from then on: a date or seconds");
  app.add_option("--to", to, "and before then");
  app.add_option("--busiest", busiest, "instead: so many hours in which most jobs were submitted, as 8h");
  app.add_option("--trace-gpus", trace_gpus,
                 "GPUs of the cluster the trace is from: it is sampled in proportion; 0: not");
  app.add_option("--scale", scale, "times so many jobs (1)");
  app.add_option("--load", load, "divides the time between submissions (1)");
  app.add_option("--mix", job_mix, "of sizes, S:M:L or S:M:L:XL (3:1:1)");
  app.add_option("--elastic-share", elastic_share, "share of the jobs that are elastic, chosen at random (1)");
  app.add_option("--elastic-gpus", elastic_gpus, "of the jobs of these GPU counts alone, as 32,64; the others are not");
  app.add_option("--movable", movable,
                 "share of the elastic jobs that are movable under espalier and arena-anchored (0)");
  app.add_option("--mapping", mapping, "kinds of jobs at random, or the nearest by gpus");
  app.add_option("--queue", queue, "order of the base queue: fifo, sjf, backfill or slurm (fifo)");
  app.add_option("--lambda", lambda, "boldness of scale-outs (1)");
  app.add_option("--trade", trade,
                 "of espalier: extensions go to a job that gains so many times as much (2; below 1: never)");
  app.add_option("--objective", aim, "of espalier: throughput, jct, deadline or fairness (jct)");
  app.add_option(
      "--deadlines", deadlines,
      "LOW:HIGH: each job has a deadline, at so many times its time alone on its own GPUs, drawn by the seed");
  app.add_option("--short-first", short_first,
                 "of espalier: how much jobs with little work left come first, from 0 to 4 (1)");
  app.add_option("--idle-seconds", idle_seconds,
                 "of espalier: how long idle GPUs are taken to stay idle, instead of a forecast from submissions");
  app.add_option("--error", error, "deviation of what policies know of jobs, as 0.1 (0)");
  app.add_option("--bandwidth", bandwidth, "factor on the bandwidth between nodes (1)");
  app.add_option("--sweep", sweep, "KEY=V1,V2,...: once for each value");
  app.add_flag("--json", result.json, "JSON, with every figure");
  app.add_flag("--latency", result.latency, "with the time that decisions took");
  app.add_flag("--quiet", result.quiet, "no progress on standard error");
  app.add_option("--report", result.report, "folder for a page with plots");
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    help = app.help() +
           "\nespalier-simulate(1) tells more. Exit status: 0 done, 1 a wrong file or policy, 2 wrong usage.\n";
    return std::nullopt;
  } catch (const CLI::ParseError& wrong) {
    throw UsageError(std::string("simulate: ") + wrong.what());
  }
  if (result.cluster.empty()) throw UsageError("simulate: needs --cluster=FILE");
  if (result.trace.empty()) throw UsageError("simulate: needs --trace=FILE");
  if (policy.empty()) throw UsageError("simulate: needs --policy=P[,P...], of " + policy_list());
  result.policies = policies(policy);
  if (!from.empty()) result.from = time_option("--from", from);
  if (!to.empty()) result.to = time_option("--to", to);
  if (result.from && result.to && *result.from >= *result.to)
    throw UsageError("--to: is not after --from; name a later time");
  if (!busiest.empty()) {
    if (result.from || result.to) throw UsageError("--busiest: not beside --from or --to; leave one of them out");
    result.busiest_hours = hours(busiest);
  }
  if (!trace_gpus.empty()) result.trace_gpus = static_cast<int>(real("--trace-gpus", trace_gpus, 0, 1 << 24));
  if (mapping == "random") result.mapping = sim::Mapping::random;
  else if (mapping == "gpus") result.mapping = sim::Mapping::gpus;
  else if (!mapping.empty()) throw UsageError("--mapping: \"" + mapping + "\" is none; use random or gpus");
  if (!job_mix.empty()) result.workload.mix = mix(job_mix);
  if (!elastic_share.empty()) result.workload.elastic_share = real("--elastic-share", elastic_share, 0, 1);
  if (!elastic_gpus.empty()) result.workload.elastic_gpus = gpu_counts(elastic_gpus);
  if (!movable.empty()) result.workload.movable_share = real("--movable", movable, 0, 1);
  if (!types.empty()) result.workload.types = asked_types(types);
  if (!result.profile.empty() && !result.jobs.empty())
    throw UsageError("--profile: not beside --jobs; leave one of them out");
  if (!queue.empty()) result.queue = queue_order(queue);
  if (!seed.empty()) result.workload.seed = static_cast<std::uint64_t>(real("--seed", seed, 0, 1e9));
  if (!scale.empty()) result.workload.scale = real("--scale", scale, 1e-6, 1e6);
  if (!load.empty()) result.workload.load = real("--load", load, 0.01, 100);
  if (!lambda.empty()) result.lambda = real("--lambda", lambda, 0, 100);
  if (!trade.empty()) result.trade = real("--trade", trade, 0, 100);
  if (!idle_seconds.empty()) result.idle_seconds = real("--idle-seconds", idle_seconds, 0, 1e9);
  if (!short_first.empty()) result.short_first = real("--short-first", short_first, 0, 4);
  if (!aim.empty()) result.objective = objective("--objective", aim);
  if (!deadlines.empty()) set_deadlines(result.workload, deadlines);
  if (!error.empty()) result.prediction_error = real("--error", error, 0, 1);
  if (!bandwidth.empty()) result.bandwidth = real("--bandwidth", bandwidth, 1e-4, 100);
  const bool moves = std::any_of(result.policies.begin(), result.policies.end(), [](const std::string& name) {
    return name == "espalier" || name == "arena-anchored";
  });
  const auto refuse_movable = [&](const std::string& option) {
    if (!moves)
      throw UsageError(option +
                       ": only the policies espalier and arena-anchored move bases; name one in --policy, or leave " +
                       option + " out");
  };
  if (!movable.empty()) refuse_movable("--movable");
  if (!sweep.empty()) {
    const std::size_t equals = sweep.find('=');
    if (equals == std::string::npos || equals + 1 == sweep.size())
      throw UsageError("--sweep: \"" + sweep + "\": write KEY=V1,V2,...");
    result.sweep = {sweep.substr(0, equals), split(sweep.substr(equals + 1), ',')};
    if (result.sweep->key == "movable") refuse_movable("--sweep movable");
    SimulateArguments copy = result;
    for (const std::string& value : result.sweep->values) set_swept(copy, result.sweep->key, value);
    if (!result.report.empty()) throw UsageError("--report: not with --sweep; leave one of them out");
  }
  return result;
}

}  // namespace espalier::cli
