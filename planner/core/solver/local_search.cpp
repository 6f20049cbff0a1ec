#include "planner/core/solver/local_search.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace espalier {
namespace {

// Pipelines with more stages mostly repeat equal stages.
constexpr std::size_t kDeep = 16;

// A stage of the next plan. Its layers are not decided yet.
struct NewStage {
  int tp = 0;
  std::vector<Piece> pieces;
};

std::vector<Piece> without(std::span<const Piece> pieces, const Piece& chunk) {
  std::vector<Piece> rest;
  for (Piece piece : pieces) {
    if (piece.node == chunk.node && piece.type == chunk.type)
      piece.gpus = static_cast<std::int16_t>(piece.gpus - chunk.gpus);
    if (piece.gpus > 0) rest.push_back(piece);
  }
  return rest;
}

std::vector<Piece> with(std::span<const Piece> pieces, const Piece& chunk) {
  return merge_pieces(pieces, std::span(&chunk, 1));
}

class Search {
 public:
  Search(Evaluator& evaluator, std::span<const Piece> available, long candidates)
      : evaluator_(evaluator), available_(available), left_candidates_(candidates) {}

  // Replaces `plan` by its best neighbour. False: no neighbour is better.
  bool step(WorkingPlan& plan) {
    plan_ = &plan;
    bound_ = plan.ms * (1 - 1e-9);
    found_ = false;
    spare_ = idle(plan);
    classify_nodes();
    // Tries N_b near the present one. The winner of a sweep is scored with all N_b.
    choices_.clear();
    for (const int step : {0, -1, 1, -2})
      if (const int choice = plan.choice + step;
          choice >= 0 && choice < static_cast<int>(evaluator_.micro_batch_counts().size()))
        choices_.push_back(choice);
    for (std::size_t s = 0; s < plan.sketch.stages.size() && left_candidates_ > 0; ++s) {
      chunks_of(s);
      regroup(s);
      split(s);
      for (std::size_t other = s + 1; other < plan.sketch.stages.size(); ++other) {
        swap(s, other);
        merge(s, other);
      }
    }
    for (const Piece& piece : spare_)
      if (represents(piece)) use_spare(piece);
    if (!found_) return false;
    apply(plan);
    return true;
  }

 private:
  const std::vector<StageSketch>& stages() const { return plan_->sketch.stages; }
  int room() const { return evaluator_.problem().bounds.max_gpus - plan_->sketch.gpus(); }

  std::vector<Piece> idle(const WorkingPlan& plan) const {
    std::vector<Piece> rest(available_.begin(), available_.end());
    for (const StageSketch& stage : plan.sketch.stages)
      for (const Piece& used : stage.pieces)
        for (Piece& piece : rest)
          if (piece.node == used.node && piece.type == used.type)
            piece.gpus = static_cast<std::int16_t>(piece.gpus - used.gpus);
    std::erase_if(rest,
                  [&](const Piece& p) { return p.gpus <= 0 || !evaluator_.problem().bounds.allows_type(p.type); });
    return rest;
  }

  const StageTable* table(StageTable& scratch, std::span<const Piece> pieces, int tp) {
    const StageShape shape = stage_shape(evaluator_.problem(), pieces, {}, tp);
    if (shape.replicas == 0) return nullptr;
    evaluator_.start(scratch, shape);
    return &scratch;
  }

  // Scores the pipeline in `pipeline_` with the changes noted in next_.
  void consider() {
    --left_candidates_;
    const Score score = evaluator_.score(pipeline_.view(), bound_, choices_);
    if (!score.feasible() || score.ms >= bound_) return;
    bound_ = score.ms;
    found_ = true;
    winner_ = next_;
  }

  // The change under consideration, as an edit of the stage list.
  struct Edit {
    std::vector<std::pair<std::size_t, NewStage>> replace;
    std::optional<std::size_t> erase;
    std::optional<std::pair<std::size_t, NewStage>> insert;  // position after the erasure
    std::optional<std::pair<std::size_t, std::size_t>> swap;
  };

  void apply(WorkingPlan& plan) {
    PlanSketch next = plan.sketch;
    if (winner_.swap) std::swap(next.stages[winner_.swap->first], next.stages[winner_.swap->second]);
    for (auto& [at, stage] : winner_.replace) next.stages[at] = {stage.tp, 0, std::move(stage.pieces)};
    if (winner_.erase) next.stages.erase(next.stages.begin() + static_cast<std::ptrdiff_t>(*winner_.erase));
    if (winner_.insert)
      next.stages.insert(next.stages.begin() + static_cast<std::ptrdiff_t>(winner_.insert->first),
                         {winner_.insert->second.tp, 0, std::move(winner_.insert->second.pieces)});
    plan = working_plan(evaluator_, std::move(next));
  }

  // Groups nodes that no move can tell apart: under one leaf switch, of one kind, with the same
  // GPUs of the same stages. One node represents its group.
  void classify_nodes() {
    std::map<int, std::vector<int>> what;
    const auto note = [&](const Piece& piece, int stage) {
      auto& key = what[piece.node];
      if (key.empty()) {
        const Topology& topology = evaluator_.problem().topology;
        key = {topology.leaf(piece.node), topology.kind(piece.node),
               piece.node == evaluator_.problem().bounds.lead_node};
      }
      key.insert(key.end(), {stage, piece.type, piece.gpus});
    };
    for (std::size_t s = 0; s < stages().size(); ++s)
      for (const Piece& piece : stages()[s].pieces) note(piece, static_cast<int>(s));
    for (const Piece& piece : spare_) note(piece, -1);
    std::map<std::vector<int>, int> first;
    stands_for_.clear();
    for (const auto& [node, key] : what) stands_for_[node] = first.try_emplace(key, node).first->second;
  }
  bool represents(const Piece& piece) const { return stands_for_.at(piece.node) == piece.node; }

  // Moves every chunk of stage `from` to another stage, to a stage of its own, or to idle.
  void chunks_of(std::size_t from) {
    const StageSketch& source = stages()[from];
    for (const Piece& piece : source.pieces) {
      if (!represents(piece)) continue;
      for (int gpus = source.tp; gpus <= piece.gpus; gpus *= 2) {
        const Piece chunk{piece.node, piece.type, static_cast<std::int16_t>(gpus)};
        give(from, chunk);
        if (gpus != piece.gpus && gpus * 2 > piece.gpus) give(from, piece);
      }
    }
  }

  void give(std::size_t from, const Piece& chunk) {
    const auto rest = without(stages()[from].pieces, chunk);
    const bool empties = rest.empty();
    if (!empties && table(left_, rest, stages()[from].tp) == nullptr) return;
    const auto start = [&] {
      next_ = {};
      pipeline_.assign(plan_->tables);
      if (empties) return;
      pipeline_.replace(from, left_);
      next_.replace.push_back({from, {stages()[from].tp, rest}});
    };
    // To another stage, at its TP degree.
    for (std::size_t to = 0; to < stages().size(); ++to) {
      if (to == from || chunk.gpus % stages()[to].tp != 0) continue;
      if (to + 1 != from && repeats(to) && !holds(to, chunk.node) && !holds(to + 1, chunk.node)) continue;
      auto joined = with(stages()[to].pieces, chunk);
      if (table(right_, joined, stages()[to].tp) == nullptr) continue;
      start();
      pipeline_.replace(to, right_);
      next_.replace.push_back({to, {stages()[to].tp, std::move(joined)}});
      drop_if(empties, from);
      consider();
    }
    if (empties) return;
    // A stage of its own, anywhere.
    for (const int tp : evaluator_.tp_degrees()) {
      if (chunk.gpus % tp != 0 || table(right_, std::span(&chunk, 1), tp) == nullptr) continue;
      for (std::size_t at = 0; at <= stages().size(); ++at) {
        if (at > 0 && repeats(at - 1)) continue;
        start();
        if (!pipeline_.insert(at, right_)) return;
        next_.insert = {at, {tp, {chunk}}};
        consider();
      }
    }
    // Replaces the chunk by as many spare GPUs of another node or type.
    for (const Piece& spare : spare_) {
      if (!represents(spare) || spare.gpus < chunk.gpus || (spare.node == chunk.node && spare.type == chunk.type))
        continue;
      auto joined = with(rest, {spare.node, spare.type, chunk.gpus});
      if (table(right_, joined, stages()[from].tp) == nullptr) continue;
      next_ = {};
      pipeline_.assign(plan_->tables);
      pipeline_.replace(from, right_);
      next_.replace.push_back({from, {stages()[from].tp, std::move(joined)}});
      consider();
    }
    exchange(from, chunk, rest);
    // Leaves the chunk idle: fewer replicas can be faster than a ring over a slow link.
    if (plan_->sketch.gpus() - chunk.gpus < evaluator_.problem().bounds.min_gpus) return;
    start();
    consider();
  }

  bool holds(std::size_t stage, int node) const {
    const auto& pieces = stages()[stage].pieces;
    return std::any_of(pieces.begin(), pieces.end(), [node](const Piece& piece) { return piece.node == node; });
  }

  void drop_if(bool empties, std::size_t stage) {
    if (!empties) return;
    pipeline_.erase(stage);
    next_.erase = stage;
  }

  // Exchanges the chunk for an equal number of GPUs of another stage.
  void exchange(std::size_t from, const Piece& chunk, const std::vector<Piece>& rest) {
    for (std::size_t to = from + 1; to < stages().size(); ++to) {
      if (chunk.gpus % stages()[to].tp != 0) continue;
      for (const Piece& piece : stages()[to].pieces) {
        if (!represents(piece)) continue;
        if (piece.gpus < chunk.gpus || (piece.node == chunk.node && piece.type == chunk.type)) continue;
        const Piece back{piece.node, piece.type, chunk.gpus};
        auto here = with(rest, back);
        auto there = with(without(stages()[to].pieces, back), chunk);
        if (table(left_two_, here, stages()[from].tp) == nullptr || table(right_, there, stages()[to].tp) == nullptr)
          continue;
        next_ = {};
        pipeline_.assign(plan_->tables);
        pipeline_.replace(from, left_two_);
        pipeline_.replace(to, right_);
        next_.replace.push_back({from, {stages()[from].tp, std::move(here)}});
        next_.replace.push_back({to, {stages()[to].tp, std::move(there)}});
        consider();
      }
    }
  }

  void regroup(std::size_t s) {
    for (const int tp : evaluator_.tp_degrees()) {
      if (tp == stages()[s].tp || table(left_, stages()[s].pieces, tp) == nullptr) continue;
      next_ = {};
      pipeline_.assign(plan_->tables);
      pipeline_.replace(s, left_);
      next_.replace.push_back({s, {tp, stages()[s].pieces}});
      consider();
    }
  }

  // Splits a stage into two, cut between nodes or inside a node. Both keep the TP degree.
  void split(std::size_t s) {
    const StageSketch& stage = stages()[s];
    const int total = stage.gpus();
    // A large stage is cut at eighths, a small stage at single groups.
    for (int part = stage.tp; part < total; part += std::max(stage.tp, total / 8 / stage.tp * stage.tp)) {
      std::vector<Piece> front, back;
      int left = part;
      for (const Piece& piece : stage.pieces) {
        const int taken = std::min<int>(left, piece.gpus);
        if (taken > 0) front.push_back({piece.node, piece.type, static_cast<std::int16_t>(taken)});
        if (taken < piece.gpus) back.push_back({piece.node, piece.type, static_cast<std::int16_t>(piece.gpus - taken)});
        left -= taken;
      }
      if (table(left_, front, stage.tp) == nullptr || table(right_, back, stage.tp) == nullptr) continue;
      next_ = {};
      pipeline_.assign(plan_->tables);
      pipeline_.replace(s, left_);
      if (!pipeline_.insert(s + 1, right_)) return;
      next_.replace.push_back({s, {stage.tp, std::move(front)}});
      next_.insert = {s + 1, {stage.tp, std::move(back)}};
      consider();
    }
  }

  void swap(std::size_t a, std::size_t b) {
    if (plan_->tables[a].shape == plan_->tables[b].shape) return;
    next_ = {};
    pipeline_.assign(plan_->tables);
    pipeline_.swap(a, b);
    next_.swap = {a, b};
    consider();
  }

  void merge(std::size_t a, std::size_t b) {
    const auto joined = merge_pieces(stages()[a].pieces, stages()[b].pieces);
    for (const int tp : evaluator_.tp_degrees()) {
      if (table(left_, joined, tp) == nullptr) continue;
      next_ = {};
      pipeline_.assign(plan_->tables);
      pipeline_.replace(a, left_);
      next_.replace.push_back({a, {tp, joined}});
      drop_if(true, b);
      consider();
    }
  }

  void use_spare(const Piece& spare) {
    const int most = std::min<int>(spare.gpus, room());
    for (int gpus = 1; gpus <= most; gpus = gpus < most ? std::min(gpus * 2, most) : most + 1) {
      const Piece chunk{spare.node, spare.type, static_cast<std::int16_t>(gpus)};
      for (std::size_t to = 0; to < stages().size(); ++to)
        for (const int tp : evaluator_.tp_degrees()) {
          auto joined = with(stages()[to].pieces, chunk);
          if (table(left_, joined, tp) == nullptr) continue;
          next_ = {};
          pipeline_.assign(plan_->tables);
          pipeline_.replace(to, left_);
          next_.replace.push_back({to, {tp, std::move(joined)}});
          consider();
        }
      for (const int tp : evaluator_.tp_degrees()) {
        if (gpus % tp != 0 || table(left_, std::span(&chunk, 1), tp) == nullptr) continue;
        for (std::size_t at = 0; at <= stages().size(); ++at) {
          next_ = {};
          pipeline_.assign(plan_->tables);
          if (!pipeline_.insert(at, left_)) return;
          next_.insert = {at, {tp, {chunk}}};
          consider();
        }
      }
    }
  }

  // Whether a deep pipeline's stage `at` and the next stage are equal. In a run of equal stages the
  // place of a change hardly matters.
  bool repeats(std::size_t at) const {
    return stages().size() > kDeep && at + 1 < stages().size() &&
           plan_->tables[at].shape == plan_->tables[at + 1].shape;
  }

  Evaluator& evaluator_;
  const std::span<const Piece> available_;
  long left_candidates_ = 0;
  const WorkingPlan* plan_ = nullptr;
  std::vector<Piece> spare_;
  std::vector<int> choices_;
  std::map<int, int> stands_for_;  // by node
  double bound_ = kInfeasible;
  bool found_ = false;
  Edit next_, winner_;
  StageTable left_, left_two_, right_;
  CandidateStages pipeline_;
};

}  // namespace

void polish_layers(Evaluator& evaluator, WorkingPlan& plan) {
  if (!plan.feasible()) return;
  CandidateStages stages;
  stages.assign(plan.tables);
  std::vector<int> layers;
  for (const StageSketch& stage : plan.sketch.stages) layers.push_back(stage.layers);
  const bool deep = layers.size() > kDeep;  // equal stages are balanced already
  for (bool better = true; better;) {
    better = false;
    for (std::size_t from = 0; from < layers.size(); ++from)
      for (std::size_t to = 0; to < layers.size(); ++to) {
        if (from == to || layers[from] <= 1) continue;
        if (deep && layers[to] + 1 >= layers[from] && plan.tables[from].shape == plan.tables[to].shape) continue;
        --layers[from];
        ++layers[to];
        const double ms = evaluator.score_layers(stages.view(), plan.choice, layers, plan.sketch.form);
        if (ms < plan.ms * (1 - 1e-12)) {
          plan.ms = ms;
          better = true;
        } else {
          ++layers[from];
          --layers[to];
        }
      }
  }
  for (std::size_t s = 0; s < layers.size(); ++s) plan.sketch.stages[s].layers = layers[s];
}

WorkingPlan local_search(Evaluator& evaluator, WorkingPlan plan, std::span<const Piece> available, int max_moves,
                         long candidates) {
  if (!plan.feasible()) return plan;
  Search search(evaluator, available, candidates);
  WorkingPlan polished = plan;
  polish_layers(evaluator, polished);
  for (int moves = 0; moves < max_moves && search.step(plan); ++moves) {
  }
  polish_layers(evaluator, plan);
  return plan.ms < polished.ms ? plan : polished;
}

}  // namespace espalier
