#include "tests/unit/torchrt_transfer_rehearsal.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

std::vector<MemoryId> filled_early(const TransferPlan& plan, const EarlyPlan& early) {
  std::vector<MemoryId> filled;
  for (int rank = 0; rank < plan.new_ranks(); ++rank)
    for (const int unit : plan.groups().after().layout.ranks[static_cast<std::size_t>(rank)].units)
      if (early.fills(rank, unit)) filled.push_back({false, rank, unit});
  return filled;
}

namespace {

class Rehearsal {
 public:
  Rehearsal(const TransferPlan& plan, const TransferRequest& request, Memories& memories, std::mt19937& random)
      : plan_(plan), request_(request), memories_(memories), random_(random) {
    for (const GpuId& gpu : request.before.ranks()) old_nodes_.push_back(gpu.node);
    for (const GpuId& gpu : request.after.ranks()) new_nodes_.push_back(gpu.node);
    for (int rank = 0; rank < plan.new_ranks(); ++rank) ranks_.push_back(operations(plan, rank));
  }

  std::vector<std::string> run() {
    adopt();
    copy();
    if (request_.two_worlds) {
      const Routes routes = make_routes(plan_, request_);
      make_relays(routes);
      // State from the old world may come after all operations that do not need it.
      const auto [own, given] = halves_of(operations_of(routes.new_world, new_nodes_));
      exchange(own, new_nodes_);
      exchange(operations_of(routes.old_world, old_nodes_), old_nodes_);
      exchange(given, new_nodes_);
      std::erase_if(memories_, [](const auto& memory) { return memory.first.unit == kRelay; });
    } else {
      std::vector<std::string> nodes = new_nodes_;
      nodes.insert(nodes.end(), old_nodes_.begin(), old_nodes_.end());
      exchange(operations_of(plan_.messages(), nodes), nodes);
    }
    copy_late();
    return std::move(problems_);
  }

  std::vector<std::string> run_early(const StepInBetween& between) {
    constexpr int kSlices = 3;
    const Routes routes = make_routes(plan_, request_);
    const EarlyPlan early(plan_, routes);
    allocate();
    make_relays(routes);
    std::vector<Parties> slices(kSlices), last(1);
    for (std::size_t rank = 0; rank < new_nodes_.size(); ++rank) {
      const auto mine = early.slices(message_operations(plan_, routes.new_world, static_cast<int>(rank)), kSlices);
      for (std::size_t slice = 0; slice < kSlices; ++slice) slices[slice].push_back(mine[slice]);
      last[0].push_back(early.last(message_operations(plan_, routes.new_world, static_cast<int>(rank))));
    }
    early_ = true;
    for (const Parties& slice : slices) exchange(slice, new_nodes_);
    early_ = false;
    std::vector<EarlyCopies> copies;
    for (std::size_t rank = 0; rank < new_nodes_.size(); ++rank) copies.push_back(early.copies(static_cast<int>(rank)));
    play_all(copies, &EarlyCopies::early);
    between.step(memories_);
    const std::vector<MemoryId> filled = filled_early(plan_, early);
    for (const MemoryId& memory : filled) {
      written_[memory].assign(written_[memory].size(), false);
      const MemoryId gradient{false, memory.rank, gradient_of(memory.unit)};
      memories_[gradient].assign(plan_.shard(memory).state.floats * sizeof(float), 0);
      written_[gradient].assign(memories_[gradient].size(), false);
    }
    adopt();
    copy();
    const auto [own, given] = halves_of(last[0]);
    exchange(own, new_nodes_);
    exchange(operations_of(routes.old_world, old_nodes_), old_nodes_);
    exchange(given, new_nodes_);
    play_all(copies, &EarlyCopies::last);
    for (const MemoryId& memory : filled) between.update(memories_, memory);
    play_all(copies, &EarlyCopies::late);
    std::erase_if(memories_, [](const auto& memory) { return memory.first.unit < 0; });
    return std::move(problems_);
  }

 private:
  using Parties = std::vector<std::vector<MessageOperation>>;

  void copy() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (const CopyOperation& copy : ranks_[rank].copies) play(copy, static_cast<int>(rank));
  }
  void copy_late() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (const CopyOperation& copy : ranks_[rank].late_copies) play(copy, static_cast<int>(rank));
  }
  void play_all(const std::vector<EarlyCopies>& copies, std::vector<CopyOperation> EarlyCopies::*when) {
    for (std::size_t rank = 0; rank < copies.size(); ++rank)
      for (const CopyOperation& copy : copies[rank].*when) play(copy, static_cast<int>(rank));
  }
  void make_relays(const Routes& routes) {
    for (std::size_t rank = 0; rank < new_nodes_.size(); ++rank) {
      const MemoryId relay{false, static_cast<int>(rank), kRelay};
      memories_[relay].assign(routes.relay_bytes[rank], 0);
      written_[relay].assign(routes.relay_bytes[rank], false);
    }
  }
  Parties operations_of(const std::vector<Message>& messages, const std::vector<std::string>& nodes) const {
    Parties parties;
    for (std::size_t party = 0; party < nodes.size(); ++party)
      parties.push_back(message_operations(plan_, messages, static_cast<int>(party)));
    return parties;
  }

  static std::pair<Parties, Parties> halves_of(const Parties& parties) {
    std::pair<Parties, Parties> result;
    for (const std::vector<MessageOperation>& party : parties) {
      Halves cut = halves(party);
      result.first.push_back(std::move(cut.own));
      result.second.push_back(std::move(cut.given));
    }
    return result;
  }

  const std::string& node(const MemoryId& memory) const {
    return (memory.old ? old_nodes_ : new_nodes_).at(static_cast<std::size_t>(memory.rank));
  }

  void adopt() {
    std::set<std::pair<int, int>> adopted;
    for (int rank = 0; rank < plan_.new_ranks(); ++rank) {
      const RankOperations& own = ranks_[static_cast<std::size_t>(rank)];
      for (const Adoption& adoption : own.adoptions) {
        const MemoryId from{true, adoption.old_rank, adoption.unit};
        if (!adopted.insert({adoption.old_rank, adoption.unit}).second) problems_.push_back("adopted twice");
        if (node(from) != new_nodes_.at(static_cast<std::size_t>(rank)))
          problems_.push_back("adopted from another node");
        memories_[{false, rank, adoption.unit}] = memories_.at(from);
      }
    }
    if (written_.empty()) allocate();
  }

  void allocate() {
    for (int rank = 0; rank < plan_.new_ranks(); ++rank)
      for (const int unit : ranks_[static_cast<std::size_t>(rank)].fresh)
        memories_[{false, rank, unit}].assign(plan_.shard({false, rank, unit}).state.bytes(), 0);
    for (const auto& [memory, bytes] : memories_)
      if (!memory.old) written_[memory].assign(bytes.size(), false);
  }

  // Every byte of new memory is written at most once, and adopted memory never.
  void write(const MemoryId& memory, std::size_t at, const char* from, std::size_t bytes) {
    std::vector<bool>& written = written_.at(memory);
    for (std::size_t b = 0; b < bytes; ++b) {
      if (written[at + b]) problems_.push_back("written twice");
      written[at + b] = true;
    }
    std::memcpy(memories_.at(memory).data() + at, from, bytes);
  }

  void play(const CopyOperation& copy, int rank) {
    if (copy.to.old || copy.to.rank != rank) problems_.push_back("writes another's memory");
    if (node(copy.from) != node(copy.to)) problems_.push_back("copies from another node");
    for (const BlockPair& pair : copy.blocks) {
      ESPALIER_INVARIANT(pair.from.run == pair.to.run && pair.from.count == pair.to.count);
      for (std::size_t run = 0; run < pair.from.count; ++run)
        write(copy.to, pair.to.at + run * pair.to.stride,
              memories_.at(copy.from).data() + pair.from.at + run * pair.from.stride, pair.from.run);
    }
  }

  std::vector<char> gather(const MessageOperation& send) const {
    std::vector<char> bytes;
    const std::vector<char>& memory = memories_.at(send.memory);
    for (const Block& block : send.blocks)
      for (std::size_t run = 0; run < block.count; ++run) {
        const char* from = memory.data() + block.at + run * block.stride;
        bytes.insert(bytes.end(), from, from + block.run);
      }
    return bytes;
  }

  void scatter(const MessageOperation& receive, const std::vector<char>& bytes) {
    std::size_t done = 0;
    for (const Block& block : receive.blocks)
      for (std::size_t run = 0; run < block.count; ++run, done += block.run)
        write(receive.memory, block.at + run * block.stride, bytes.data() + done, block.run);
    if (done != bytes.size()) problems_.push_back("lengths differ");
  }

  // Plays the messages. A party goes on only when both sides stand at the same message. `nodes`:
  // the parties' nodes.
  void exchange(const Parties& parties, const std::vector<std::string>& nodes) {
    std::vector<std::size_t> next(parties.size(), 0);
    for (;;) {
      std::vector<std::size_t> ready;
      bool waiting = false;
      for (std::size_t party = 0; party < parties.size(); ++party) {
        if (next[party] == parties[party].size()) continue;
        waiting = true;
        const MessageOperation& mine = parties[party][next[party]];
        const auto peer = static_cast<std::size_t>(mine.peer);
        if (!mine.sends || next[peer] == parties[peer].size()) continue;
        if (parties[peer][next[peer]].number == mine.number) ready.push_back(party);
      }
      if (!waiting) return;
      if (ready.empty()) return problems_.push_back("all wait for each other");
      const std::size_t sender = ready[random_() % ready.size()];
      const std::size_t place = next[sender]++;
      const MessageOperation& send = parties[sender][place];
      const auto peer = static_cast<std::size_t>(send.peer);
      const MessageOperation& receive = parties[peer][next[peer]++];
      if (receive.sends || receive.peer != static_cast<int>(sender)) problems_.push_back("the wrong peer");
      if (nodes[sender] == nodes[peer]) problems_.push_back("a message on one node");
      if (node(send.memory) != nodes[sender]) problems_.push_back("sent from another node's memory");
      if (node(receive.memory) != nodes[peer]) problems_.push_back("written to another node's memory");
      check_forwarding(parties[sender], place, static_cast<int>(sender));
      scatter(receive, gather(send));
    }
  }

  bool filled(const MessageOperation& send) const {
    const std::vector<bool>& written = written_.at(send.memory);
    for (const Block& block : send.blocks)
      for (std::size_t run = 0; run < block.count; ++run)
        for (std::size_t b = 0; b < block.run; ++b)
          if (!written[block.at + run * block.stride + b]) return false;
    return true;
  }

  // Messages fill new memory. The message that fills it comes before this one or runs in the old
  // world.
  void check_forwarding(const std::vector<MessageOperation>& own, std::size_t place, int sender) {
    const MessageOperation& send = own[place];
    if (send.after >= static_cast<int>(place)) problems_.push_back("forwarded before it came");
    if (send.memory.old && (send.after >= 0 || send.given)) problems_.push_back("waits for what it has");
    if (!send.memory.old && !filled(send)) problems_.push_back("forwards what is not there yet");
    if (!send.memory.old && send.memory.rank != sender) problems_.push_back("forwards what another got");
    if (early_ && !send.memory.old && send.memory.unit < 0) problems_.push_back("sends early what is not there");
    if (!send.memory.old && send.after < 0 && !request_.two_worlds) problems_.push_back("forwards what never came");
    if (send.after >= 0 && own[static_cast<std::size_t>(send.after)].sends)
      problems_.push_back("forwards what it sent");
  }

  const TransferPlan& plan_;
  const TransferRequest& request_;
  Memories& memories_;
  std::mt19937& random_;
  std::vector<std::string> old_nodes_, new_nodes_;
  std::vector<RankOperations> ranks_;
  std::map<MemoryId, std::vector<bool>> written_;
  bool early_ = false;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> rehearse(const TransferPlan& plan, const TransferRequest& request, Memories& memories,
                                  std::mt19937& random) {
  return Rehearsal(plan, request, memories, random).run();
}

std::vector<std::string> rehearse_early(const TransferPlan& plan, const TransferRequest& request, Memories& memories,
                                        std::mt19937& random, const StepInBetween& between) {
  return Rehearsal(plan, request, memories, random).run_early(between);
}

}  // namespace espalier::torchrt
