#include "torchrt/probe/probe.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "planner/core/error.hpp"
#include "planner/core/probe/report.hpp"
#include "torchrt/model/compute.hpp"
#include "torchrt/model/device_speed.hpp"
#include "torchrt/model/prepare_torch.hpp"
#include "torchrt/probe/links.hpp"
#include "torchrt/probe/rounds.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::size_t kSmallest = 64 << 10, kStep = 4;
constexpr double kLongestOperation = 0.3;  // seconds; larger messages say nothing new
constexpr double kLongestRound = 1.5;

// Slurm's name of this node.
std::string node_name() {
  if (const char* name = std::getenv("SLURMD_NODENAME")) return name;
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  return host;
}

class Probe {
 public:
  Probe(const ProbeRequest& request, World& world)
      : request_(request), world_(world), device_(make_device(std::nullopt, world.local_rank())) {
    const std::string self = node_name();
    for (const auto& name : world.gather({self.data(), self.size()})) {
      names_.emplace_back(name.begin(), name.end());
      ranks_[names_.back()].push_back(static_cast<int>(names_.size()) - 1);
    }
    for (const auto& [a, b] : request.pairs)
      for (const std::string& name : {a, b})
        if (!ranks_.contains(name)) throw Error("node " + name + ": no rank runs there; see the output of srun above");
    fabric_ = make_fabric(world, *device_, false);
    links_ = std::make_unique<LinkProbe>(world, *device_, *fabric_);
  }

  bool run() {
    gpus();
    insides();
    for (const NodePair& pair : request_.pairs) {
      for (const bool forth : {true, false}) between(forth ? pair : NodePair{pair.second, pair.first});
      pair_reduce(pair);
    }
    return complete_;
  }

 private:
  // False when no time is left: the same on all ranks.
  bool in_time() {
    const bool left = seconds_since(start_) < request_.seconds;
    const bool all = world_.minimum(left ? 1 : 0) == 1;
    complete_ = complete_ && all;
    return all;
  }
  template <class Row>
  void print(const Row& row) const {
    if (world_.rank() != 0) return;
    std::printf("%s\n", to_line(row).c_str());
    std::fflush(stdout);
  }

  // GPUs do not disturb each other, and work at the same time in trainings, too. Ranks on
  // processors share them, and take turns.
  void gpus() {
    const bool at_once = device_->kind() == DeviceKind::cuda;
    DeviceSpeed own;
    for (int turn = 0; turn < (at_once ? 1 : world_.size()) && in_time(); ++turn) {
      if (at_once || turn == world_.rank()) own = measure_speed(*device_);
      world_.barrier();
    }
    const auto all = world_.gather({reinterpret_cast<const char*>(&own), sizeof own});
    for (const auto& [name, ranks] : ranks_)
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        DeviceSpeed speed;
        std::memcpy(&speed, all[static_cast<std::size_t>(ranks[i])].data(), sizeof speed);
        if (speed.tflops > 0) print(GpuSpeed{name, static_cast<int>(i), speed.tflops, speed.memory_gb_s});
      }
  }

  // One node after the other: nodes may share an oversubscribed processor, or power. And all of them twice, some time
  // apart: a node that something disturbs for a while is not slow (findings.hpp takes the better figure).
  void insides() {
    const auto own = ranks_.at(names_[static_cast<std::size_t>(world_.rank())]);
    const std::unique_ptr<Group> group = fabric_->group(own);
    for (int round = 0; round < 2; ++round)
      for (const auto& [name, ranks] : ranks_) {
        if (ranks.size() < 2) continue;
        for (const bool activations : {true, false})
          sizes(group.get(), ranks == own, {name, "", activations, static_cast<int>(ranks.size()), 0, 0});
      }
  }

  void pair_reduce(const NodePair& pair) {
    if (!in_time()) return;
    const std::vector<int> ends{ranks_.at(pair.first).front(), ranks_.at(pair.second).front()};
    const bool member = world_.rank() == ends[0] || world_.rank() == ends[1];
    const auto group = fabric_->group(member ? std::vector<int>{std::min(ends[0], ends[1]), std::max(ends[0], ends[1])}
                                             : std::vector<int>{world_.rank()});
    sizes(group.get(), member, {pair.first, pair.second, false, 2, 0, 0});
  }

  void sizes(Group* group, bool measures, ReduceSpeed row) {
    double seconds = 0;
    for (std::size_t bytes = kSmallest; bytes <= links_->largest() && seconds * kStep < kLongestOperation;
         bytes *= kStep) {
      if (!in_time()) return;
      seconds = links_->reduce(group, measures, bytes, row.activations);
      row.bytes = static_cast<double>(bytes);
      row.gb_s = 2 * (1 - 1.0 / row.members) * row.bytes / seconds / 1e9;
      print(row);
    }
  }

  // One message stream alone, and one of every GPU at once.
  void between(const NodePair& way) {
    const auto &from = ranks_.at(way.first), &to = ranks_.at(way.second);
    const std::size_t most = std::min(from.size(), to.size());
    stream_sizes(way, from, to, 1);
    if (most > 1) stream_sizes(way, from, to, most);
  }

  void stream_sizes(const NodePair& way, const std::vector<int>& from, const std::vector<int>& to,
                    std::size_t streams) {
    std::vector<std::pair<int, int>> ways;
    for (std::size_t i = 0; i < streams; ++i) ways.emplace_back(from[i], to[i]);
    double slowest = 0;
    for (std::size_t bytes = kSmallest * kStep * kStep; bytes <= links_->largest(); bytes *= kStep * kStep) {
      if (slowest > 0 && 4.0 * static_cast<double>(bytes) / slowest > kLongestRound) return;
      if (!in_time()) return;
      const auto rates = links_->stream(ways, bytes);
      double sum = 0;
      for (const double rate : rates) sum += rate;
      slowest = *std::min_element(rates.begin(), rates.end());
      print(LinkSpeed{way.first, way.second, static_cast<int>(streams), static_cast<double>(bytes), sum / 1e9});
    }
  }

  const ProbeRequest& request_;
  World& world_;
  const ProbeClock::time_point start_ = ProbeClock::now();
  std::unique_ptr<Device> device_;
  std::vector<std::string> names_;                 // by rank
  std::map<std::string, std::vector<int>> ranks_;  // by node
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<LinkProbe> links_;
  bool complete_ = true;
};

}  // namespace

int run_probe(const ProbeRequest& request, World& world) {
  prepare_torch(1);
  {
    Probe probe(request, world);
    const bool complete = probe.run();
    if (world.rank() == 0) std::printf("%s\n", last_line(complete).c_str());
    std::fflush(stdout);
  }
  world.finalize();
  return 0;
}

}  // namespace espalier::torchrt
