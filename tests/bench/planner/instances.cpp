#include "tests/bench/planner/instances.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include "planner/core/model/model_sizes.hpp"
#include "planner/core/solver/pareto.hpp"

namespace espalier::bench {
namespace {

// The standard's generators give the same numbers on all libraries. Its distributions do not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int count) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(count)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T, std::size_t N>
  T one_of(const T (&values)[N]) {
    return values[below(static_cast<int>(N))];
  }

 private:
  std::mt19937_64 engine_;
};

void add(std::vector<Piece>& pieces, int node, std::int16_t type, int gpus) {
  const auto at = std::lower_bound(pieces.begin(), pieces.end(), std::tuple(node, type), [](const Piece& p, auto key) {
    return std::tuple<int, std::int16_t>(p.node, p.type) < key;
  });
  if (at != pieces.end() && at->node == node && at->type == type) at->gpus = static_cast<std::int16_t>(at->gpus + gpus);
  else pieces.insert(at, {node, type, static_cast<std::int16_t>(gpus)});
}

// GPUs by the data sheets of H100 SXM and A100. Nodes from PCIe-like bandwidth to NVLink, rails
// from 40 to 400 Gb/s.
void make_hardware(Instance& made, Random& random) {
  made.hardware.types = {{"h100", 989, 80e9, 3.35e9}, {"a100", 312, 80e9, 2.04e9}};
  for (int kind = 0; kind < 2; ++kind) {
    const double inside = random.uniform(60e6, 360e6);
    made.hardware.kinds.push_back(
        {inside, inside, random.uniform(5e6, 42.5e6), random.chance(50) ? 0 : random.between(1, 8)});
  }
}

void make_job(Instance& made, Random& random) {
  ModelShape shape;
  shape.family = "llama";
  shape.layers = random.between(4, 12);
  shape.hidden = random.one_of({1024, 2048, 4096, 5120});
  shape.heads = shape.hidden / 128;
  shape.sequence = random.one_of({1024, 2048, 4096});
  shape.vocabulary = 32000;
  shape.global_batch = random.one_of({8, 12, 16, 24, 32, 48, 64});
  made.job =
      model_sizes(shape, {{2, 2, 12, 2}, false, random.chance(50), random.chance(25)}, made.hardware.types.size());
  made.job.tp_degrees = {1, 2, 4, 8};
  const double utilization = random.uniform(0.3, 0.5), backward = random.uniform(1.8, 2.2);
  const double overlap = random.chance(30) ? 1 : random.uniform(1, 6);
  for (std::size_t type = 0; type < made.hardware.types.size(); ++type) {
    const GpuType& known = made.hardware.types[type];
    made.job.gpu[type] = {layer_flops(shape) / (known.tflops * 1e9 * utilization * random.uniform(0.9, 1.1)), backward,
                          2 * (made.job.param_optim_bytes + made.job.param_bytes) / known.memory_bandwidth, overlap};
  }
}

// Held GPUs fill the first nodes. Some of the other GPUs belong to another job.
void make_gpus(Instance& made, Random& random) {
  const int node_gpus = random.chance(60) ? 4 : 8, nodes = node_gpus == 4 ? 4 : random.between(2, 4);
  const bool mixed = random.chance(40), two_leaves = random.chance(50);
  const int hold = random.between(1, 8), offer = random.between(1, 8), idle_percent = random.one_of({60, 100});
  struct Offered {
    int distance, node;
    std::int16_t type;
  };
  std::vector<Offered> offered;
  int held = 0;
  for (int node = 0; node < nodes; ++node) {
    const int kind = mixed && random.chance(50) ? 1 : 0;
    const bool both = mixed && random.chance(20);
    std::vector<std::int16_t> types(static_cast<std::size_t>(node_gpus), static_cast<std::int16_t>(kind));
    if (both) std::fill(types.begin() + node_gpus / 2, types.end(), static_cast<std::int16_t>(1 - kind));
    const std::string leaf = two_leaves && node >= (nodes + 1) / 2 ? "leaf1" : "leaf0";
    made.topology.add_node("n" + std::to_string(node), kind, types, {"spine", leaf});
    for (const std::int16_t type : types) {
      if (held < hold) add(made.held, node, type, 1), ++held;
      else if (random.chance(idle_percent)) offered.push_back({0, node, type});
    }
  }
  for (Offered& gpu : offered) {
    gpu.distance = made.topology.distance(gpu.node, made.held.front().node);
    for (const Piece& piece : made.held)
      gpu.distance = std::min(gpu.distance, made.topology.distance(gpu.node, piece.node));
  }
  std::stable_sort(offered.begin(), offered.end(),
                   [](const Offered& a, const Offered& b) { return a.distance < b.distance; });
  for (const Offered& gpu : offered)
    if (made.units.size() < static_cast<std::size_t>(offer)) made.units.push_back({gpu.node, gpu.type, 1});
}

// Random TP degrees over random chunks of the held GPUs, one chunk a stage.
PlanSketch random_plan(const Instance& made, Random& random) {
  PlanSketch plan;
  plan.stages.resize(static_cast<std::size_t>(random.between(1, std::min(made.job.layers, 4))));
  for (StageSketch& stage : plan.stages) stage.tp = 1 << random.below(3);
  for (const Piece& piece : made.held)
    for (int left = piece.gpus; left > 0;) {
      StageSketch& stage = plan.stages[static_cast<std::size_t>(random.below(static_cast<int>(plan.stages.size())))];
      const int taken = std::min(stage.tp, left);
      add(stage.pieces, piece.node, piece.type, taken);
      left -= taken;
    }
  std::erase_if(plan.stages, [](const StageSketch& stage) { return stage.pieces.empty(); });
  return plan;
}

bool make_present(Instance& made, Random& random, Start start) {
  if (start == Start::random)
    for (int attempt = 0; attempt < 200; ++attempt) {
      PlanSketch plan = random_plan(made, random);
      PlanBounds one_count;
      do one_count.fixed_micro_batches = random.between(1, made.job.global_batch);
      while (made.job.global_batch % one_count.fixed_micro_batches != 0);
      Evaluator evaluator({made.hardware, made.topology, made.job, one_count});
      if (!evaluator.balance_sketch(plan).feasible()) continue;
      made.present = plan;
      return true;
    }
  PlanBounds all;
  all.min_gpus = count_gpus(made.held);
  Evaluator bounded({made.hardware, made.topology, made.job, all});
  const auto found = pareto_search(bounded, made.held, {});
  if (found.best) made.present = found.best->sketch;
  return found.best && found.complete;
}

// Sets GPU memory so that the held GPUs' memory is `times` the job's state.
void limit_memory(Instance& made, double times) {
  const JobCoefficients& job = made.job;
  const double state = job.layers * (job.param_optim_bytes + job.param_bytes) + job.first.param_optim_bytes +
                       job.first.param_bytes + job.last.param_optim_bytes + job.last.param_bytes;
  for (GpuType& type : made.hardware.types)
    type.memory_bytes = times * state / (made.hardware.memory_share * count_gpus(made.held));
}

}  // namespace

std::vector<Piece> Instance::all() const {
  std::vector<Piece> pieces = held;
  for (const Piece& unit : units) add(pieces, unit.node, unit.type, unit.gpus);
  return pieces;
}

std::unique_ptr<Instance> make_instance(std::uint64_t seed, Start start) {
  Random random(seed);
  for (;;) {
    auto made = std::make_unique<Instance>();
    make_hardware(*made, random);
    make_job(*made, random);
    make_gpus(*made, random);
    if (made->units.empty()) continue;
    if (random.chance(30)) limit_memory(*made, random.uniform(1.1, 2));
    if (make_present(*made, random, start)) return made;
  }
}

std::unique_ptr<Instance> make_grid_instance(std::uint64_t seed) {
  Random random(seed);
  for (;;) {
    auto made = std::make_unique<Instance>();
    make_hardware(*made, random);
    make_job(*made, random);
    const int gpus = random.one_of({2, 4, 8, 16}), node_gpus = std::min(gpus, random.one_of({2, 4, 8}));
    const auto type = static_cast<std::int16_t>(random.below(2));
    const bool two_leaves = random.chance(50);
    for (int node = 0; node < gpus / node_gpus; ++node) {
      const std::string leaf = two_leaves && node % 2 == 1 ? "leaf1" : "leaf0";
      made->topology.add_node("n" + std::to_string(node), type,
                              std::vector<std::int16_t>(static_cast<std::size_t>(node_gpus), type), {"spine", leaf});
      add(made->held, node, type, node_gpus);
    }
    if (random.chance(30)) limit_memory(*made, random.uniform(1.1, 2));
    if (make_present(*made, random, Start::best)) return made;
  }
}

}  // namespace espalier::bench
