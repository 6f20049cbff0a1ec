#include "torchrt/profiler/layer_alone.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "torchrt/device/device_error.hpp"
#include "torchrt/device/memory_error.hpp"
#include "torchrt/profiler/unit_profiler.hpp"
#include "torchrt/reported_shape.hpp"

namespace espalier::torchrt {

namespace {

// Of one degree and number of samples. Fewer than four timed rounds tell no spread (step_statistics.hpp).
constexpr UnitRounds kRounds{1, 8, 1.5};
constexpr double kSteady = 0.1;    // the largest spread of times that still tell something
constexpr double kNothing = 0.02;  // of a layer's time: an embedding that takes less than this may take any part of it
constexpr int kMostDegree = 16;    // GPUs of a node that a layer is divided among

// The plan's degree, and then the others, each once: first those that differ least from it.
std::vector<int> in_order(const LayerLook& look) {
  std::set<std::pair<double, int>> order;
  for (const int tp : look.degrees)
    if (tp != look.tp) order.emplace(std::abs(std::log2(static_cast<double>(tp) / look.tp)), tp);
  std::vector<int> degrees = {look.tp};
  for (const auto& [distance, tp] : order) degrees.push_back(tp);
  return degrees;
}

// A layer is measured with one sample and with more, so that what does not depend on the samples shows.
std::vector<int> sample_counts(int samples, int global_batch) {
  if (samples > 1) return {samples, 1};
  return global_batch > 1 ? std::vector{1, 2} : std::vector{1};
}

}  // namespace

std::vector<int> degrees_to_measure(const Config& config, const ParallelLimits& asked, int tp) {
  if (config.training.accuracy == Accuracy::bitwise || asked.tp > 0) return {tp};
  if (!asked.tp_degrees.empty()) return asked.tp_degrees;
  std::vector<int> degrees = tp_degrees(reported_shape(config));
  std::erase_if(degrees, [](int degree) { return degree > kMostDegree; });
  return degrees;
}

MeasuredAlone measure_alone(const Config& config, Device& device, const LayerLook& look) {
  Config alone = config;
  alone.model.mtp_layers = 0;  // a module is no layer
  const auto start = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= look.most_seconds;
  };
  MeasuredAlone found;
  bool told = false;
  // Forward and backward, in ms. nullopt: left out.
  const auto measured = [&](UnitKind kind, int tp, int samples) -> std::optional<double> {
    try {
      const UnitProfile unit = measure_unit(alone, device, {kind, tp, samples, 1}, kRounds).profile;
      const double ms = unit.forward + unit.backward + unit.weight_gradient;
      if (unit.spread <= kSteady || (!found.layers.empty() && ms < kNothing * found.layers.front().ms)) return ms;
    } catch (const DeviceError&) {
      throw;
    } catch (const MemoryError&) {
    } catch (const std::bad_alloc&) {
    } catch (const Error& error) {
      // E.g. the table of an imitated device has no such row. Perhaps no plan ever needs it.
      if (!std::exchange(told, true))
        std::fprintf(stderr, "espalier: train: %s with TP degree %d and %d sample(s) is not measured: %s\n",
                     kind == UnitKind::block ? "a layer" : ("the " + to_string(kind)).c_str(), tp, samples,
                     error.what());
    }
    return std::nullopt;
  };
  for (const int tp : in_order(look)) {
    if (is_late()) break;
    for (const int samples : sample_counts(look.samples, config.training.global_batch)) {
      if (const auto ms = measured(UnitKind::block, tp, samples)) found.layers.push_back({tp, samples, *ms});
      // MTP modules are at the pipeline's end, too, and are not measured.
      if (tp != look.tp || samples != look.samples || found.layers.empty() || config.model.mtp_layers > 0) continue;
      const auto first = measured(UnitKind::embedding, tp, samples);
      const auto last = first ? measured(UnitKind::head, tp, samples) : std::nullopt;
      if (last) found.edges = {tp, samples, *first, *last};
    }
  }
  return found;
}

}  // namespace espalier::torchrt
