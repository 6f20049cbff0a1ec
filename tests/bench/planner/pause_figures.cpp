#include "tests/bench/planner/pause_figures.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <regex>

#include "planner/core/error.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::bench {
namespace {

using nlohmann::json;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

json read(const std::filesystem::path& path) {
  std::ifstream in(path);
  try {
    return json::parse(in);
  } catch (const json::exception& error) {
    throw Error(path.string() + ": cannot be read: " + error.what());
  }
}

torchrt::ModelConfig model_of(int hidden) {
  torchrt::ModelConfig model;
  model.layers = 12;
  model.heads = 8;
  model.hidden = hidden;
  model.sequence = 16;
  return torchrt::completed(model);
}

struct Moved {
  double adopted = 0, copied = 0, sent = 0, most = 0, early = 0;  // bytes; most: to one node
};

// Bytes of each growth, from the launcher's log, summed over the new ranks. The key is the last
// step before the growth.
std::map<std::int64_t, Moved> moved_bytes(const std::filesystem::path& log) {
  static const std::regex what("launch: ([a-z]+) committed at step ([0-9]+)");
  static const std::regex line(
      "generation [0-9]+ has adopted ([0-9]+) bytes, copied ([0-9]+), and got ([0-9]+) from other nodes, at most "
      "([0-9]+) on one; ([0-9]+) had come before the pause");
  std::map<std::int64_t, Moved> found;
  std::int64_t step = -1;
  std::ifstream in(log);
  std::smatch match;
  for (std::string text; std::getline(in, text);)
    if (std::regex_search(text, match, what)) step = match[1] == "grow" ? std::stoll(match[2]) : -1;
    else if (step >= 0 && std::regex_search(text, match, line))
      found[step] = {std::stod(match[1]), std::stod(match[2]), std::stod(match[3]), std::stod(match[4]),
                     std::stod(match[5])};
  return found;
}

// Figures of one hand-off, by name.
std::map<std::string, double> figures_of(const json& decision) {
  std::map<std::string, double> figures = decision.at("phases_ms").get<std::map<std::string, double>>();
  figures["pause_ms"] = decision.at("pause_ms").get<double>();
  return figures;
}

json medians(const std::vector<json>& decisions) {
  std::map<std::string, std::vector<double>> all;
  for (const json& decision : decisions)
    for (const auto& [name, value] : figures_of(decision)) all[name].push_back(value);
  json result = json::object(), phases = json::object();
  for (const auto& [name, values] : all) (name == "pause_ms" ? result : phases)[name] = median(values);
  result["phases_ms"] = phases;
  json pauses = json::array();
  for (const double pause : all["pause_ms"]) pauses.push_back(pause);
  result["pauses_ms"] = pauses;
  return result;
}

struct TimedStep {
  int generation = 0;
  double seconds = 0;
};

std::map<std::int64_t, TimedStep> steps_of(const std::filesystem::path& metrics) {
  std::map<std::int64_t, TimedStep> steps;
  std::ifstream in(metrics);
  for (std::string text; std::getline(in, text);) {
    const json line = json::parse(text, nullptr, false);
    if (line.is_object() && line.contains("loss")) steps[line.at("step")] = {line.at("generation"), line.at("seconds")};
  }
  return steps;
}

// Slowdown of steps while the next generation started: their mean, divided by the median of the
// quiet steps before, minus 1. Nothing when there are too few steps.
std::optional<double> slowdown(const std::map<std::int64_t, TimedStep>& steps, const json& decision) {
  const auto last = steps.find(decision.value("step", std::int64_t{0}));
  if (last == steps.end()) return std::nullopt;
  const json& phases = decision.at("phases_ms");
  const auto seconds = [&](const char* phase) { return phases.value(phase, 0.0) / 1000; };
  const double started = seconds("boundary"), start = started + seconds("start"),
               quiet = start + seconds("acquire") + 1;
  std::vector<double> beside, rest;
  double before_end = 0;
  for (auto at = std::make_reverse_iterator(std::next(last)); at != steps.rend(); ++at) {
    if (at->second.generation != last->second.generation) break;
    const double begun = before_end + at->second.seconds;
    if (before_end >= started && begun <= start) beside.push_back(at->second.seconds);
    if (before_end >= quiet) rest.push_back(at->second.seconds);
    before_end = begun;
  }
  if (rest.size() < 2 || beside.empty()) return std::nullopt;
  rest.pop_back();  // a generation's first step warms up
  return std::accumulate(beside.begin(), beside.end(), 0.0) / static_cast<double>(beside.size()) / median(rest) - 1;
}

}  // namespace

torchrt::ModelConfig pause_model(std::int64_t state_bytes) {
  // Tensors of whole multiples of 64 lie without a gap, as in real models.
  int hidden = 64;
  while (pause_state_bytes(model_of(hidden)) < state_bytes) hidden += 64;
  return model_of(hidden);
}

std::int64_t pause_state_bytes(const torchrt::ModelConfig& model) {
  std::size_t floats = 0;
  for (int unit = 0; unit <= model.layers + 1; ++unit)
    for (const torchrt::TensorSpec& tensor : torchrt::unit_spec(model, unit, 1, 0).tensors)
      if (!tensor.tied || unit == 0) floats += tensor.elements();
  return static_cast<std::int64_t>(3 * floats * sizeof(float));
}

std::vector<std::string> pause_settings(const torchrt::ModelConfig& model) {
  return {"model.layers=" + std::to_string(model.layers),
          "model.hidden=" + std::to_string(model.hidden),
          "model.heads=" + std::to_string(model.heads),
          "model.sequence=" + std::to_string(model.sequence),
          "training.global_batch=4",
          "training.micro_batches=4",
          "training.warmup_steps=0",
          "training.learning_rate=1e-5",
          "training.minimum_learning_rate=1e-5",
          "profile.every=8"};
}

json pause_figures(const std::filesystem::path& folder) {
  json decisions = read(folder / "decisions.json");
  if (decisions.is_object()) decisions = decisions.at("decisions");
  std::map<std::string, std::vector<json>> committed;
  for (const json& decision : decisions)
    if (decision.at("outcome").get<std::string>().starts_with("committed"))
      committed[decision.at("kind").get<std::string>()].push_back(decision);
  if (committed["grow"].empty()) throw Error(folder.string() + ": the job never grew; see its logs");
  json result = medians(committed["grow"]);
  result["grows"] = committed["grow"].size();
  if (!committed["shrink"].empty()) result["shrink"] = medians(committed["shrink"]);
  const auto steps = steps_of(folder / "A.jsonl");
  std::vector<double> slowdowns;
  for (const json& decision : committed["grow"])
    if (const auto one = slowdown(steps, decision)) slowdowns.push_back(*one);
  if (!slowdowns.empty()) result["slowdown_while_starting"] = median(slowdowns);
  const json link = read(folder / "link.json");
  const double link_rate = link.at("bytes_per_second").get<double>();
  result["link_bytes_per_second"] = link_rate;
  // All grows are alike: 2 -> 3 GPUs with the same plan. But some may be too late to send early.
  const auto moved = moved_bytes(folder / "A.out");
  std::vector<double> rates;
  int early = 0;
  for (const json& decision : committed["grow"]) {
    const auto found = moved.find(decision.value("step", std::int64_t{-1}));
    const double seconds = decision.at("phases_ms").value("load_send", 0.0) / 1000;
    if (found == moved.end()) continue;
    early += found->second.early > 0 ? 1 : 0;
    if (seconds > 0) rates.push_back(found->second.most / seconds);
  }
  result["grows_sent_early"] = early;
  if (!moved.empty()) {
    const Moved& first = moved.begin()->second;
    result["bytes_adopted"] = first.adopted;
    result["bytes_copied"] = first.copied;
    result["bytes_sent"] = first.sent;
    result["bytes_sent_early"] = first.early;
  }
  if (!rates.empty()) {
    result["busiest_node_bytes_per_second"] = median(rates);
    result["share_of_link"] = median(rates) / link_rate;
  }
  return result;
}

}  // namespace espalier::bench
