#include "torchrt/handoff/transfer_plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "planner/core/error.hpp"
#include "torchrt/layout.hpp"

namespace espalier::torchrt {

namespace {

class Planner {
 public:
  Planner(const Plan& before, const Plan& after, int layers, bool gpu_memory)
      : old_(make_layout(before, layers)),
        new_(make_layout(after, layers)),
        old_gpus_(before.ranks()),
        new_gpus_(after.ranks()),
        gpu_memory_(gpu_memory) {}

  TransferPlan run() {
    for (int unit = 0; unit < old_.units; ++unit) {
      const int degree = old_.stage_of_unit(unit).tp, next = new_.stage_of_unit(unit).tp;
      if (degree != next)
        throw Error("hand-off: the layers of unit " + std::to_string(unit) + " would change their TP degree from " +
                    std::to_string(degree) + " to " + std::to_string(next) +
                    ", which running jobs cannot; choose plans that keep each layer's TP degree");
      for (int part = 0; part < degree; ++part) {
        const Piece piece{unit, part};
        find_holders(piece);
        collapse(piece);
        take(piece);
      }
    }
    std::sort(plan_.takes.begin(), plan_.takes.end(),
              [](const Take& a, const Take& b) { return std::pair(a.rank, a.piece) < std::pair(b.rank, b.piece); });
    return std::move(plan_);
  }

 private:
  using Ranks = std::vector<int>;

  const std::string& old_node(int rank) const { return old_gpus_[static_cast<std::size_t>(rank)].node; }
  const std::string& new_node(int rank) const { return new_gpus_[static_cast<std::size_t>(rank)].node; }

  static Ranks owners(const Layout& layout, const Piece& piece) {
    const StageLayout& stage = layout.stage_of_unit(piece.unit);
    Ranks ranks;
    for (int j = 0; j < stage.replicas; ++j) ranks.push_back(stage.rank(j, piece.part));
    return ranks;
  }

  void find_holders(const Piece& piece) {
    holders_.clear();
    for (const int rank : owners(old_, piece)) holders_[old_node(rank)].push_back(rank);
    takers_ = owners(new_, piece);
  }

  // The piece's new home on `node` inside the old generation: on the taker's own GPU if it can be, else where least
  // came.
  void collapse_to(const Piece& piece, const std::string& node, const GpuId* preferred) {
    int best = -1;
    for (std::size_t r = 0; r < old_gpus_.size(); ++r) {
      const int rank = static_cast<int>(r);
      if (old_gpus_[r].node != node) continue;
      if (preferred && old_gpus_[r] == *preferred) {
        best = rank;
        break;
      }
      if (best < 0 || arrivals_[rank] < arrivals_[best]) best = rank;
    }
    ++arrivals_[best];
    plan_.collapses.push_back({piece, owners(old_, piece).front(), best});
    holders_[node].push_back(best);
  }

  bool in_old(const std::string& node) const {
    return std::any_of(old_gpus_.begin(), old_gpus_.end(), [&](const GpuId& gpu) { return gpu.node == node; });
  }

  void collapse(const Piece& piece) {
    for (const int rank : takers_) {
      const GpuId& gpu = new_gpus_[static_cast<std::size_t>(rank)];
      if (holders_.count(gpu.node) == 0 && in_old(gpu.node)) collapse_to(piece, gpu.node, &gpu);
    }
    const bool reachable = std::any_of(new_gpus_.begin(), new_gpus_.end(),
                                       [&](const GpuId& gpu) { return holders_.count(gpu.node) != 0; });
    if (reachable) return;
    // No taker's node was in the old generation, and the holders' nodes all leave: pass through any node of both.
    const auto common =
        std::find_if(new_gpus_.begin(), new_gpus_.end(), [&](const GpuId& gpu) { return in_old(gpu.node); });
    if (common == new_gpus_.end())
      throw Error("hand-off: the old and the new plan share no node; keep one GPU on a node of the old plan");
    collapse_to(piece, common->node, nullptr);
  }

  void take(const Piece& piece) {
    std::set<int> adopted;
    std::map<int, Take> taken;
    const auto adopt_where = [&](const auto& suits) {
      for (const int rank : takers_) {
        const auto local = holders_.find(new_node(rank));
        if (taken.count(rank) != 0 || local == holders_.end()) continue;
        for (const int holder : local->second)
          if (adopted.count(holder) == 0 && suits(rank, holder)) {
            adopted.insert(holder);
            taken[rank] = {rank, piece, TakeKind::adopt, holder};
            break;
          }
      }
    };
    adopt_where([&](int rank, int holder) {
      return new_gpus_[static_cast<std::size_t>(rank)] == old_gpus_[static_cast<std::size_t>(holder)];
    });
    if (!gpu_memory_) adopt_where([](int, int) { return true; });
    for (const int rank : takers_) {
      const auto local = holders_.find(new_node(rank));
      if (taken.count(rank) == 0 && local != holders_.end())
        taken[rank] = {rank, piece, TakeKind::copy, local->second.front()};
    }
    for (const int rank : takers_)
      if (taken.count(rank) == 0) plan_.takes.push_back({rank, piece, TakeKind::receive, donate(piece, rank, taken)});
    for (const auto& [rank, take] : taken) plan_.takes.push_back(take);
  }

  // The least burdened rank that holds the piece anyway, else the least burdened one beside a holder.
  int donate(const Piece& piece, int to, const std::map<int, Take>& taken) {
    int best = -1;
    for (std::size_t r = 0; r < new_gpus_.size(); ++r) {
      const int rank = static_cast<int>(r);
      if (!taken.empty() ? taken.count(rank) == 0 : holders_.count(new_node(rank)) == 0) continue;
      if (best < 0 || donated_[rank] < donated_[best]) best = rank;
    }
    ESPALIER_INVARIANT(best >= 0);
    ++donated_[best];
    plan_.donations.push_back({piece, best, to, taken.count(best) != 0 ? -1 : holders_.at(new_node(best)).front()});
    return best;
  }

  Layout old_, new_;
  std::vector<GpuId> old_gpus_, new_gpus_;
  bool gpu_memory_;
  std::map<std::string, Ranks> holders_;  // of the piece at hand, by node
  Ranks takers_;
  std::map<int, int> arrivals_, donated_;  // pieces so far, by rank
  TransferPlan plan_;
};

}  // namespace

bool TransferPlan::collapsed(const Piece& piece, int old_rank) const {
  return std::any_of(collapses.begin(), collapses.end(),
                     [&](const Collapse& collapse) { return collapse.piece == piece && collapse.to == old_rank; });
}

TransferPlan plan_transfer(const Plan& before, const Plan& after, int layers, bool gpu_memory) {
  return Planner(before, after, layers, gpu_memory).run();
}

}  // namespace espalier::torchrt
