// What a rank computes and communicates with.
#pragma once

#include <map>
#include <vector>

#include "torchrt/comm/fabric.hpp"
#include "torchrt/comm/world.hpp"
#include "torchrt/config.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/layout.hpp"
#include "torchrt/model/compute.hpp"
#include "torchrt/profiler/timed_group.hpp"
#include "torchrt/range.hpp"
#include "torchrt/schedule/op.hpp"
#include "torchrt/unit_times.hpp"

namespace espalier::torchrt {

// A rank's parts for computing and communicating. The references must outlive what uses it.
struct Engine {
  const Config& config;
  const Layout& layout;
  ScheduleOptions options;
  World& world;
  Fabric& fabric;
  Device& device;
  Compute& compute;
  TimedGroup* tensor_group = nullptr;  // that `compute` sums over; null: TP is 1
  Group* replicas = nullptr;           // the stage's ranks with this TP rank; null: no other
  // ZeRO-1: by unit, each replica's range of elements; else empty.
  std::map<int, std::vector<Range>> parts;
  // By this rank's units: how long an imitated device takes for its micro-batch. Empty: full speed.
  std::map<int, UnitTimes> device_times;
};

}  // namespace espalier::torchrt
