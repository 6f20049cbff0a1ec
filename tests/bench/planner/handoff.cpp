// Measures how long a hand-off's plan takes and how much the plan moves.
#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/handoff_arguments.hpp"
#include "tests/bench/planner/stopwatch.hpp"
#include "tests/bench/planner/transfer_bound.hpp"
#include "torchrt/handoff/transfer/early.hpp"

namespace espalier::bench {
namespace {

using namespace torchrt;

struct Options {
  std::string model = "llama2-70b", from, to, dtype = "bfloat16", memory = "gpu";
  int node_gpus = 8, repeats = 9;
  bool zero1 = false, json = false;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The rank with most messages. Its planning time is the common plan plus its own operations.
int busiest(const TransferPlan& plan) {
  std::vector<int> messages(static_cast<std::size_t>(plan.new_ranks()), 0);
  for (const Message& message : plan.messages()) {
    ++messages[static_cast<std::size_t>(message.receiver)];
    if (!plan.is_donor(message.sender)) ++messages[static_cast<std::size_t>(message.sender)];
  }
  return static_cast<int>(std::max_element(messages.begin(), messages.end()) - messages.begin());
}

// What a hand-off can send early, and how long that takes to plan beside the rest. Null when the
// generations share no node, since no hand-off is possible then.
nlohmann::json early_figures(const ModelConfig& model, TransferRequest request, int repeats) {
  request.two_worlds = true;
  const TransferPlan plan(model, request);
  Routes routes;
  try {
    routes = make_routes(plan, request);
  } catch (const Error&) {
    return nullptr;
  }
  const int rank = busiest(plan);
  const std::vector<MessageOperation> own = message_operations(plan, routes.new_world, rank);
  std::vector<double> wall;
  for (int i = 0; i < repeats; ++i) {
    const Stopwatch watch;
    const EarlyPlan early(plan, routes);
    const auto slices = early.slices(own, 16);
    const auto last = early.last(own);
    const EarlyCopies copies = early.copies(rank);
    wall.push_back(watch.wall_ms());
  }
  const EarlyPlan early(plan, routes);
  std::int64_t sent_early = 0, in_pause = 0;
  for (std::size_t m = 0; m < routes.new_world.size(); ++m)
    if (early.early(m)) sent_early += static_cast<std::int64_t>(routes.new_world[m].piece.bytes);
  for (const Message& message : routes.old_world) in_pause += static_cast<std::int64_t>(message.piece.bytes);
  for (int r = 0; r < plan.new_ranks(); ++r)
    for (const MessageOperation& message : early.last(message_operations(plan, routes.new_world, r)))
      if (!message.sends) in_pause += static_cast<std::int64_t>(message.bytes);
  return {{"plan_ms", median(wall)}, {"bytes_before_pause", sent_early}, {"bytes_in_pause", in_pause}};
}

void run(const Options& options) {
  const ModelConfig model = handoff_model(options.model);
  TransferRequest request;
  request.before = handoff_plan(options.from, model.layers, options.node_gpus);
  request.after = handoff_plan(options.to, model.layers, options.node_gpus);
  request.zero1_before = request.zero1_after = options.zero1;
  request.dtype = options.dtype == "float32" ? DataType::float32 : DataType::bfloat16;
  request.gpu_memory = options.memory == "gpu";
  const TransferPlan plan(model, request);
  const int rank = busiest(plan);
  std::vector<double> wall, cpu, common;
  for (int i = 0; i < options.repeats; ++i) {
    const Stopwatch watch;
    const TransferPlan again(model, request);
    common.push_back(watch.wall_ms());
    const RankOperations own = operations(again, rank);
    const std::vector<MessageOperation> messages = message_operations(again, again.messages(), rank);
    wall.push_back(watch.wall_ms());
    cpu.push_back(watch.cpu_ms());
  }
  nlohmann::json json{{"model", options.model},
                      {"gpus_from", request.before.gpu_count()},
                      {"gpus_to", request.after.gpu_count()},
                      {"plan_ms", median(wall)},
                      {"plan_cpu_ms", median(cpu)},
                      {"common_plan_ms", median(common)},
                      {"bytes_adopted", plan.bytes_adopted()},
                      {"bytes_copied", plan.bytes_copied()},
                      {"bytes_sent", plan.bytes_sent()},
                      {"bytes_lower_bound", least_bytes_between_nodes(model, request)},
                      {"messages", plan.messages().size()},
                      {"repeats", options.repeats}};
  json["early"] = early_figures(model, request, options.repeats);
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
  else
    for (const auto& [name, value] : json.items()) std::printf("%-18s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

void add_handoff(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "handoff", "plans a hand-off between two generations: time, and bytes adopted, copied and sent");
  command->add_option("--model", options->model, "a published model's name, or a Hugging Face config.json")
      ->capture_default_str();
  command->add_option("--from", options->from, "PPxDPxTP, or a plan file (JSON)")->required();
  command->add_option("--to", options->to, "PPxDPxTP, or a plan file (JSON)")->required();
  command->add_option("--node-gpus", options->node_gpus, "GPUs of a node, where a plan is given as PPxDPxTP")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "of the parameters")
      ->check(CLI::IsMember({"bfloat16", "float32"}))
      ->capture_default_str();
  command->add_option("--memory", options->memory, "where the state is; cpu: ranks of a node adopt from each other")
      ->check(CLI::IsMember({"gpu", "cpu"}))
      ->capture_default_str();
  command->add_flag("--zero1", options->zero1, "replicas share the optimizer state");
  command->add_option("--repeats", options->repeats, "times are medians of so many")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
