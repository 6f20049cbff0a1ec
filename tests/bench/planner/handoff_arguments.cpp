#include "tests/bench/planner/handoff_arguments.hpp"

#include <array>
#include <fstream>
#include <regex>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/model/published_models.hpp"
#include "torchrt/model/hugging_face.hpp"

namespace espalier::bench {
namespace {

// Figures that a ModelShape lacks and that do not follow from the family: LLaMA-2 70B (Touvron et
// al. 2023, Tab. 1; width from its published weights) and Qwen2 (technical report 2024, Tab. 1).
struct Detail {
  const char* family;
  int layers, hidden, key_value_heads, intermediate;
  bool tied;
};
constexpr std::array<Detail, 5> kDetails{{
    {"llama", 80, 8192, 8, 28672, false},
    {"qwen2", 24, 896, 2, 4864, true},
    {"qwen2", 28, 1536, 2, 8960, true},
    {"qwen2", 28, 3584, 4, 18944, false},
    {"qwen2", 80, 8192, 8, 29568, false},
}};
// Tells LLaMA-2 70B from LLaMA-65B, which has the same depth and width.
constexpr int kLlama70Sequence = 4096;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

torchrt::ModelConfig handoff_model(const std::string& name) {
  if (ends_with(name, ".json")) return torchrt::read_hugging_face_config(name, 1);
  const ModelShape shape = published_model(name);
  torchrt::ModelConfig model;
  model.family = shape.family;
  model.layers = shape.layers;
  model.hidden = shape.hidden;
  model.heads = shape.heads;
  model.sequence = shape.sequence;
  model.vocabulary = shape.vocabulary;
  model.tied_embeddings = shape.family == "gpt2";
  for (const Detail& detail : kDetails)
    if (shape.family == detail.family && shape.layers == detail.layers && shape.hidden == detail.hidden &&
        (shape.family != "llama" || shape.sequence == kLlama70Sequence)) {
      model.key_value_heads = detail.key_value_heads;
      model.intermediate = detail.intermediate;
      model.tied_embeddings = detail.tied;
    }
  return torchrt::completed(model);
}

Plan handoff_plan(const std::string& text, int layers, int node_gpus) {
  std::smatch degrees;
  if (std::regex_match(text, degrees, std::regex("([0-9]{1,4})x([0-9]{1,4})x([0-9]{1,4})"))) {
    const int pp = std::stoi(degrees[1]), dp = std::stoi(degrees[2]), tp = std::stoi(degrees[3]);
    std::vector<GpuId> gpus;
    for (long gpu = 0; gpu < static_cast<long>(pp) * dp * tp; ++gpu)
      gpus.push_back({"n" + std::to_string(gpu / node_gpus), static_cast<int>(gpu % node_gpus)});
    return uniform_plan(pp, dp, layers, dp, 1, gpus, tp);
  }
  std::ifstream file(text);
  if (!file) throw Error("plan \"" + text + "\": is neither PPxDPxTP, as in 8x4x8, nor a file that can be read");
  Plan plan;
  try {
    plan = nlohmann::json::parse(file).get<Plan>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(text + ": is not a plan in JSON: " + error.what());
  } catch (const Error& error) {
    throw Error(text + ": " + error.what());
  }
  if (const auto broken = validate(plan, layers); !broken.empty()) throw Error(text + ": " + broken.front());
  return plan;
}

}  // namespace espalier::bench
