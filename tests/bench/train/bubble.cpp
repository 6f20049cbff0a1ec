// bubble: how much longer ranks were idle than their schedule requires. The schedule is simulated
// with the measured durations. The rest of the idle time is the runtime's latency.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "tests/bench/train/commands.hpp"
#include "torchrt/schedule/simulate.hpp"

namespace espalier::bench {
namespace {

using namespace torchrt;

struct Arguments {
  std::string plan, trace;
  int tied_rows = 0;
};

struct Event {
  std::string name;
  double begin = 0, waited = 0, end = 0;  // microseconds
};

// By step and rank, in order.
using Events = std::map<std::int64_t, std::map<int, std::vector<Event>>>;

void read_trace(const std::string& path, int rank, Events& events) {
  std::ifstream in(path);
  if (!in) throw Error(path + ": cannot be read");
  for (std::string line; std::getline(in, line);) {
    if (line.size() < 2) continue;
    const Json one = Json::parse(line.substr(0, line.rfind(',')));
    const double begin = one.at("ts");
    events[one.at("args").at("step").get<std::int64_t>()][rank].push_back(
        {one.at("name"), begin, one.at("args").at("waited"), begin + one.at("dur").get<double>()});
  }
}

bool is_work(OpKind kind) {
  return kind == OpKind::forward || kind == OpKind::backward || kind == OpKind::weight_gradient;
}

struct Bubbles {
  double measured = 0, simulated = 0;
};

Bubbles of_step(const Schedule& schedule, const std::map<int, std::vector<Event>>& ranks) {
  Bubbles result;
  double begin = 1e300, end = 0, work = 0;
  std::map<const Op*, double> durations;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::vector<Op>& ops = schedule.ranks[r];
    const std::vector<Event>& events = ranks.at(static_cast<int>(r));
    if (events.size() != ops.size()) throw Error("bubble: a rank's trace is not of this plan's schedule");
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Event& event = events[i];
      if (event.name != describe(ops[i].kind)) throw Error("bubble: a rank's trace is not of this plan's schedule");
      durations[&ops[i]] = event.end - event.begin - event.waited;
      if (is_work(ops[i].kind)) work += event.end - event.begin - event.waited;
    }
    begin = std::min(begin, events.front().begin);
    end = std::max(end, events.back().end);
  }
  // An operation that ends for all ranks together: the last rank to come waited least, so its time
  // is the operation's own.
  std::map<OpKind, double> least;
  for (const auto& [op, duration] : durations)
    if (op->kind == OpKind::agree) {
      const auto [at, fresh] = least.try_emplace(op->kind, duration);
      if (!fresh) at->second = std::min(at->second, duration);
    }
  result.measured = 1 - work / ((end - begin) * static_cast<double>(schedule.ranks.size()));
  const Simulation simulation = simulate(
      schedule, [&](int, const Op& op) { return op.kind == OpKind::agree ? least.at(op.kind) : durations.at(&op); });
  result.simulated = simulation.bubble();
  return result;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void bubble(const Arguments& arguments) {
  std::ifstream in(arguments.plan);
  if (!in) throw Error(arguments.plan + ": cannot be read");
  const auto plan = Json::parse(in).get<Plan>();
  ScheduleOptions options;
  options.tied_rows = arguments.tied_rows;
  const Schedule schedule = make_schedule(make_layout(plan, plan.total_layers()), options);
  Events events;
  for (int rank = 0; rank < plan.gpu_count(); ++rank)
    read_trace(arguments.trace + "/rank-" + std::to_string(rank) + ".json", rank, events);
  if (events.empty()) throw Error("bubble: the trace holds no step");
  std::vector<double> measured, simulated, errors;
  for (const auto& [step, ranks] : events) {
    const Bubbles one = of_step(schedule, ranks);
    measured.push_back(one.measured);
    simulated.push_back(one.simulated);
    errors.push_back(std::abs(one.measured - one.simulated) / one.simulated * 100);
  }
  const Json result = {{"steps", events.size()},
                       {"measured", median(measured)},
                       {"simulated", median(simulated)},
                       {"error_pct", median(errors)}};
  std::printf("%s\n", result.dump().c_str());
}

}  // namespace

void add_bubble(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("bubble", "compare a trace with the simulation of its schedule");
  command->add_option("--plan", arguments->plan, "plan of the run (JSON)")->required();
  command->add_option("--trace", arguments->trace, "folder of [profile] trace")->required();
  command->add_option("--tied-rows", arguments->tied_rows, "rows of the tied table; 0: not tied");
  command->callback([arguments] { bubble(*arguments); });
}

}  // namespace espalier::bench
