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
};

// Sources:
// - GPT-2: Radford et al. 2019. Larger models of this kind: Brown et al. 2020, Tab. 2.1. 15B: Zheng
//   et al. 2022 (Alpa), Tab. 5. 39B and 76B: Narayanan et al. 2021, Tab. 1.
// - LLaMA: Touvron et al. 2023, Tab. 2, and LLaMA-2. Sequences are 2048, as in most measurements;
//   70B has 4096, and the widths of its config.json.
// - Qwen2: technical report 2024, Tab. 1, and the config.json of each.
constexpr std::array<Published, 22> kPublished{{
    {"gpt2", 0.124, 12, 768, 12, 1024, 50257},
    {"gpt2", 0.35, 24, 1024, 16, 1024, 50257},
    {"gpt2", 0.774, 36, 1280, 20, 1024, 50257},
    {"gpt2", 1.3, 24, 2048, 32, 2048, 50257},
    {"gpt2", 1.5, 48, 1600, 25, 1024, 50257},
    {"gpt2", 2.7, 32, 2560, 32, 2048, 50257},
    {"gpt2", 6.7, 32, 4096, 32, 2048, 50257},
    {"gpt2", 13, 40, 5120, 40, 2048, 50257},
    {"gpt2", 15, 48, 5120, 32, 2048, 50257},
    {"gpt2", 39, 48, 8192, 64, 2048, 50257},
    {"gpt2", 76, 60, 10240, 80, 2048, 50257},
    {"gpt2", 175, 96, 12288, 96, 2048, 50257},
    {"llama", 7, 32, 4096, 32, 2048, 32000},
    {"llama", 13, 40, 5120, 40, 2048, 32000},
    {"llama", 30, 60, 6656, 52, 2048, 32000},
    {"llama", 33, 60, 6656, 52, 2048, 32000},
    {"llama", 65, 80, 8192, 64, 2048, 32000},
    {"llama", 70, 80, 8192, 64, 4096, 32000, 8, 28672},
    {"qwen2", 0.5, 24, 896, 14, 2048, 151936, 2, 4864},
    {"qwen2", 1.5, 28, 1536, 12, 2048, 151936, 2, 8960},
    {"qwen2", 7, 28, 3584, 28, 2048, 152064, 4, 18944},
    {"qwen2", 72, 80, 8192, 64, 2048, 152064, 8, 29568},
}};

std::string known() {
  std::string list;
  for (const Published& model : kPublished) {
    char size[32];
    std::snprintf(size, sizeof size, "%s%s %gB", list.empty() ? "" : ", ", model.family, model.billions);
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

// Models of another generation have other widths and vocabularies than those of the table.
bool of_the_table(const std::string& family_word, double generation) {
  if (generation == 0 || family_word == "gpt") return true;
  return family_word == "llama" ? generation <= 2 : generation == 2 || generation == 2.5;  // Qwen2.5's are Qwen2's
}

}  // namespace

ModelShape published_model(const std::string& name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string family;
  for (const char* candidate : {"llama", "qwen", "gpt"})
    if (lower.find(candidate) != std::string::npos) family = candidate;
  const double generation = family.empty() ? 0 : generation_in(lower, family);
  if (!of_the_table(family, generation)) {
    char number[32];
    std::snprintf(number, sizeof number, "%g", generation);
    throw Error("model \"" + name + "\": the shapes of generation " + number +
                " are not known; name the model's config.json"
                " with config, or give family, layers, hidden, heads, sequence and vocabulary");
  }
  if (family == "qwen") family = "qwen2";
  if (family == "gpt") family = "gpt2";
  double billions = billions_in(lower);
  if (family == "gpt2" && billions == 0 && lower.find("xl") != std::string::npos) billions = 1.5;
  for (const Published& model : kPublished)
    if (family == model.family && billions > 0 && std::abs(billions / model.billions - 1) < 0.05) {
      ModelShape shape{model.family, model.layers, model.hidden, model.heads, model.sequence, model.vocabulary, 0, 0};
      shape.key_value_heads = model.key_value_heads;
      shape.intermediate = model.intermediate;
      return shape;
    }
  throw Error("model \"" + name + "\": its shape is unknown; use one of " + known() +
              ", or give family, layers, hidden, heads, sequence and vocabulary");
}

}  // namespace espalier
