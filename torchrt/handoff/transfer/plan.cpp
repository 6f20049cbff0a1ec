#include "torchrt/handoff/transfer/plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

class TransferPlanner {
 public:
  TransferPlanner(const TransferRequest& request, TransferPlan& plan)
      : request_(request), plan_(plan), old_gpus_(request.before.ranks()), new_gpus_(request.after.ranks()) {
    ESPALIER_INVARIANT(request.message_bytes > 0 && request.message_bytes % 4 == 0);
    number_nodes();
    lost_.insert(request.lost.begin(), request.lost.end());
    torn_.insert(request.torn.begin(), request.torn.end());
    adopted_.resize(new_gpus_.size());
    copied_.assign(old_gpus_.size(), 0);
    received_.assign(new_gpus_.size(), 0);
    sent_.assign(new_gpus_.size() + old_gpus_.size(), 0);
    left_.assign(ranks_on_.size(), 0);
    sources_on_.resize(ranks_on_.size());
    needs_on_.resize(ranks_on_.size());
  }

  void run() {
    const std::vector<UnitGroup>& groups = plan_.groups_.list();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (request_.adopts)
        for (const int unit : groups[g].units) adopt(unit);
      for (std::size_t f = 0; f < groups[g].partition->fragments.size(); ++f)
        move(static_cast<int>(g), static_cast<int>(f));
    }
    order_messages();
  }

 private:
  // A party that can send a piece from its node.
  struct Carrier {
    int node = 0, party = -1;  // party -1: the node's new rank that has sent least
    MemoryId from;
    int after = -1;
  };

  template <class T>
  static T& at(std::vector<T>& list, int index) {
    return list[static_cast<std::size_t>(index)];
  }

  void number_nodes() {
    std::map<std::string, int> numbers;
    const auto number = [&](const GpuId& gpu) {
      return numbers.try_emplace(gpu.node, static_cast<int>(numbers.size())).first->second;
    };
    for (const GpuId& gpu : old_gpus_) old_node_.push_back(number(gpu));
    for (const GpuId& gpu : new_gpus_) new_node_.push_back(number(gpu));
    ranks_on_.resize(numbers.size());
    in_old_.assign(numbers.size(), 0);
    for (const int node : old_node_) at(in_old_, node) = 1;
    for (std::size_t r = 0; r < new_gpus_.size(); ++r) at(ranks_on_, new_node_[r]).push_back(static_cast<int>(r));
    std::map<GpuId, int> old_of;
    for (std::size_t r = 0; r < old_gpus_.size(); ++r) old_of[old_gpus_[r]] = static_cast<int>(r);
    new_of_old_.assign(old_gpus_.size(), -1);
    for (std::size_t r = 0; r < new_gpus_.size(); ++r) {
      const auto found = old_of.find(new_gpus_[r]);
      old_of_new_.push_back(found == old_of.end() ? -1 : found->second);
      if (found != old_of.end()) at(new_of_old_, found->second) = static_cast<int>(r);
    }
  }

  // An allocation is adopted at most once. Ranks with equal shards are interchangeable, so taking
  // the first that fits adopts the most.
  void adopt(int unit) {
    const StageLayout& old_stage = plan_.groups_.before().layout.stage_of_unit(unit);
    const StageLayout& new_stage = plan_.groups_.after().layout.stage_of_unit(unit);
    const auto fits = [&](int rank, int old_rank) {
      return !is_lost(old_rank, unit) &&
             plan_.shard({true, old_rank, unit}).same_memory(plan_.shard({false, rank, unit}));
    };
    std::set<int> taken;
    const auto take = [&](int rank, int old_rank) {
      taken.insert(old_rank);
      at(adopted_, rank).push_back(unit);
      plan_.adoptions_.push_back({rank, unit, old_rank});
      plan_.bytes_adopted_ += static_cast<std::int64_t>(plan_.shard({false, rank, unit}).state.bytes());
    };
    for (int rank = new_stage.first_rank; rank < new_stage.first_rank + new_stage.ranks(); ++rank) {
      const int old_rank = at(old_of_new_, rank);
      if (old_rank >= old_stage.first_rank && old_rank < old_stage.first_rank + old_stage.ranks() &&
          fits(rank, old_rank))
        take(rank, old_rank);
    }
    if (request_.gpu_memory) return;
    for (int rank = new_stage.first_rank; rank < new_stage.first_rank + new_stage.ranks(); ++rank) {
      if (is_adopted({false, rank, unit})) continue;
      for (int old_rank = old_stage.first_rank; old_rank < old_stage.first_rank + old_stage.ranks(); ++old_rank)
        if (at(old_node_, old_rank) == at(new_node_, rank) && taken.count(old_rank) == 0 && fits(rank, old_rank)) {
          take(rank, old_rank);
          break;
        }
    }
  }

  bool is_lost(int old_rank, int unit) const {
    return lost_.count(old_rank) != 0 || torn_.count({old_rank, unit}) != 0;
  }

  bool is_adopted(const MemoryId& memory) {
    const std::vector<int>& units = at(adopted_, memory.rank);
    return std::find(units.begin(), units.end(), memory.unit) != units.end();
  }

  void move(int group, int index) {
    const Piece whole{group, index, 0, plan_.fragment({group, index, 0, 0}).bytes};
    find_needs(whole);
    if (needing_.empty()) return;
    find_sources(whole);
    std::vector<int> wanting;  // nodes
    for (const int node : needing_) {
      if (at(sources_on_, node).empty()) {
        wanting.push_back(node);
        continue;
      }
      for (const MemoryId& need : at(needs_on_, node)) {
        const MemoryId source = nearest_source(need, node);
        at(copied_, source.rank) += whole.bytes;
        add_copy(plan_.copies_, whole, source, need);
      }
    }
    if (!wanting.empty()) send(whole, std::move(wanting));
  }

  void find_needs(const Piece& whole) {
    for (const int node : needing_) at(needs_on_, node).clear();
    needing_.clear();
    const UnitGroup& group = plan_.groups_.list()[static_cast<std::size_t>(whole.group)];
    for (const int shard : plan_.fragment(whole).after)
      for (const MemoryId& need : plan_.groups_.holders(group, false, shard)) {
        if (is_adopted(need)) continue;
        const int node = at(new_node_, need.rank);
        if (at(needs_on_, node).empty()) needing_.push_back(node);
        at(needs_on_, node).push_back(need);
      }
  }

  void find_sources(const Piece& whole) {
    for (std::vector<MemoryId>& sources : sources_on_) sources.clear();
    sources_.clear();
    const UnitGroup& group = plan_.groups_.list()[static_cast<std::size_t>(whole.group)];
    for (const int shard : plan_.fragment(whole).before)
      for (const MemoryId& source : plan_.groups_.holders(group, true, shard)) {
        if (is_lost(source.rank, source.unit)) continue;
        sources_.push_back(source);
        at(sources_on_, at(old_node_, source.rank)).push_back(source);
      }
    if (sources_.empty())
      throw Error("hand-off: state of unit " + std::to_string(group.units.front()) +
                  " is on no GPU that is left; resume from a checkpoint");
  }

  // A source on the need's node: the one on the same GPU, else the one from which least has been
  // copied.
  MemoryId nearest_source(const MemoryId& need, int node) {
    const std::vector<MemoryId>& sources = at(sources_on_, node);
    return *std::min_element(sources.begin(), sources.end(), [&](const MemoryId& a, const MemoryId& b) {
      const bool a_own = a.rank == at(old_of_new_, need.rank), b_own = b.rank == at(old_of_new_, need.rank);
      return a_own != b_own ? a_own : at(copied_, a.rank) < at(copied_, b.rank);
    });
  }

  void add_copy(std::vector<Copy>& list, const Piece& piece, const MemoryId& from, const MemoryId& to) {
    list.push_back({piece, from, to});
    plan_.bytes_copied_ += static_cast<std::int64_t>(piece.bytes);
  }

  // Each wanting node gets each piece once, from the node and party that have sent least. A node
  // that has a piece passes it on.
  void send(const Piece& whole, std::vector<int> wanting) {
    std::vector<Carrier> carriers;
    for (const MemoryId& source : sources_) {
      const int node = at(old_node_, source.rank);
      const bool leaves = at(ranks_on_, node).empty();
      carriers.push_back({node, leaves ? plan_.new_ranks() + source.rank : at(new_of_old_, source.rank), source});
    }
    const std::size_t holders = carriers.size();
    // The nodes that donors can reach come first: they can pass the pieces on to other nodes.
    if (request_.two_worlds)
      std::stable_partition(wanting.begin(), wanting.end(), [&](int node) { return at(in_old_, node) != 0; });
    for (std::size_t first = 0; first < whole.bytes; first += request_.message_bytes) {
      const Piece piece{whole.group, whole.fragment, first, std::min(request_.message_bytes, whole.bytes - first)};
      carriers.resize(holders);
      for (const int node : wanting) send_to(node, piece, carriers);
    }
  }

  void send_to(int node, const Piece& piece, std::vector<Carrier>& carriers) {
    const std::vector<MemoryId>& needs = at(needs_on_, node);
    const MemoryId lead = *std::min_element(needs.begin(), needs.end(), [&](const MemoryId& a, const MemoryId& b) {
      return at(received_, a.rank) < at(received_, b.rank);
    });
    const bool spares_donors =
        request_.two_worlds && at(in_old_, node) == 0 &&
        std::any_of(carriers.begin(), carriers.end(), [&](const Carrier& one) { return !plan_.is_donor(one.party); });
    int best = -1, sender = -1;
    for (std::size_t c = 0; c < carriers.size(); ++c) {
      if (spares_donors && plan_.is_donor(carriers[c].party)) continue;
      const int party = carriers[c].party >= 0 ? carriers[c].party : least_sender(carriers[c].node);
      if (best >= 0) {
        const std::size_t here = at(left_, carriers[c].node), there = at(left_, at(carriers, best).node);
        if (here > there || (here == there && at(sent_, party) >= at(sent_, sender))) continue;
      }
      best = static_cast<int>(c);
      sender = party;
    }
    const Carrier& carrier = at(carriers, best);
    const int message = static_cast<int>(plan_.messages_.size());
    plan_.messages_.push_back({piece, sender, lead.rank, carrier.from, lead, carrier.after});
    plan_.bytes_sent_ += static_cast<std::int64_t>(piece.bytes);
    at(left_, carrier.node) += piece.bytes;
    at(sent_, sender) += piece.bytes;
    at(received_, lead.rank) += piece.bytes;
    carriers.push_back({node, lead.rank, lead, message});
    for (const MemoryId& need : needs)
      if (need != lead) add_copy(plan_.late_copies_, piece, lead, need);
  }

  int least_sender(int node) {
    const std::vector<int>& ranks = at(ranks_on_, node);
    return *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) { return at(sent_, a) < at(sent_, b); });
  }

  // Orders the messages by rounds, then as they were made. In a round every party sends at most one
  // message and receives at most one, because links carry both at once.
  void order_messages() {
    std::vector<Message>& messages = plan_.messages_;
    std::vector<int> sends(sent_.size(), 0), receives(sent_.size(), 0), round(messages.size()), begins;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      int& sender = at(sends, messages[m].sender);
      int& receiver = at(receives, messages[m].receiver);
      const int earliest = messages[m].after >= 0 ? at(round, messages[m].after) + 1 : 0;
      round[m] = std::max({sender, receiver, earliest});
      sender = receiver = round[m] + 1;
      begins.resize(std::max(begins.size(), static_cast<std::size_t>(round[m]) + 2), 0);
      ++begins[static_cast<std::size_t>(round[m]) + 1];
    }
    for (std::size_t r = 1; r < begins.size(); ++r) begins[r] += begins[r - 1];
    std::vector<int> place(messages.size());
    for (std::size_t m = 0; m < messages.size(); ++m) place[m] = at(begins, round[m])++;
    std::vector<Message> ordered(messages.size());
    for (std::size_t m = 0; m < messages.size(); ++m) {
      Message& message = at(ordered, place[m]);
      message = messages[m];
      if (message.after >= 0) message.after = at(place, message.after);
    }
    messages = std::move(ordered);
  }

  const TransferRequest& request_;
  TransferPlan& plan_;
  std::vector<GpuId> old_gpus_, new_gpus_;
  std::vector<int> old_node_, new_node_;      // by rank
  std::vector<int> old_of_new_, new_of_old_;  // the rank on the same GPU; -1: none
  std::vector<char> in_old_;                  // by node: the old generation is there
  std::vector<std::vector<int>> ranks_on_;    // new ranks, by node
  std::set<int> lost_;                        // old ranks
  std::set<std::pair<int, int>> torn_;        // old ranks and units
  std::vector<std::size_t> copied_;           // bytes so far, by old rank
  std::vector<std::size_t> received_, sent_;  // by new rank; by party
  std::vector<std::size_t> left_;             // bytes sent, by node
  std::vector<std::vector<int>> adopted_;     // units, by new rank
  // Of the current fragment.
  std::vector<MemoryId> sources_;
  std::vector<std::vector<MemoryId>> sources_on_, needs_on_;  // by node
  std::vector<int> needing_;                                  // nodes
};

TransferPlan::TransferPlan(const ModelConfig& model, const TransferRequest& request)
    : groups_(model, request.dtype, {make_memory_layout(request.before, model.blocks()), request.zero1_before},
              {make_memory_layout(request.after, model.blocks()), request.zero1_after}) {
  TransferPlanner(request, *this).run();
}

}  // namespace espalier::torchrt
