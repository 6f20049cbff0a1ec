// One rank of a schedule under check (check()): what it has done of its list so far, and whether what comes next may
// come now as far as the rank alone can tell. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "torchrt/schedule/cover.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

class RankCheck {
 public:
  // `schedule`, whose layout has as many ranks as lists, and `problems`, which gets a sentence for each problem, must
  // outlive this object.
  RankCheck(const Schedule& schedule, int rank, std::vector<std::string>& problems)
      : schedule_(schedule), rank_(rank), problems_(problems) {}

  int rank() const { return rank_; }
  const RankLayout& place() const { return schedule_.layout.ranks[static_cast<std::size_t>(rank_)]; }
  // Where it is in its list.
  std::size_t next() const { return next_; }
  bool at_end() const { return next_ >= ops().size(); }
  const Op& now() const { return ops()[next_]; }  // not at the end
  void go_on() { ++next_; }

  // A problem of the operation now, or of the one at `place` of the list.
  void problem(const std::string& text) { problem(next_, text); }
  void problem(std::size_t place, const std::string& text);
  void expect(bool condition, const char* text) {
    if (!condition) problem(text);
  }

  // False: the operation now is of a chunk that the rank does not hold.
  bool holds_chunk() const;
  bool has_peer() const;  // of the operation now
  // What the operation now needs has not arrived.
  bool waits() const;
  // Whether the rank has started the collective for whose end `op`, a finish_reduce or a finish_gather, waits.
  bool has_started(const Op& op) const;

  // Does the operation now, of these kinds, and adds what is wrong with it. go_on() afterwards.
  void receive();  // from a rank
  void send();     // to a rank
  void work();     // what is neither a transfer nor `agree`
  void agree();
  // What the receive at `place` of the list waits for has come.
  void arrived(std::size_t place) { --awaited_[awaiting(ops()[place])]; }
  // Adds what is missing at the end of the list.
  void finish();

 private:
  using Part = std::pair<int, int>;  // chunk and micro-batch

  const std::vector<Op>& ops() const { return schedule_.ranks[static_cast<std::size_t>(rank_)]; }
  static Part part(const Op& op) { return {op.chunk, op.micro_batch}; }
  // The operation that waits for what `op` receives, and that operation itself.
  static std::pair<OpKind, Part> awaiting(const Op& op);
  const ChunkLayout& chunk(int index) const { return schedule_.layout.chunks[static_cast<std::size_t>(index)]; }
  bool has_chunk(int index) const { return index >= 0 && index < static_cast<int>(schedule_.layout.chunks.size()); }
  // True when what comes from, or goes to, this neighbour chunk is a message: it exists, on another stage.
  bool is_sent(int neighbour) const;
  int micro_batches() const { return schedule_.layout.micro_batches; }
  bool gathers() const { return schedule_.options.zero1 && place().replicas > 1; }
  bool owns(int unit) const;
  bool tied(int unit) const;

  void backward(const Op& op);
  void weight_gradient(const Op& op);
  // Adds the units of `op` to `done`, the last unit first.
  void add_units(const Op& op, std::vector<int>& done);
  bool has_input_gradient(const Part& at);
  bool gradient_whole(int unit);
  bool tied_complete(int unit);
  void finish(const std::string& who, const Part& at);

  const Schedule& schedule_;
  const int rank_;
  std::vector<std::string>& problems_;
  std::size_t next_ = 0;
  std::map<Part, Cover> activations_, gradients_;        // samples whose receive has begun
  std::map<std::pair<OpKind, Part>, int> awaited_;       // messages that have not arrived, by what needs them
  std::map<std::tuple<OpKind, int, Part>, Cover> sent_;  // by kind, peer, and part; tied: {unit, -1}
  std::set<Part> forwarded_;
  std::pair<OpKind, Part> computed_{OpKind::forward, {-1, -1}};        // the last
  std::map<Part, std::vector<int>> backwarded_, weighted_;             // units done
  std::set<int> reducing_, reduced_, updated_, gathering_, gathered_;  // units
  std::map<int, Cover> tied_received_, tied_added_;                    // rows, by unit
  bool agreed_ = false;
};

}  // namespace espalier::torchrt
