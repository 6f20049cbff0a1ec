#include "planner/core/pipeline/check.hpp"

#include <algorithm>

#include "planner/core/pipeline/action_text.hpp"

namespace espalier::pipeline {
namespace {

bool is_backward(Compute kind) { return kind == Compute::backward || kind == Compute::backward_input; }

class Checker {
 public:
  explicit Checker(const Schedule& schedule)
      : schedule_(schedule), chunks_(static_cast<int>(schedule.rank_of_chunk.size())) {}

  std::vector<Problem> run() {
    if (!sizes()) return problems_;
    done_.assign(static_cast<std::size_t>(chunks_) * schedule_.micro_batches, {});
    for (int rank = 0; rank < ranks(); ++rank)
      for (int at = 0; at < static_cast<int>(list(rank).size()); ++at) one(rank, at);
    missing();
    if (problems_.empty()) deadlock();
    return problems_;
  }

 private:
  struct Done {
    bool forward = false, backward = false, input = false, weight = false;
  };

  int ranks() const { return static_cast<int>(schedule_.actions.size()); }
  const std::vector<Action>& list(int rank) const { return schedule_.actions[static_cast<std::size_t>(rank)]; }
  int owner(int chunk) const { return schedule_.rank_of_chunk[static_cast<std::size_t>(chunk)]; }
  Done& done(const Action& action) {
    return done_[static_cast<std::size_t>(action.chunk) * schedule_.micro_batches + action.micro_batch];
  }
  void problem(int rank, int at, std::string text) { problems_.push_back({rank, at, std::move(text)}); }

  bool sizes() {
    if (schedule_.micro_batches < 1) problem(-1, -1, "the step has no micro-batch");
    if (chunks_ < 1) problem(-1, -1, "the model has no chunk");
    std::vector<bool> used(static_cast<std::size_t>(ranks()));
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      if (owner(chunk) < 0 || owner(chunk) >= ranks())
        problem(-1, -1, "chunk " + std::to_string(chunk) + " is on no rank");
      else used[static_cast<std::size_t>(owner(chunk))] = true;
    }
    for (int rank = 0; rank < ranks(); ++rank)
      if (!used[static_cast<std::size_t>(rank)]) problem(rank, -1, "the rank holds no chunk");
    return problems_.empty();
  }

  void one(int rank, int at) {
    const Action& action = list(rank)[static_cast<std::size_t>(at)];
    if (action.chunk < 0 || action.chunk >= chunks_) return problem(rank, at, "there is no such chunk");
    if (action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches)
      return problem(rank, at, "there is no such micro-batch");
    if (owner(action.chunk) != rank)
      return problem(rank, at, "the chunk is on rank " + std::to_string(owner(action.chunk)));
    Done& so_far = done(action);
    bool Done::*const mine = action.kind == Compute::forward          ? &Done::forward
                             : action.kind == Compute::backward       ? &Done::backward
                             : action.kind == Compute::backward_input ? &Done::input
                                                                      : &Done::weight;
    if (so_far.*mine) return problem(rank, at, "it is there twice");
    so_far.*mine = true;
    if (action.kind == Compute::backward && (so_far.input || so_far.weight))
      return problem(rank, at, "backward is there as a whole and in parts");
    if (action.kind != Compute::forward && action.kind != Compute::backward && so_far.backward)
      return problem(rank, at, "backward is there as a whole and in parts");
    if (is_backward(action.kind) && !so_far.forward) return problem(rank, at, "it comes before its forward");
    if (action.kind == Compute::backward_weight && !so_far.input)
      return problem(rank, at, "it comes before its gradient of the inputs");
  }

  void missing() {
    for (int chunk = 0; chunk < chunks_; ++chunk)
      for (int m = 0; m < schedule_.micro_batches; ++m) {
        const auto lacks = [&](Compute kind, const char* what) {
          problem(owner(chunk), -1, to_string(Action{kind, chunk, m}) + " is missing: " + what);
        };
        const Done& all = done({Compute::forward, chunk, m});
        if (!all.forward) lacks(Compute::forward, "the chunk never runs forward on the micro-batch");
        if (!all.backward && !all.input && !all.weight)
          lacks(Compute::backward, "the chunk never runs backward on the micro-batch");
        else if (!all.backward && !all.weight)
          lacks(Compute::backward_weight, "the gradient of the parameters is never computed");
        else if (!all.backward && !all.input)
          lacks(Compute::backward_input, "the gradient of the inputs is never computed");
      }
  }

  // What the action needs from another chunk; false when it needs nothing.
  bool needs(const Action& action, Action& needed) const {
    if (action.kind == Compute::forward && action.chunk > 0) {
      needed = {Compute::forward, action.chunk - 1, action.micro_batch};
      return true;
    }
    if (is_backward(action.kind) && action.chunk + 1 < chunks_) {
      needed = {Compute::backward, action.chunk + 1, action.micro_batch};
      return true;
    }
    return false;
  }

  // Runs the lists against each other as far as they go.
  void deadlock() {
    std::fill(done_.begin(), done_.end(), Done{});
    std::vector<std::size_t> next(static_cast<std::size_t>(ranks()));
    const auto ready = [&](const Action& action) {
      Action needed;
      if (!needs(action, needed)) return true;
      const Done& other = done(needed);
      return needed.kind == Compute::forward ? other.forward : other.backward;
    };
    for (bool progress = true; progress;) {
      progress = false;
      for (int rank = 0; rank < ranks(); ++rank)
        for (std::size_t& at = next[static_cast<std::size_t>(rank)]; at < list(rank).size(); ++at) {
          const Action& action = list(rank)[at];
          if (!ready(action)) break;
          if (action.kind == Compute::forward) done(action).forward = true;
          if (is_backward(action.kind)) done(action).backward = true;
          progress = true;
        }
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      const std::size_t at = next[static_cast<std::size_t>(rank)];
      if (at == list(rank).size()) continue;
      Action needed;
      needs(list(rank)[at], needed);
      const std::string what = needed.kind == Compute::forward ? "forward" : "backward";
      problem(rank, static_cast<int>(at),
              "deadlock: it waits for " + what + " of chunk " + std::to_string(needed.chunk) + " on micro-batch " +
                  std::to_string(needed.micro_batch) + ", which rank " + std::to_string(owner(needed.chunk)) +
                  " never reaches");
    }
  }

  const Schedule& schedule_;
  const int chunks_;
  std::vector<Done> done_;  // by chunk and micro-batch
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> find_problems(const Schedule& schedule) { return Checker(schedule).run(); }

std::vector<std::string> check(const Schedule& schedule) {
  std::vector<std::string> sentences;
  for (const Problem& problem : find_problems(schedule)) {
    std::string text;
    if (problem.rank >= 0) text = "rank " + std::to_string(problem.rank);
    if (problem.at >= 0)
      text +=
          ", operation " + std::to_string(problem.at) + " (" +
          to_string(schedule.actions[static_cast<std::size_t>(problem.rank)][static_cast<std::size_t>(problem.at)]) +
          ")";
    sentences.push_back(text.empty() ? problem.text : text + ": " + problem.text);
  }
  return sentences;
}

}  // namespace espalier::pipeline
