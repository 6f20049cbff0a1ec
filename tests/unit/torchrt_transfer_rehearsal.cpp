#include "tests/unit/torchrt_transfer_rehearsal.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

class Rehearsal {
 public:
  Rehearsal(const TransferPlan& plan, const TransferRequest& request, Memories& memories, std::mt19937& random)
      : plan_(plan), memories_(memories), random_(random) {
    for (const GpuId& gpu : request.before.ranks()) old_nodes_.push_back(gpu.node);
    for (const GpuId& gpu : request.after.ranks()) new_nodes_.push_back(gpu.node);
    const int parties = plan.new_ranks() + static_cast<int>(old_nodes_.size());
    for (int party = 0; party < parties; ++party) parties_.push_back(operations(plan, party));
  }

  std::vector<std::string> run() {
    adopt();
    for (std::size_t party = 0; party < parties_.size(); ++party)
      for (const CopyOperation& copy : parties_[party].copies) play(copy, static_cast<int>(party));
    exchange();
    for (std::size_t party = 0; party < parties_.size(); ++party)
      for (const CopyOperation& copy : parties_[party].late_copies) play(copy, static_cast<int>(party));
    return std::move(problems_);
  }

 private:
  const std::string& node(int party) const {
    return plan_.is_donor(party) ? old_nodes_.at(static_cast<std::size_t>(plan_.donor(party)))
                                 : new_nodes_.at(static_cast<std::size_t>(party));
  }
  const std::string& node(const MemoryId& memory) const {
    return (memory.old ? old_nodes_ : new_nodes_).at(static_cast<std::size_t>(memory.rank));
  }

  void adopt() {
    std::set<std::pair<int, int>> adopted;
    for (std::size_t party = 0; party < parties_.size(); ++party) {
      const int rank = static_cast<int>(party);
      for (const Adoption& adoption : parties_[party].adoptions) {
        const MemoryId from{true, adoption.old_rank, adoption.unit};
        if (!adopted.insert({adoption.old_rank, adoption.unit}).second) problems_.push_back("adopted twice");
        if (node(from) != node(rank)) problems_.push_back("adopted from another node");
        memories_[{false, rank, adoption.unit}] = memories_.at(from);
      }
      for (const int unit : parties_[party].fresh)
        memories_[{false, rank, unit}].assign(plan_.shard({false, rank, unit}).state.bytes(), 0);
    }
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

  void play(const CopyOperation& copy, int party) {
    if (copy.to.old || copy.to.rank != party) problems_.push_back("writes another's memory");
    if (node(copy.from) != node(party)) problems_.push_back("copies from another node");
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

  // Who waits for whom: nobody goes on before both sides stand at the same message.
  void exchange() {
    std::vector<std::size_t> next(parties_.size(), 0);
    for (;;) {
      std::vector<int> ready;
      bool waiting = false;
      for (std::size_t party = 0; party < parties_.size(); ++party) {
        if (next[party] == parties_[party].messages.size()) continue;
        waiting = true;
        const MessageOperation& mine = parties_[party].messages[next[party]];
        const auto peer = static_cast<std::size_t>(mine.peer);
        if (!mine.sends || next[peer] == parties_[peer].messages.size()) continue;
        if (parties_[peer].messages[next[peer]].number == mine.number) ready.push_back(static_cast<int>(party));
      }
      if (!waiting) return;
      if (ready.empty()) return problems_.push_back("all wait for each other");
      const auto sender = static_cast<std::size_t>(ready[random_() % ready.size()]);
      const std::size_t place = next[sender]++;
      const MessageOperation& send = parties_[sender].messages[place];
      const auto peer = static_cast<std::size_t>(send.peer);
      const MessageOperation& receive = parties_[peer].messages[next[peer]++];
      check(send, static_cast<int>(sender), static_cast<int>(place), static_cast<int>(peer));
      if (receive.sends || receive.peer != static_cast<int>(sender)) problems_.push_back("the wrong peer");
      scatter(receive, gather(send));
    }
  }

  void check(const MessageOperation& send, int sender, int place, int receiver) {
    if (node(sender) == node(receiver)) problems_.push_back("a message on one node");
    if (node(send.memory) != node(sender)) problems_.push_back("sent from another node's memory");
    const bool forwards = !send.memory.old;
    if (forwards != (send.after >= 0) || send.after >= place) problems_.push_back("forwarded before it came");
    if (forwards && send.memory.rank != sender) problems_.push_back("forwards what another got");
  }

  const TransferPlan& plan_;
  Memories& memories_;
  std::mt19937& random_;
  std::vector<std::string> old_nodes_, new_nodes_;
  std::vector<RankOperations> parties_;
  std::map<MemoryId, std::vector<bool>> written_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> rehearse(const TransferPlan& plan, const TransferRequest& request, Memories& memories,
                                  std::mt19937& random) {
  return Rehearsal(plan, request, memories, random).run();
}

}  // namespace espalier::torchrt
