#include "torchrt/schedule/rank_check.hpp"

#include <algorithm>

namespace espalier::torchrt {

namespace {

bool of_chunk(OpKind kind) {
  return kind == OpKind::forward || kind == OpKind::backward || kind == OpKind::weight_gradient ||
         kind == OpKind::send_activation || kind == OpKind::receive_activation || kind == OpKind::send_gradient ||
         kind == OpKind::receive_gradient;
}

}  // namespace

void RankCheck::problem(std::size_t place, const std::string& text) {
  problems_.push_back("rank " + std::to_string(rank_) + ", operation " + std::to_string(place) + " (" +
                      describe(ops()[place], schedule_.layout.chunked()) + "): " + text);
}

std::pair<OpKind, RankCheck::Part> RankCheck::awaiting(const Op& op) {
  if (op.kind == OpKind::receive_activation) return {OpKind::forward, part(op)};
  if (op.kind == OpKind::receive_gradient) return {OpKind::backward, part(op)};
  if (op.kind == OpKind::receive_tied || op.kind == OpKind::add_tied) return {OpKind::add_tied, {op.unit, op.first}};
  return {op.kind, part(op)};
}

bool RankCheck::waits() const {
  const auto found = awaited_.find(awaiting(now()));
  return found != awaited_.end() && found->second > 0;
}

bool RankCheck::holds_chunk() const {
  const Op& op = now();
  return !of_chunk(op.kind) || (has_chunk(op.chunk) && chunk(op.chunk).stage == place().stage);
}

bool RankCheck::has_peer() const {
  return now().peer >= 0 && now().peer < static_cast<int>(schedule_.layout.ranks.size());
}

bool RankCheck::has_started(const Op& op) const {
  return (op.kind == OpKind::finish_reduce ? reducing_ : gathering_).count(op.unit) == 1;
}

bool RankCheck::is_sent(int neighbour) const { return has_chunk(neighbour) && chunk(neighbour).stage != place().stage; }

bool RankCheck::owns(int unit) const {
  return std::find(place().units.begin(), place().units.end(), unit) != place().units.end();
}

bool RankCheck::tied(int unit) const {
  return schedule_.options.tied_rows > 0 && owns(unit) && (unit == 0 || unit == schedule_.layout.units - 1);
}

void RankCheck::work() {
  const Op& op = now();
  const int m = op.micro_batch;
  if (op.unit >= 0) expect(owns(op.unit), "the unit is not of this rank");
  if (of_chunk(op.kind)) computed_ = {op.kind, part(op)};
  switch (op.kind) {
    case OpKind::forward:
      expect(m >= 0 && m < micro_batches(), "no such micro-batch");
      expect(forwarded_.insert(part(op)).second, "the micro-batch is done twice");
      if (is_sent(op.chunk - 1)) expect(activations_[part(op)].total() == place().samples, "its input is incomplete");
      else expect(op.chunk == 0 || forwarded_.count({op.chunk - 1, m}) == 1, "the chunk before has not come yet");
      break;
    case OpKind::backward:
      backward(op);
      break;
    case OpKind::weight_gradient:
      weight_gradient(op);
      break;
    case OpKind::reduce:
      expect(place().replicas > 1, "the stage has one replica");
      expect(gradient_whole(op.unit), "the gradient is incomplete");
      expect(reducing_.insert(op.unit).second, "the unit is reduced twice");
      break;
    case OpKind::finish_reduce:
      expect(reduced_.insert(op.unit).second, "the unit is reduced twice");
      break;
    case OpKind::add_tied:
      expect(tied_received_[op.unit].contains({op.first, op.count}), "these rows were not received");
      expect(tied_added_[op.unit].add({op.first, op.count}), "rows are added twice");
      break;
    case OpKind::update:
      expect(agreed_, "the ranks have not agreed on the norm");
      expect(updated_.insert(op.unit).second, "the unit is updated twice");
      break;
    case OpKind::gather:
      expect(gathers(), "nothing is divided among replicas");
      expect(updated_.count(op.unit) == 1, "the unit is not updated");
      expect(gathering_.insert(op.unit).second, "the unit is gathered twice");
      break;
    case OpKind::finish_gather:
      expect(gathered_.insert(op.unit).second, "the unit is gathered twice");
      break;
    default:
      problem("is of no known kind");
  }
}

void RankCheck::add_units(const Op& op, std::vector<int>& done) {
  expect(op.unit < 0 || chunk(op.chunk).holds(op.unit), "the unit is not of this chunk");
  for (int unit = chunk(op.chunk).last_unit(); unit >= chunk(op.chunk).first_unit; --unit) {
    if (op.unit >= 0 && unit != op.unit) continue;
    expect(std::find(done.begin(), done.end(), unit) == done.end(), "the unit is done twice");
    done.push_back(unit);
  }
}

bool RankCheck::has_input_gradient(const Part& at) {
  return static_cast<int>(backwarded_[at].size()) == chunk(at.first).units;
}

void RankCheck::backward(const Op& op) {
  std::vector<int>& done = backwarded_[part(op)];
  expect(forwarded_.count(part(op)) == 1, "no forward came before");
  if (is_sent(op.chunk + 1)) expect(gradients_[part(op)].total() == place().samples, "its gradient is incomplete");
  else
    expect(!has_chunk(op.chunk + 1) || has_input_gradient({op.chunk + 1, op.micro_batch}),
           "the chunk behind has not come yet");
  add_units(op, done);
  expect(std::is_sorted(done.rbegin(), done.rend()), "the units must come last to first");
  if (!done.empty())
    expect(done.size() == static_cast<std::size_t>(chunk(op.chunk).last_unit() - done.back() + 1),
           "a unit is left out");
}

void RankCheck::weight_gradient(const Op& op) {
  const std::vector<int>& inputs = backwarded_[part(op)];
  std::vector<int>& done = weighted_[part(op)];
  add_units(op, done);
  for (const int unit : done)
    expect(std::find(inputs.begin(), inputs.end(), unit) != inputs.end(), "no backward came before");
}

bool RankCheck::gradient_whole(int unit) {
  const int of_unit = schedule_.layout.chunk_of_unit(unit);
  for (int m = 0; m < micro_batches(); ++m) {
    const std::vector<int>& done = weighted_[{of_unit, m}];
    if (std::find(done.begin(), done.end(), unit) == done.end()) return false;
  }
  return place().replicas == 1 || reducing_.count(unit) == 0;
}

// Does not wait: what needs the message does.
void RankCheck::receive() {
  const Op& op = now();
  const bool tied_rows = op.kind == OpKind::receive_tied;
  Cover& cover = tied_rows                             ? tied_received_[op.unit]
                 : op.kind == OpKind::receive_gradient ? gradients_[part(op)]
                                                       : activations_[part(op)];
  expect(cover.add({op.first, op.count}), "is received twice");
  if (tied_rows) expect(tied(op.unit), "this rank has no such table");
  if (op.kind == OpKind::receive_gradient) expect(forwarded_.count(part(op)) == 1, "no forward came before");
  ++awaited_[awaiting(op)];
}

void RankCheck::send() {
  const Op& op = now();
  const RankLayout& peer = schedule_.layout.ranks[static_cast<std::size_t>(op.peer)];
  switch (op.kind) {
    case OpKind::send_activation:
      expect(forwarded_.count(part(op)) == 1, "the activation does not exist yet");
      expect(is_sent(op.chunk + 1) && peer.stage == chunk(op.chunk + 1).stage, "the peer does not hold the next chunk");
      break;
    case OpKind::send_gradient:
      expect(has_input_gradient(part(op)), "the gradient does not exist yet");
      expect(computed_ == std::pair(OpKind::backward, part(op)),
             "the gradient is forgotten: something else was computed since");
      expect(is_sent(op.chunk - 1) && peer.stage == chunk(op.chunk - 1).stage,
             "the peer does not hold the chunk before");
      break;
    default:
      expect(tied(op.unit), "this rank has no such table");
      expect(place().replicas > 1 ? reduced_.count(op.unit) == 1 : gradient_whole(op.unit),
             "the gradient is incomplete");
      expect(!tied_added_[op.unit].overlaps({op.first, op.count}), "the other copy's rows are in it");
      break;
  }
  const Part what = op.kind == OpKind::send_tied ? Part{op.unit, -1} : part(op);
  expect(sent_[{op.kind, op.peer, what}].add({op.first, op.count}), "is sent twice");
}

void RankCheck::agree() {
  for (const int unit : place().units) {
    expect(place().replicas > 1 ? reduced_.count(unit) == 1 : gradient_whole(unit), "gradients are incomplete");
    if (tied(unit)) expect(tied_complete(unit), "the tied table's gradient is incomplete");
  }
  expect(!agreed_, "the ranks agree twice");
  agreed_ = true;
}

bool RankCheck::tied_complete(int unit) {
  const Range own = table_rows(schedule_.options.tied_rows, place().tp, place().tp_rank);
  return tied_added_[unit].total() == own.count && tied_received_[unit].total() == own.count;
}

void RankCheck::finish() {
  const std::string who = "rank " + std::to_string(rank_) + ": ";
  if (forwarded_.size() != static_cast<std::size_t>(micro_batches()) * place().chunks.size())
    problems_.push_back(who + "micro-batches are missing");
  if (!agreed_) problems_.push_back(who + "does not agree with the others");
  if (updated_.size() != place().units.size()) problems_.push_back(who + "units are not updated");
  if (gathers() && gathered_.size() != place().units.size()) problems_.push_back(who + "parameters are not gathered");
  for (const int held : place().chunks)
    for (int m = 0; m < micro_batches(); ++m) finish(who, {held, m});
}

void RankCheck::finish(const std::string& who, const Part& at) {
  const auto units = static_cast<std::size_t>(chunk(at.first).units);
  const std::string what = "micro-batch " + std::to_string(at.second) +
                           (schedule_.layout.chunked() ? " in chunk " + std::to_string(at.first) : "");
  if (backwarded_[at].size() != units) problems_.push_back(who + "the backward of " + what + " is incomplete");
  if (weighted_[at].size() != units) problems_.push_back(who + "weight gradients of " + what + " are missing");
  if (is_sent(at.first + 1) && gradients_[at].total() != place().samples)
    problems_.push_back(who + "the gradient of " + what + " is not received whole");
}

}  // namespace espalier::torchrt
