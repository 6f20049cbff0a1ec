// How much the store keeps, and of whom.
#include <algorithm>
#include <utility>

#include "planner/daemon/store_statements.hpp"

namespace espalier {
namespace {

constexpr std::int64_t kAtOnce = 64;  // rows that one write may remove of one kind

// The user whose usage is the greatest by `of`.
template <class Used, class Measure>
std::uint32_t greatest(const Used& used, const Measure& of) {
  const auto most = std::max_element(used.begin(), used.end(),
                                     [&](const auto& a, const auto& b) { return of(a.second) < of(b.second); });
  return most->first;
}

}  // namespace

void Store::Statements::count() {
  const auto each = [&](const char* select, std::int64_t Usage::*rows, std::int64_t Usage::*bytes) {
    auto query = db.prepare(select);
    while (query.step()) {
      const auto uid = static_cast<std::uint32_t>(query.integer(0));
      if (rows != nullptr) add(uid, rows, query.integer(1));
      if (bytes != nullptr) add(uid, bytes, query.integer(2));
    }
  };
  each("SELECT uid, count(*), coalesce(sum(bytes), 0) FROM decisions GROUP BY uid", &Usage::decisions,
       &Usage::decision_bytes);
  each("SELECT uid, count(*), 0 FROM transitions GROUP BY uid", &Usage::transitions, nullptr);
  each("SELECT uid, count(*), coalesce(sum(bytes), 0) FROM jobs GROUP BY uid", nullptr, &Usage::job_bytes);
}

bool Store::Statements::drop_decisions(std::uint32_t uid, std::int64_t most) {
  auto oldest = db.prepare("SELECT id, bytes FROM decisions WHERE uid=? ORDER BY id LIMIT ?");
  oldest.bind(uid, most);
  std::int64_t last = 0, rows = 0, bytes = 0;
  for (; oldest.step(); ++rows) {
    last = oldest.integer(0);
    bytes += oldest.integer(1);
  }
  if (rows == 0) return false;
  db.prepare("DELETE FROM decisions WHERE uid=? AND id<=?").bind(uid, last).run();
  add(uid, &Usage::decisions, -rows);
  add(uid, &Usage::decision_bytes, -bytes);
  return true;
}

bool Store::Statements::drop_transitions(std::uint32_t uid, std::int64_t most) {
  auto oldest = db.prepare("SELECT id FROM transitions WHERE uid=? ORDER BY id LIMIT ?");
  oldest.bind(uid, most);
  std::int64_t last = 0, rows = 0;
  for (; oldest.step(); ++rows) last = oldest.integer(0);
  if (rows == 0) return false;
  db.prepare("DELETE FROM transitions WHERE uid=? AND id<=?").bind(uid, last).run();
  add(uid, &Usage::transitions, -rows);
  return true;
}

bool Store::Statements::drop_jobs(std::uint32_t uid, std::int64_t most) {
  auto oldest = db.prepare("SELECT id, bytes FROM jobs WHERE uid=? AND ended=1 ORDER BY seen LIMIT ?");
  oldest.bind(uid, most);
  std::vector<std::int64_t> gone;
  std::int64_t bytes = 0;
  while (oldest.step()) {
    gone.push_back(oldest.integer(0));
    bytes += oldest.integer(1);
  }
  for (const std::int64_t id : gone) {
    db.prepare("DELETE FROM jobs WHERE id=?").bind(id).run();
    db.prepare("DELETE FROM coefficients WHERE job=?").bind(id).run();
    db.prepare("DELETE FROM scale_tables WHERE job=?").bind(id).run();
    db.prepare("DELETE FROM trainings WHERE job=?").bind(id).run();
    db.prepare("DELETE FROM allocations WHERE anchor=?").bind(id).run();
  }
  add(uid, &Usage::job_bytes, -bytes);
  return !gone.empty();
}

void Store::limit(const StoreLimits& limits) {
  s_->limits = limits;
  trim();
}

// A write adds one row, so that one pass of each loop is usual.
void Store::trim() {
  using Usage = Statements::Usage;
  Statements& s = *s_;
  while (s.all.decisions > s.limits.decisions &&
         s.drop_decisions(greatest(s.used, [](const Usage& one) { return one.decisions; }),
                          std::min(kAtOnce, s.all.decisions - s.limits.decisions))) {
  }
  while (s.all.transitions > s.limits.transitions &&
         s.drop_transitions(greatest(s.used, [](const Usage& one) { return one.transitions; }),
                            std::min(kAtOnce, s.all.transitions - s.limits.transitions))) {
  }
  while (s.all.bytes() > s.limits.bytes) {
    const std::uint32_t uid = greatest(s.used, [](const Usage& one) { return one.bytes(); });
    const Usage& most = s.used[uid];
    const std::int64_t transitions = most.transitions * Statements::kTransitionBytes;
    const bool dropped = most.decision_bytes >= std::max(transitions, most.job_bytes) ? s.drop_decisions(uid, 1)
                         : transitions >= most.job_bytes                              ? s.drop_transitions(uid, kAtOnce)
                                                                                      : s.drop_jobs(uid, 1);
    // What is left may be of jobs that run: their rows are bounded in number by Slurm.
    if (!dropped && !s.drop_decisions(uid, 1) && !s.drop_transitions(uid, kAtOnce)) break;
  }
}

void Store::prune(int decisions, int transitions) {
  StoreLimits limits = s_->limits;
  limits.decisions = decisions;
  limits.transitions = transitions;
  limit(limits);
  s_->db.execute("DELETE FROM jobs WHERE ended=1 AND id NOT IN (SELECT DISTINCT job FROM decisions)");
  s_->db.execute("DELETE FROM coefficients WHERE job NOT IN (SELECT id FROM jobs)");
  s_->db.execute("DELETE FROM scale_tables WHERE job NOT IN (SELECT id FROM jobs)");
  s_->db.execute("DELETE FROM trainings WHERE job NOT IN (SELECT id FROM jobs)");
  s_->db.execute("DELETE FROM allocations WHERE ended>0 AND anchor NOT IN (SELECT id FROM jobs)");
  s_->db.execute("DELETE FROM extensions WHERE gone>0 AND anchor NOT IN (SELECT id FROM jobs)");
  s_->used.clear();
  s_->all = {};
  s_->count();
}

std::int64_t Store::used() const { return s_->all.bytes(); }
std::size_t Store::take_written() { return std::exchange(s_->written, 0); }

}  // namespace espalier
