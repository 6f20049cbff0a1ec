// Moves that the planner wishes: to make room for a waiting job, and to a better place (planner/daemon/room.cpp and
// planner_moves.cpp).
#include <algorithm>
#include <limits>
#include <utility>

#include "planner/core/schedule/defragment.hpp"
#include "planner/core/schedule/hindered.hpp"
#include "planner/sim/movable_bases.hpp"
#include "planner/sim/simulation_state.hpp"

namespace espalier::sim {
namespace {

// As in planner/daemon/room.hpp.
constexpr std::size_t kMostMoves = 6;  // of one job within an hour
constexpr double kHour = 3600;
constexpr double kRestAfterMove = 600;  // before a move to a better place

}  // namespace

void MovableBases::before_decision() {
  if (present_ == 0) return;
  const auto all = waiting();
  if (withdraw_hindering(all)) return;  // Slurm has its try at these GPUs first
  make_room(all);
  start_smaller(all);
  if (moves_->own_switches) sim_.input_.movable = movable_now(kRestAfterMove).value_or(std::vector<MovableJob>());
}

std::optional<Act> MovableBases::take_wish(std::vector<Act>& acts) const {
  std::optional<Act> wish;
  for (const Act& act : acts)
    if (!act.base.empty() && !wish) wish = act;
  std::erase_if(acts, [](const Act& act) { return !act.base.empty(); });
  return wish;
}

void MovableBases::after_decision(const std::optional<Act>& wish) {
  if (present_ == 0 || moves_->least_gain < 1) return;
  if (wish) return move_to(sim_.live_.at(wish->job), wish->base, waiting());
  auto movable = movable_now(kRestAfterMove);
  if (!movable || movable->empty()) return;
  PlanningInput& input = sim_.input_;
  if (moves_->own_switches) movable = within_their_types(std::move(*movable), input);
  auto all = waiting();
  std::swap(input.cluster.waiting, all);
  const auto place = places_.find_place(input, *moves_->scheduler, moves_->least_gain, *movable, {});
  std::swap(input.cluster.waiting, all);
  if (place) move_to(sim_.live_.at(place->job), place->base, all);
}

// One base moves at a time. nullopt: one does.
std::optional<std::vector<MovableJob>> MovableBases::movable_now(double rest) {
  const double now = sim_.input_.now;
  std::vector<MovableJob> movable;
  for (auto& [id, job] : sim_.live_) {
    LiveBases& bases = job.bases;
    if (bases.wished && (!bases.next.empty() || !bases.before.empty())) return std::nullopt;
    if (!has(job) || !job.state.plan || job.state.redeploying || bases.waits || !bases.next.empty() ||
        !bases.before.empty())
      continue;
    std::erase_if(bases.moves, [&](double time) { return now - time >= kHour; });
    if (bases.moves.size() >= kMostMoves || (!bases.moves.empty() && now - bases.moves.back() < rest)) continue;
    MovableJob& one = movable.emplace_back(MovableJob{id, {}});
    for (const BasicPlan* at : starts_of(job.state)) one.reach.types.push_back(at->gpu_type);
  }
  return movable;
}

void MovableBases::make_room(const std::vector<WaitingJob>& waiting) {
  PlanningInput& input = sim_.input_;
  if (input.cluster.waiting.empty()) return;
  const auto movable = movable_now(0);
  if (!movable || movable->empty()) return;
  const auto relief = find_relief(input, *moves_->scheduler, *movable);
  if (!relief) return;
  if (relief->held == 0) return move_to(sim_.live_.at(relief->job), relief->base, waiting);
  // The policy takes the extensions back that are in the way.
  WaitingJob place;
  place.id = relief->waiting;
  place.nodes = static_cast<int>(relief->base.size());
  place.gpus = place.nodes * relief->base.front().gpus;
  std::vector<std::string> nodes;
  for (const ExtensionRequest& request : relief->base) nodes.push_back(request.node);
  place.only_nodes = std::move(nodes);
  place.priority = std::numeric_limits<double>::infinity();
  input.cluster.waiting.push_back(std::move(place));
}

// `waiting`: who does when the move begins.
void MovableBases::move_to(LiveJob& job, const std::vector<ExtensionRequest>& parts,
                           const std::vector<WaitingJob>& waiting) {
  LiveBases& bases = job.bases;
  bases.moves.push_back(sim_.input_.now);
  const JobId id = number_for(job);
  auto base = idle_on(parts, id);
  if (!slurm_starts(job, base)) {
    jobs_.erase(id);
    return;
  }
  job.advance(sim_.input_.now);
  bases.next = std::move(base);
  bases.wished = true;
  bases.waited.clear();
  for (const WaitingJob& one : waiting) bases.waited.insert(one.id);
  for (const Holding& held : bases.next) sim_.holders_.own(held, held.job);
  sim_.recount(job, *sim_.elastic_job(job.state.id));
  bases.wished = begin_move(job);
}

// A job that began to wait, and could use the second base of a move that training has not made yet, gets its GPUs. One
// base moves at a time.
bool MovableBases::withdraw_hindering(const std::vector<WaitingJob>& waiting) {
  for (auto& [id, job] : sim_.live_) {
    const LiveBases& bases = job.bases;
    if (!bases.wished || bases.next.empty() || job.pause_began) continue;
    if (hindered_by(bases.next.front().job, bases.waited, seen_with(waiting)) == 0) continue;
    withdraw(job);
    return true;
  }
  return false;
}

void MovableBases::withdraw(LiveJob& job) {
  sim_.give_up_growth(job);
  job.bases.moving = job.bases.wished = false;
  give_back(job, job.bases.next);
  if (!sim_.noticed_.empty()) sim_.leave(job);  // extensions that Slurm has taken back meanwhile
  sim_.events_.add({sim_.input_.now, EventKind::queue, 0, 0});
}

}  // namespace espalier::sim
