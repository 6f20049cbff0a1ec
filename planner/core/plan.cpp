#include "planner/core/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier {

int Plan::total_layers() const {
  std::int64_t sum = 0;  // of a peer's numbers
  for (const Stage& stage : stages) sum += stage.layers;
  return static_cast<int>(
      std::clamp<std::int64_t>(sum, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

int Plan::gpu_count() const {
  std::size_t count = 0;
  for (const Stage& stage : stages)
    for (const Replica& replica : stage.replicas) count += replica.gpus.size();
  return static_cast<int>(count);
}

std::vector<GpuId> Plan::ranks() const {
  std::vector<GpuId> all;
  for (const Stage& stage : stages)
    for (const Replica& replica : stage.replicas) all.insert(all.end(), replica.gpus.begin(), replica.gpus.end());
  return all;
}

std::vector<Chunk> Plan::model_chunks() const {
  if (!chunks.empty()) return chunks;
  std::vector<Chunk> implied;
  for (std::size_t s = 0; s < stages.size(); ++s) implied.push_back({static_cast<int>(s), stages[s].layers});
  return implied;
}

bool keeps_places(const Plan& from, const Plan& to) {
  const auto same_replica = [](const Replica& a, const Replica& b) { return a.gpus == b.gpus; };
  const auto same_stage = [&](const Stage& a, const Stage& b) {
    return a.layers == b.layers && a.tp == b.tp &&
           std::equal(a.replicas.begin(), a.replicas.end(), b.replicas.begin(), b.replicas.end(), same_replica);
  };
  return from.global_batch == to.global_batch &&
         std::equal(from.stages.begin(), from.stages.end(), to.stages.begin(), to.stages.end(), same_stage) &&
         from.model_chunks() == to.model_chunks();
}

std::vector<RankPlace> rank_places(const Plan& plan) {
  std::vector<RankPlace> places;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    for (std::size_t j = 0; j < stage.replicas.size(); ++j)
      for (std::size_t t = 0; t < stage.replicas[j].gpus.size(); ++t)
        places.push_back({static_cast<int>(s), static_cast<int>(j), static_cast<int>(t)});
  }
  return places;
}

namespace {

// Appends pointers to the stage's GPUs to `used`. The stage owns the GPUs.
void validate_stage(const Stage& stage, std::size_t index, int micro_batch, TpGroups groups,
                    std::vector<const GpuId*>& used, std::vector<std::string>& broken) {
  const std::string where = "stage " + std::to_string(index);
  if (stage.layers < 1) broken.push_back(where + " has no layer; every stage needs at least one");
  if (stage.tp < 1) broken.push_back(where + " has TP degree " + std::to_string(stage.tp) + "; it must be at least 1");
  if (stage.replicas.empty()) broken.push_back(where + " has no replica");
  std::int64_t shares = 0;
  for (std::size_t j = 0; j < stage.replicas.size(); ++j) {
    const Replica& replica = stage.replicas[j];
    const auto name = [&] { return where + " replica " + std::to_string(j); };
    shares += replica.share;
    if (replica.share < 1) broken.push_back(name() + " has no sample of the micro-batch; it needs at least one");
    if (static_cast<int>(replica.gpus.size()) != stage.tp)
      broken.push_back(name() + " has " + std::to_string(replica.gpus.size()) + " GPUs, its TP degree is " +
                       std::to_string(stage.tp));
    for (const GpuId& gpu : replica.gpus) {
      if (groups == TpGroups::one_node && gpu.node != replica.gpus.front().node)
        broken.push_back(name() + " spans nodes " + replica.gpus.front().node + " and " + gpu.node +
                         "; a TP group lies on one node");
      used.push_back(&gpu);
    }
  }
  if (!stage.replicas.empty() && shares != micro_batch)
    broken.push_back(where + " has shares that sum to " + std::to_string(shares) + ", the micro-batch has " +
                     std::to_string(micro_batch) + " samples");
}

void validate_chunks(const Plan& plan, std::vector<std::string>& broken) {
  std::vector<std::int64_t> held(plan.stages.size(), 0), layers(plan.stages.size(), 0);
  for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
    const Chunk& chunk = plan.chunks[c];
    const std::string where = "chunk " + std::to_string(c);
    const auto stage = static_cast<std::size_t>(chunk.stage);
    if (chunk.stage < 0 || stage >= plan.stages.size()) {
      broken.push_back(where + " is on stage " + std::to_string(chunk.stage) + ", the plan has " +
                       std::to_string(plan.stages.size()) + " stages");
      continue;
    }
    if (chunk.layers < 0) broken.push_back(where + " has " + std::to_string(chunk.layers) + " layers");
    if (chunk.layers == 0 && c > 0 && c + 1 < plan.chunks.size())
      broken.push_back(where + " has no layer; only the first and the last chunk of the model may have none");
    ++held[stage];
    layers[stage] += chunk.layers;
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::string where = "stage " + std::to_string(s);
    if (held[s] == 0) broken.push_back(where + " has no chunk; every stage needs at least one");
    else if (layers[s] != plan.stages[s].layers)
      broken.push_back(where + " has " + std::to_string(plan.stages[s].layers) + " layers, its chunks hold " +
                       std::to_string(layers[s]));
  }
}

// Every use of a GPU after its first use.
std::vector<const GpuId*> repeated(std::vector<const GpuId*> used) {
  std::sort(used.begin(), used.end(), [](const GpuId* a, const GpuId* b) { return *a < *b; });
  std::vector<const GpuId*> found;
  for (std::size_t i = 1; i < used.size(); ++i)
    if (*used[i] == *used[i - 1]) found.push_back(used[i]);
  return found;
}

}  // namespace

std::vector<std::string> validate(const Plan& plan, int model_layers, TpGroups groups) {
  std::vector<std::string> broken;
  if (plan.global_batch < 1) broken.push_back("the global batch must be at least 1");
  if (plan.micro_batches < 1) broken.push_back("the number of micro-batches must be at least 1");
  else if (plan.global_batch % plan.micro_batches != 0)
    broken.push_back("the global batch of " + std::to_string(plan.global_batch) + " is no multiple of " +
                     std::to_string(plan.micro_batches) + " micro-batches");
  if (plan.stages.empty()) broken.push_back("the plan has no stage");
  std::vector<const GpuId*> used;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    validate_stage(plan.stages[s], s, plan.micro_batch(), groups, used, broken);
  if (!plan.chunks.empty()) validate_chunks(plan, broken);
  for (const GpuId* gpu : repeated(std::move(used)))
    broken.push_back("GPU " + gpu->node + "/" + std::to_string(gpu->index) + " is used twice");
  if (model_layers > 0 && plan.total_layers() != model_layers)
    broken.push_back("the stages hold " + std::to_string(plan.total_layers()) + " layers, the model has " +
                     std::to_string(model_layers));
  return broken;
}

std::size_t hash_value(const Plan& plan) {
  std::size_t hash = 0;
  const auto mix = [&hash](std::size_t value) { hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2); };
  mix(static_cast<std::size_t>(plan.global_batch));
  mix(static_cast<std::size_t>(plan.micro_batches));
  for (const Stage& stage : plan.stages) {
    mix(static_cast<std::size_t>(stage.layers));
    mix(static_cast<std::size_t>(stage.tp));
    for (const Replica& replica : stage.replicas) {
      mix(static_cast<std::size_t>(replica.share));
      for (const GpuId& gpu : replica.gpus) {
        mix(std::hash<std::string>{}(gpu.node));
        mix(static_cast<std::size_t>(gpu.index));
      }
    }
  }
  for (const Chunk& chunk : plan.chunks) {
    mix(static_cast<std::size_t>(chunk.stage));
    mix(static_cast<std::size_t>(chunk.layers));
  }
  if (!plan.schedule.empty()) mix(std::hash<std::string>{}(plan.schedule));
  return hash;
}

std::string describe(const Plan& plan) {
  if (plan.stages.empty()) return "(none)";
  const auto degree = [&plan](auto of) {
    const auto [low, high] = std::minmax_element(plan.stages.begin(), plan.stages.end(),
                                                 [&](const Stage& a, const Stage& b) { return of(a) < of(b); });
    return of(*low) == of(*high) ? std::to_string(of(*low))
                                 : std::to_string(of(*low)) + "-" + std::to_string(of(*high));
  };
  std::string text = "pp" + std::to_string(plan.stages.size());
  text += " dp" + degree([](const Stage& s) { return s.replicas.size(); });
  text += " tp" + degree([](const Stage& s) { return static_cast<std::size_t>(s.tp); });
  text += (plan.schedule.empty() ? "" : " " + plan.schedule) + " | ";
  for (const Chunk& chunk : plan.model_chunks()) {
    if (text.back() != ' ') text += '+';
    text += std::to_string(chunk.layers);
    if (!plan.chunks.empty()) text += "@" + std::to_string(chunk.stage);
  }
  text += " layers |";
  for (const GpuId& gpu : plan.ranks()) text += " " + gpu.node + "/" + std::to_string(gpu.index);
  return text;
}

Plan uniform_plan(int pp, int dp, int layers, int global_batch, int micro_batches, const std::vector<GpuId>& gpus,
                  int tp) {
  if (pp < 1 || dp < 1) throw Error("plan: pipeline and data-parallel degrees must be at least 1");
  if (tp < 1) throw Error("plan: the tensor-parallel degree must be at least 1");
  if (layers < pp)
    throw Error("plan: " + std::to_string(layers) + " layers cannot fill " + std::to_string(pp) +
                " stages; use fewer GPUs or a deeper model");
  const auto needed = static_cast<long>(pp) * dp * tp;
  if (needed > static_cast<long>(gpus.size()))
    throw Error("plan: " + std::to_string(pp) + " stages of " + std::to_string(dp) + " replicas" +
                (tp > 1 ? " of " + std::to_string(tp) + " GPUs" : "") + " need " + std::to_string(needed) +
                " GPUs, there are " + std::to_string(gpus.size()));
  Plan plan;
  plan.global_batch = global_batch;
  plan.micro_batches = micro_batches;
  if (plan.micro_batch() < dp)
    throw Error("plan: a micro-batch of " + std::to_string(plan.micro_batch()) + " samples cannot feed " +
                std::to_string(dp) + " replicas; use fewer micro-batches");
  auto next = gpus.begin();
  for (int s = 0; s < pp; ++s) {
    Stage stage{layers / pp + (s < layers % pp ? 1 : 0), tp, {}};
    for (int j = 0; j < dp; ++j, next += tp)
      stage.replicas.push_back(
          {plan.micro_batch() / dp + (j < plan.micro_batch() % dp ? 1 : 0), std::vector<GpuId>(next, next + tp)});
    plan.stages.push_back(std::move(stage));
  }
  if (const auto broken = validate(plan, layers); !broken.empty()) throw Error("plan: " + broken.front());
  return plan;
}

}  // namespace espalier
