#include "torchrt/unit_times.hpp"

#include <unistd.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/text_limits.hpp"
#include "torchrt/checksum.hpp"
#include "torchrt/model_flops.hpp"

namespace espalier::torchrt {

namespace {

constexpr double kMostMilliseconds = 1e6;
constexpr const char* kKinds[] = {"embedding", "block", "mtp", "head"};  // as UnitPart

double seconds(const nlohmann::json& row, const char* key) {
  const double ms = row.at(key).get<double>();
  if (!std::isfinite(ms) || ms < 0 || ms > kMostMilliseconds)
    throw Error(std::string(key) + ": must lie between 0 and 1e6");
  return ms / 1000;
}

int count(const nlohmann::json& row, const char* key) {
  const auto value = row.at(key).get<std::int64_t>();
  if (value < 1 || value > 1 << 20) throw Error(std::string(key) + ": must lie between 1 and 1048576");
  return static_cast<int>(value);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

double between(double low, double high, double share) { return low + share * (high - low); }

}  // namespace

DeviceTimes::DeviceTimes(const std::string& path) : path_(path) {
  std::ifstream in = open_input(path);
  if (!in) throw Error("device.times: " + path + ": cannot be read");
  try {
    const std::string text = read_text(in, kMaxTomlText);
    checksum_ = torchrt::checksum(text.data(), text.size());
    const auto file = parse_json(text);
    const std::string host = host_name();
    if (file.contains("hosts") && !file.at("hosts").contains(host))
      throw Error("hosts: has no table for " + host + "; add one");
    const auto& table = file.contains("hosts") ? file.at("hosts").at(host) : file;
    for (const auto& row : table.at("rows")) {
      const auto name = row.at("unit").get<std::string>();
      std::size_t kind = 0;
      while (kind < std::size(kKinds) && name != kKinds[kind]) ++kind;
      if (kind == std::size(kKinds)) throw Error("unit: is \"" + name + "\"; known are embedding, block, mtp and head");
      const UnitTimes times{seconds(row, "forward_ms"), seconds(row, "backward_ms"), seconds(row, "weight_gradient_ms"),
                            seconds(row, "update_ms")};
      if (!rows_[{static_cast<UnitPart>(kind), count(row, "tp")}].emplace(count(row, "samples"), times).second)
        throw Error("two rows for unit " + name + ", tp " + row.at("tp").dump() + ", samples " +
                    row.at("samples").dump());
    }
  } catch (const nlohmann::json::exception& problem) {
    throw Error("device.times: " + path + ": " + problem.what());
  } catch (const Error& problem) {
    throw Error("device.times: " + path + ": " + problem.what());
  }
}

UnitTimes DeviceTimes::of(const ModelConfig& model, int unit, int tp, int samples) const {
  const UnitPart kind = unit_part(model, unit);
  const auto complain = [&](const std::string& what) -> Error {
    return Error("device.times: " + path_ + ": has no row for unit " + kKinds[static_cast<std::size_t>(kind)] +
                 ", tp " + std::to_string(tp) + what + "; add one");
  };
  const auto found = rows_.find({kind, tp});
  if (found == rows_.end()) throw complain("");
  const auto& by_samples = found->second;
  const auto above = by_samples.lower_bound(samples);
  if (above != by_samples.end() && above->first == samples) return above->second;
  if (above == by_samples.begin() || above == by_samples.end())
    throw complain(" and " + std::to_string(samples) + " samples or more, and for as many or fewer");
  const auto below = std::prev(above);
  const double share = static_cast<double>(samples - below->first) / (above->first - below->first);
  const UnitTimes &a = below->second, &b = above->second;
  return {between(a.forward, b.forward, share), between(a.backward, b.backward, share),
          between(a.weight_gradient, b.weight_gradient, share), between(a.update, b.update, share)};
}

UnitTimes unit_times(const ModelConfig& model, int unit, int tp, int samples, double flops_per_second) {
  const UnitFlops flops = unit_flops(model, unit, tp);
  const double tokens = static_cast<double>(samples) * model.sequence / flops_per_second;
  return {tokens * flops.forward, tokens * flops.backward, tokens * flops.weight_gradient,
          flops.update / flops_per_second};
}

}  // namespace espalier::torchrt
