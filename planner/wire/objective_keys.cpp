#include "planner/wire/objective_keys.hpp"

#include <algorithm>
#include <cctype>

namespace espalier::wire {
namespace {

constexpr std::size_t kMostWeights = 1024;
constexpr double kLeast = 0.01, kMost = 100;

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && std::none_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isspace(c) || std::iscntrl(c) || c == ',' || c == '"' || c == '\'' || c == '|';
  });
}

// `of`: "an account", "a QOS".
TomlSetter weights(const std::string& path, const std::string& key, const std::string& of,
                   std::map<std::string, double>& out) {
  return [&out, path, key, of](const toml::value& value) {
    if (!value.is_table()) fail_toml(path, value, key, "must be a table of weights, as in { physics = 2.0 }");
    if (value.as_table().size() > kMostWeights)
      fail_toml(path, value, key, "has more than " + std::to_string(kMostWeights) + " weights");
    for (const auto& [name, weight] : value.as_table()) {
      if (!is_name(name))
        fail_toml(path, weight, key,
                  "\"" + name + "\" is no name of " + of + "; it must not be empty or have spaces, commas or quotes");
      toml_real(path, key + "." + name, out[name], kLeast, kMost)(weight);
    }
  };
}

}  // namespace

void read_objective_section(const std::string& path, const toml::value& content, Objective& out, bool& refuses_late,
                            const std::string& manual) {
  const auto kind = [&](const toml::value& value) {
    std::string text;
    toml_one_of(path, "objective.kind", text, objective_names())(value);
    out.kind = *objective_from(text);
  };
  const auto late = [&](const toml::value& value) {
    std::string text;
    toml_one_of(path, "objective.late_deadlines", text, {"refuse", "warn"})(value);
    refuses_late = text == "refuse";
  };
  read_toml_table(path, "objective", content,
                  {{"kind", kind},
                   {"late_deadlines", late},
                   {"account_weights", weights(path, "objective.account_weights", "an account", out.account_weights)},
                   {"qos_weights", weights(path, "objective.qos_weights", "a QOS", out.qos_weights)}},
                  manual);
}

}  // namespace espalier::wire
