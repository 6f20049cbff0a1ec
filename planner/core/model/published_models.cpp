#include "planner/core/model/published_models.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

struct Published {
  const char* family;
  double billions;
  int layers, hidden, heads, sequence, vocabulary;
  int key_value_heads = 0, intermediate = 0;  // 0: as many as heads; as model_sizes.hpp has it
  double also = 0;                            // another size that the same model is called by; 0: none
  int generation = 0;                         // that alone has this size; 0: any
};

// Sources:
// - GPT-2: Radford et al. 2019. Larger models of this kind: Brown et al. 2020, Tab. 2.1. 15B: Zheng
//   et al. 2022 (Alpa), Tab. 5. 39B and 76B: Narayanan et al. 2021, Tab. 1.
// - LLaMA: Touvron et al. 2023, Tab. 2. LLaMA-2: its report, and the widths of each config.json. 34B was
//   published as Code Llama.
// - Qwen2: technical report 2024, Tab. 1, and the config.json of each. Its sequences are 2048, as in
//   most measurements.
constexpr std::array<Published, 25> kPublished{{
    {"gpt2", 0.124, 12, 768, 12, 1024, 50257, 0, 0, 0.117},
    {"gpt2", 0.35, 24, 1024, 16, 1024, 50257},
    {"gpt2", 0.774, 36, 1280, 20, 1024, 50257},
    {"gpt2", 1.3, 24, 2048, 32, 2048, 50257},
    {"gpt2", 1.5, 48, 1600, 25, 1024, 50257, 0, 0, 1.558},
    {"gpt2", 2.7, 32, 2560, 32, 2048, 50257, 0, 0, 2.6},
    {"gpt2", 6.7, 32, 4096, 32, 2048, 50257},
    {"gpt2", 13, 40, 5120, 40, 2048, 50257},
    {"gpt2", 15, 48, 5120, 32, 2048, 50257},
    {"gpt2", 39, 48, 8192, 64, 2048, 50257},
    {"gpt2", 76, 60, 10240, 80, 2048, 50257},
    {"gpt2", 175, 96, 12288, 96, 2048, 50257},
    {"llama", 7, 32, 4096, 32, 4096, 32000, 0, 0, 6.7, 2},
    {"llama", 13, 40, 5120, 40, 4096, 32000, 0, 0, 0, 2},
    {"llama", 34, 48, 8192, 64, 4096, 32000, 8, 22016, 0, 2},
    {"llama", 70, 80, 8192, 64, 4096, 32000, 8, 28672, 0, 2},
    {"llama", 7, 32, 4096, 32, 2048, 32000, 0, 0, 6.7, 1},
    {"llama", 13, 40, 5120, 40, 2048, 32000, 0, 0, 0, 1},
    {"llama", 30, 60, 6656, 52, 2048, 32000, 0, 0, 0, 1},
    {"llama", 33, 60, 6656, 52, 2048, 32000, 0, 0, 0, 1},
    {"llama", 65, 80, 8192, 64, 2048, 32000, 0, 0, 0, 1},
    {"qwen2", 0.5, 24, 896, 14, 2048, 151936, 2, 4864},
    {"qwen2", 1.5, 28, 1536, 12, 2048, 151936, 2, 8960},
    {"qwen2", 7, 28, 3584, 28, 2048, 152064, 4, 18944},
    {"qwen2", 72, 80, 8192, 64, 2048, 152064, 8, 29568},
}};

// "llama2": a size that only one generation has is named with it.
std::string family_name(const Published& model) {
  return model.family + (model.generation > 1 ? std::to_string(model.generation) : std::string());
}

// Names round a model's size. Those of two models differ by more (33B and 34B).
bool has_size(const Published& model, double billions) {
  constexpr double kRounding = 0.02;
  const auto near = [billions](double size) { return size > 0 && std::abs(billions / size - 1) < kRounding; };
  return near(model.billions) || near(model.also);
}

std::string known() {
  std::string list;
  for (const Published& model : kPublished) {
    char size[32];
    std::snprintf(size, sizeof size, "%s%s %gB", list.empty() ? "" : ", ", family_name(model).c_str(), model.billions);
    list += size;
  }
  return list;
}

// The last number with a unit, in billions: "2-7b" gives 7, "350m" gives 0.35. 0: there is none.
double billions_in(const std::string& lower) {
  double result = 0;
  const char* const end = lower.data() + lower.size();
  for (const char* at = lower.data(); at < end; ++at) {
    if (!std::isdigit(static_cast<unsigned char>(*at))) continue;
    double number = 0;
    at = std::from_chars(at, end, number, std::chars_format::fixed).ptr;
    while (at < end && *at == ' ') ++at;
    if (at < end && (*at == 'b' || *at == 'm')) result = *at == 'm' ? number / 1000 : number;
    else --at;
  }
  return result;
}

// "llama-3.1-8b" gives 3.1. 0: the name tells none, as in "llama-7b".
double generation_in(std::string_view lower, std::string_view family_word) {
  std::string_view rest = lower.substr(lower.find(family_word) + family_word.size());
  rest.remove_prefix(std::min(rest.find_first_not_of("-_ "), rest.size()));
  double number = 0;
  const char* const end = rest.data() + rest.size();
  const char* at = std::from_chars(rest.data(), end, number, std::chars_format::fixed).ptr;
  while (at < end && *at == ' ') ++at;
  return at < end && (*at == 'b' || *at == 'm') ? 0 : number;  // that is its size
}

// Models of another generation have other widths and vocabularies than those of the table. Qwen's first has no number.
bool of_the_table(const std::string& family_word, double generation) {
  if (family_word == "qwen") return generation == 2 || generation == 2.5;  // Qwen2.5's are Qwen2's
  return family_word != "llama" || generation <= 2;
}

}  // namespace

ModelShape published_model(const std::string& name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string family;
  for (const char* candidate : {"llama", "qwen", "gpt"})
    if (lower.find(candidate) != std::string::npos) family = candidate;
  double generation = family.empty() ? 0 : generation_in(lower, family);
  if (family == "qwen" && generation == 0) generation = 1;
  if (!of_the_table(family, generation)) {
    char number[32];
    std::snprintf(number, sizeof number, "%g", generation);
    throw Error("model \"" + name + "\": the shapes of generation " + number + " are not known");
  }
  if (family == "qwen") family = "qwen2";
  if (family == "gpt") family = "gpt2";
  double billions = billions_in(lower);
  if (family == "gpt2" && billions == 0 && lower.find("xl") != std::string::npos) billions = 1.5;
  // Code Llama is LLaMA-2 of other sequences, and but for 34B of another vocabulary.
  const bool code = lower.find("codellama") != std::string::npos || lower.find("code-llama") != std::string::npos;
  if (code && billions == 34) generation = 2;
  // A LLaMA whose name tells no generation is of the first, unless only the second has its size.
  const Published* found = nullptr;
  for (const Published& model : kPublished) {
    if (family != model.family || billions <= 0 || !has_size(model, billions)) continue;
    if (family == "llama" && generation > 0 && model.generation > 0 && generation != model.generation) continue;
    if (found == nullptr || model.generation == 1) found = &model;
  }
  if (found == nullptr || (code && billions != 34))
    throw Error("model \"" + name + "\": its shape is unknown; use one of " + known());
  ModelShape shape{found->family, found->layers, found->hidden, found->heads, found->sequence, found->vocabulary, 0, 0};
  shape.key_value_heads = found->key_value_heads;
  shape.intermediate = found->intermediate;
  return shape;
}

}  // namespace espalier
