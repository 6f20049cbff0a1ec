#include "tests/unit/torchrt_transfer_cases.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/unit/torchrt_schedule_cases.hpp"

namespace espalier::torchrt {

ModelConfig random_transfer_model(std::mt19937& random) {
  ModelConfig model;
  model.family = std::vector<std::string>{"gpt2", "llama", "qwen2"}[random() % 3];
  model.layers = static_cast<int>(2 + random() % 4);
  model.hidden = static_cast<int>(16 * (1 + random() % 3));
  model.heads = model.family == "gpt2" ? 4 : 8;
  model.key_value_heads = 4;
  model.intermediate = static_cast<int>(4 * (2 + random() % 9));
  model.sequence = 8;
  model.vocabulary = static_cast<int>(std::vector{3, 37, 50}[random() % 3]);
  model.tied_embeddings = random() % 2 == 0;
  return completed(model);
}

Plan random_transfer_plan(std::mt19937& random, int layers) {
  std::map<std::string, std::vector<GpuId>> idle;
  for (const char* node : {"a", "b", "c", "d", "e"})
    if (random() % 2 == 0)
      for (int gpu = 0; gpu < 4; ++gpu)
        if (random() % 4 != 0) idle[node].push_back({node, gpu});
  if (idle.empty()) idle["a"] = {{"a", 0}};
  const auto draw = [&](std::size_t tp) {
    std::vector<std::vector<GpuId>*> fit;
    for (auto& [node, gpus] : idle)
      if (gpus.size() >= tp) fit.push_back(&gpus);
    std::vector<GpuId> drawn;
    if (fit.empty()) return drawn;
    std::vector<GpuId>& gpus = *fit[random() % fit.size()];
    std::shuffle(gpus.begin(), gpus.end(), random);
    drawn.assign(gpus.end() - static_cast<std::ptrdiff_t>(tp), gpus.end());
    gpus.resize(gpus.size() - tp);
    return drawn;
  };
  Plan plan;
  plan.micro_batches = 2;
  const std::size_t stages = 1 + random() % static_cast<std::size_t>(std::min(layers, 3));
  for (std::size_t s = 0; s < stages; ++s) {
    Stage stage;
    stage.tp = 1 << random() % 3;
    const std::size_t replicas = 1 + random() % 3;
    for (std::size_t j = 0; j < replicas; ++j)
      if (std::vector<GpuId> gpus = draw(static_cast<std::size_t>(stage.tp)); !gpus.empty())
        stage.replicas.push_back({1, std::move(gpus)});
    if (!stage.replicas.empty()) plan.stages.push_back(std::move(stage));
  }
  if (plan.stages.empty()) plan.stages.push_back({0, 1, {{1, {{"a", 0}}}}});
  const int count = static_cast<int>(plan.stages.size());
  for (int s = 0; s < count; ++s) {
    Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    stage.layers = layers / count + (s < layers % count ? 1 : 0);
    stage.replicas.front().share = 4 - static_cast<int>(stage.replicas.size());
  }
  plan.global_batch = 3 * plan.micro_batches;
  return any_chunks(random, std::move(plan));
}

Elements::Elements(const ModelConfig& model, DataType dtype) : model_(model), dtype_(dtype) {
  for (int unit = 0; unit < unit_count(model); ++unit)
    for (const TensorSpec& tensor : unit_spec(model, unit).tensors)
      if (starts_.try_emplace(tensor.hugging_face, next_).second) next_ += static_cast<std::int64_t>(tensor.elements());
}

std::pair<UnitSpec, StateLayout> Elements::shard(const GenerationLayout& generation, int rank, int unit) const {
  const RankLayout& mine = generation.layout.ranks[static_cast<std::size_t>(rank)];
  UnitSpec spec = unit_spec(model_, unit, mine.tp, mine.tp_rank);
  const StateLayout state =
      state_layout(spec, dtype_, generation.zero1 ? mine.replicas : 1, generation.zero1 ? mine.replica : 0);
  return {std::move(spec), state};
}

std::vector<char> Elements::state(const GenerationLayout& generation, int rank, int unit, int step) const {
  std::vector<char> memory(shard(generation, rank, unit).second.bytes(), 0);
  each(generation, rank, unit, [&](std::int64_t number, std::size_t at, std::size_t bytes) {
    const std::uint32_t value = static_cast<std::uint32_t>(number + 1 + step * count()) * 2654435761U;
    std::memcpy(memory.data() + at, reinterpret_cast<const char*>(&value) + 4 - bytes, bytes);
  });
  return memory;
}

TransferRequest random_request(std::mt19937& random, int layers) {
  TransferRequest request;
  request.before = random_transfer_plan(random, layers);
  request.after = random_transfer_plan(random, layers);
  request.zero1_before = random() % 2 == 0;
  request.zero1_after = random() % 4 != 0 ? request.zero1_before : !request.zero1_before;
  request.dtype = random() % 2 == 0 ? DataType::float32 : DataType::bfloat16;
  request.gpu_memory = random() % 2 == 0;
  request.message_bytes = std::vector<std::size_t>{60, 1000, 4096, 1 << 20}[random() % 4];
  return request;
}

bool share_a_node(const TransferRequest& request) {
  std::set<std::string> nodes;
  for (const GpuId& gpu : request.before.ranks()) nodes.insert(gpu.node);
  const std::vector<GpuId> next = request.after.ranks();
  return std::any_of(next.begin(), next.end(), [&](const GpuId& gpu) { return nodes.contains(gpu.node); });
}

GenerationLayout before(const TransferRequest& request, int layers) {
  return {make_memory_layout(request.before, layers), request.zero1_before};
}

GenerationLayout after(const TransferRequest& request, int layers) {
  return {make_memory_layout(request.after, layers), request.zero1_after};
}

}  // namespace espalier::torchrt
