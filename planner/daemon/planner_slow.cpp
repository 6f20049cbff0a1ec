// What jobs' profiles show of nodes and links that are slower than their like.
#include <spdlog/spdlog.h>

#include <cmath>

#include "planner/core/hostlist.hpp"
#include "planner/core/model/compared_nodes.hpp"
#include "planner/core/model/step_statistics.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

// Each thing once, and not everything: a user's profiles must not fill the log.
bool first_told(LiveJob& live, const std::string& what) {
  constexpr std::size_t kMost = 1000;
  return live.slow_told.size() < kMost && live.slow_told.insert(what).second;
}

}  // namespace

void Planner::note_slow_nodes(LiveJob& live, const Profile& profile) {
  if (!calm(profile)) return;
  const auto shares = compute_shares(*site_, profile);
  for (const auto& [node, share] : shares)
    if (share < kSlowNode && first_told(live, node))
      log_.line(live.job.uid, spdlog::level::warn, "node {}: computes at {}% of its like, as job {} measured", node,
                std::lround(100 * share), live.job.id);
  slow_nodes_.note(live.job.uid, live.job.id, shares, clock_seconds());
}

void Planner::looked(JobId id, const LinkLook& look) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end() || look.number == 0) return;
  LiveJob& live = job->second;
  if (!site_ || !live.job.plan) return;
  if (const std::string why = unfit(look, *live.job.plan); !why.empty()) {
    if (first_told(live, why))
      log_.line(live.job.uid, spdlog::level::warn, "job {}: {}; the look is not used", id, printable(why));
    return;
  }
  const SlowPaths& found =
      slow_links_.note(live.job.uid, live.job.id, live.job.generation, look, *site_, clock_seconds());
  for (const SlowPaths::Node& one : found.nodes)
    if (first_told(live, "links of " + one.node))
      log_.line(live.job.uid, spdlog::level::warn,
                "node {}: its links to {} reach {}% of their like, as job {} measured", one.node, fold_hosts(one.to),
                std::lround(100 * one.share), live.job.id);
  for (const ComparedLink& one : found.pairs)
    if (first_told(live, "link " + one.from + " " + one.to))
      log_.line(live.job.uid, spdlog::level::warn,
                "nodes {} and {}: the link between them reaches {}% of its like, as job {} measured", one.from, one.to,
                std::lround(100 * one.share), live.job.id);
}

}  // namespace espalier
