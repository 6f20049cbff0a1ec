#include "planner/wire/capabilities.hpp"

#include <algorithm>
#include <set>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"

namespace espalier::wire {
namespace {

constexpr int kLongestStart = 3600, kMostUnit = 1024, kMostUnits = 16, kMostSamples = 1 << 20, kMostMissed = 3600;
constexpr std::size_t kLongestProgram = 128;

void demand(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high)
    throw Error("hello.capabilities." + std::string(field) + ": must be between " + std::to_string(low) + " and " +
                std::to_string(high));
}

// Puts `unit` first.
void order_units(std::vector<int>& units, int unit) {
  demand("units: their number", static_cast<std::int64_t>(units.size()), 1, kMostUnits);
  for (const int one : units) demand("units: each", one, 1, kMostUnit);
  if (std::set(units.begin(), units.end()).size() != units.size())
    throw Error("hello.capabilities.units: names a number twice");
  const auto at = std::find(units.begin(), units.end(), unit);
  if (at == units.end()) throw Error("hello.capabilities.units: must hold unit");
  std::rotate(units.begin(), at, at + 1);
}

Capabilities capabilities_of(const Json& json) {
  const Fields fields(json, "hello.capabilities");
  Capabilities can;
  std::string parallel = "plan";
  fields.get_if_there("parallel", parallel);
  if (parallel != "plan" && parallel != "data")
    throw Error("hello.capabilities.parallel: must be \"plan\" or \"data\"");
  can.data_only = parallel == "data";
  int unit = 1;
  fields.get_if_there("unit", unit);
  can.units = {unit};
  fields.get_if_there("units", can.units);
  fields.get_if_there("start_seconds", can.start_seconds);
  fields.get_if_there("program", can.program);
  fields.get_if_there("missed_heartbeats", can.missed_heartbeats);
  fields.get_if_there("in_place", can.in_place);
  fields.get_if_there("lists", can.lists);
  if (can.data_only) fields.get("global_batch", can.global_batch);
  demand("unit", unit, 1, kMostUnit);
  order_units(can.units, unit);
  demand("missed_heartbeats", can.missed_heartbeats, 0, kMostMissed);
  demand("start_seconds", can.start_seconds, 0, kLongestStart);
  if (can.data_only) demand("global_batch", can.global_batch, 1, kMostSamples);
  if (can.program.size() > kLongestProgram)
    throw Error("hello.capabilities.program: is longer than " + std::to_string(kLongestProgram) + " bytes");
  return can;
}

}  // namespace

WorkerHello read_hello(const Frame& frame) {
  WorkerHello read;
  if (const auto at = frame.body.find("capabilities"); at != frame.body.end()) read.can = capabilities_of(*at);
  if (!read.can.data_only) {
    read.hello = from_frame<Hello>(frame);
    return read;
  }
  Frame planned = frame;
  planned.body["model"] = data_parallel_shape(read.can.global_batch, read.can.units, read.can.program);
  planned.body["parallel"] = data_parallel_limits(read.can.units);
  read.hello = from_frame<Hello>(planned);
  return read;
}

}  // namespace espalier::wire
