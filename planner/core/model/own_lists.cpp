#include "planner/core/model/own_lists.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <unordered_map>

#include "planner/core/error.hpp"
#include "planner/core/model/scheduled_time.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier {
namespace {

constexpr double kParts = 48;          // shares are rounded to multiples of 1/48, as for forms
constexpr std::size_t kMostKept = 64;  // of some 300 kB at most

const std::string& within_limit(const std::string& csv) {
  if (csv.size() <= kMostOwnLists) return csv;
  throw Error("lists of " + std::to_string(csv.size()) + " bytes: a job may tell at most " +
              std::to_string(kMostOwnLists));
}

}  // namespace

PipelineForm form_beside(const pipeline::Schedule& lists, const std::string& named) {
  const int ranks = static_cast<int>(lists.actions.size());
  const int chunks = static_cast<int>(lists.rank_of_chunk.size()) / ranks;
  const bool looped = lists.rank_of_chunk == pipeline::looped_placement(ranks, chunks);
  if (!looped && lists.rank_of_chunk != pipeline::v_placement(ranks))
    throw Error("its chunks lie neither round the stages (0 1 0 1) nor as a V (0 1 1 0); write it for one of these");
  for (const pipeline::Generator& one : pipeline::generators()) {
    if (named != one.name || (one.chunks_per_rank != 0 && one.chunks_per_rank != chunks)) continue;
    if (one.make({ranks, 1, chunks}).rank_of_chunk == lists.rank_of_chunk) return pipeline_form(named, chunks);
  }
  return pipeline_form(chunks == 1 ? "1f1b" : looped ? "interleaved" : "zb-v", chunks);
}

OwnLists::OwnLists(const std::string& csv) : lists_(pipeline::read_csv(within_limit(csv))) {
  form_ = form_beside("");
  const auto apart = [](const pipeline::Action& action) { return action.kind == pipeline::Compute::backward_weight; };
  for (const auto& list : lists_.actions) in_parts_ = in_parts_ || std::any_of(list.begin(), list.end(), apart);
  lists_ = in_parts(std::move(lists_));
  const std::vector<double> weight(lists_.rank_of_chunk.size(), 1.0 / form_.chunks);
  for (const bool recompute : {false, true}) held_[recompute ? 1 : 0] = most_held(lists_, weight, recompute);
}

std::shared_ptr<const OwnLists> OwnLists::of(const std::string& csv) {
  if (within_limit(csv).empty()) return nullptr;
  // Those in use, by their text, and the last ones that were read: a job tells the same text again and again.
  static std::mutex guard;
  static std::unordered_map<std::string, std::weak_ptr<const OwnLists>> known;
  static std::deque<std::shared_ptr<const OwnLists>> last;
  {
    const std::lock_guard lock(guard);
    if (const auto at = known.find(csv); at != known.end())
      if (auto own = at->second.lock()) return own;
  }
  const auto made = std::make_shared<const OwnLists>(csv);
  const std::lock_guard lock(guard);
  std::erase_if(known, [](const auto& one) { return one.second.expired(); });
  auto& at = known[csv];
  if (auto own = at.lock()) return own;
  at = made;
  last.push_front(made);
  if (last.size() > kMostKept) last.pop_back();
  return made;
}

bool OwnLists::run_on(PipelineForm form, int stages, int micro_batches) const {
  return stages == this->stages() && micro_batches == lists_.micro_batches && form.chunks == form_.chunks &&
         (stages == 1 || form.v_shaped() == form_.v_shaped());
}

bool OwnLists::run_on(const Plan& plan) const {
  const PipelineForm form = form_of(plan);
  const bool in_form =
      plan.chunks.empty() || plan.chunks.size() == plan.stages.size() * static_cast<std::size_t>(form.chunks);
  return in_form && run_on(form, static_cast<int>(plan.stages.size()), plan.micro_batches);
}

double OwnLists::time(const pipeline::Costs& costs, std::span<const double> after) const {
  return time_of_lists(lists_, costs, after);
}

double OwnLists::fill(WorkShares work) const {
  if (stages() < 2) return 1;
  const auto a = static_cast<int>(std::lround(kParts * work.forward));
  const auto b = static_cast<int>(std::lround(kParts * work.weights));
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = fills_.try_emplace({a, b});
  if (!fresh) return at->second;
  const double forward = a / kParts, weights = b / kParts, chunks = form_.chunks;
  const pipeline::ChunkCosts chunk{forward / chunks, (1 - forward - weights) / chunks, weights / chunks,
                                   (1 - forward) / chunks};
  const pipeline::Costs costs(lists_.rank_of_chunk.size(), chunk);
  const std::vector<double> none(lists_.actions.size(), 0.0);
  return at->second = (time(costs, none) - micro_batches()) / (stages() - 1);
}

double OwnLists::held(int stage, bool recompute) const {
  return held_[recompute ? 1 : 0][static_cast<std::size_t>(stage)];
}

double OwnLists::held(int stage, std::span<const double> weight, bool recompute) const {
  return most_held_by(lists_.actions[static_cast<std::size_t>(stage)], weight, recompute);
}

const OwnLists* lists_that_run(const JobCoefficients& job, PipelineForm form, int stages, int micro_batches) {
  return job.own_lists && job.own_lists->run_on(form, stages, micro_batches) ? job.own_lists.get() : nullptr;
}

}  // namespace espalier
