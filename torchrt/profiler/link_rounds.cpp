#include "torchrt/profiler/link_rounds.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "planner/core/link_look.hpp"

namespace espalier::torchrt {

namespace {

class Rounds {
 public:
  explicit Rounds(const Plan& plan) : gpus_(plan.ranks()) {}

  void add(int from, int to) {
    const std::string &a = gpus_[static_cast<std::size_t>(from)].node, &b = gpus_[static_cast<std::size_t>(to)].node;
    if (a == b || seen_.size() == kMostLinkFigures || !seen_.insert(std::minmax(a, b)).second) return;
    std::size_t at = 0;
    while (at < rounds_.size() && (busy_[at].contains(a) || busy_[at].contains(b))) ++at;
    if (at == kMostRounds) return;
    if (at == rounds_.size()) {
      rounds_.emplace_back();
      busy_.emplace_back();
    }
    rounds_[at].push_back({from, to});
    busy_[at].insert({a, b});
  }

  std::vector<Round> take() { return std::move(rounds_); }

 private:
  std::vector<GpuId> gpus_;  // by rank
  std::set<std::pair<std::string, std::string>> seen_;
  std::vector<Round> rounds_;
  std::vector<std::set<std::string>> busy_;  // nodes, by round
};

}  // namespace

std::vector<Round> link_rounds(const Plan& plan) {
  Rounds rounds(plan);
  int first = 0;  // rank of the stage
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const int replicas = static_cast<int>(stage.replicas.size());
    const int after = first + replicas * stage.tp;
    if (s + 1 < plan.stages.size()) {
      const Stage& next = plan.stages[s + 1];
      const int others = static_cast<int>(next.replicas.size());
      for (int j = 0; j < std::max(replicas, others); ++j)
        rounds.add(first + j % replicas * stage.tp, after + j % others * next.tp);
    }
    // In a ring, as sums go.
    for (int j = 0; replicas > 1 && j < replicas; ++j)
      rounds.add(first + j * stage.tp, first + (j + 1) % replicas * stage.tp);
    first = after;
  }
  return rounds.take();
}

}  // namespace espalier::torchrt
