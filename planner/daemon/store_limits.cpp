// How much the store keeps, and of whom.
#include <algorithm>
#include <set>
#include <utility>

#include "planner/core/error.hpp"
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
  each(
      "SELECT uid, count(*), coalesce(sum(length(CAST(job AS BLOB)) + length(CAST(record AS BLOB))), 0) FROM knowledge "
      "GROUP BY uid",
      nullptr, &Usage::knowledge_bytes);
  measured.clear();
  const auto of_jobs = [&](const char* select, std::int64_t Measured::*bytes) {
    auto query = db.prepare(select);
    while (query.step()) {
      Measured& one = measured[static_cast<JobId>(query.integer(0))];
      one.uid = static_cast<std::uint32_t>(query.integer(1));
      one.*bytes = query.integer(2);
      add(one.uid, &Usage::job_bytes, one.*bytes);
    }
  };
  of_jobs(
      "SELECT coefficients.job, coalesce(jobs.uid, 0), length(CAST(coefficients.record AS BLOB)) FROM coefficients"
      " LEFT JOIN jobs ON jobs.id=coefficients.job",
      &Measured::coefficients);
  of_jobs(
      "SELECT scale_tables.job, coalesce(jobs.uid, 0), length(CAST(scale_tables.record AS BLOB)) FROM scale_tables"
      " LEFT JOIN jobs ON jobs.id=scale_tables.job",
      &Measured::scale);
}

void Store::Statements::save_measured(const char* table, std::int64_t Measured::*bytes, JobId job,
                                      const std::string& text) {
  if (text.size() > kMostRow)
    throw Error("store: what was measured of job " + std::to_string(job) + " is longer than a row may be");
  db.prepare(std::string("INSERT OR REPLACE INTO ") + table + "(job, record) VALUES(?,?)").bind(job, text).run();
  const auto [at, fresh] = measured.try_emplace(job);
  if (fresh)
    if (auto owner = db.prepare("SELECT uid FROM jobs WHERE id=?"); owner.bind(job).step())
      at->second.uid = static_cast<std::uint32_t>(owner.integer(0));
  const auto size = static_cast<std::int64_t>(text.size());
  add(at->second.uid, &Usage::job_bytes, size - std::exchange(at->second.*bytes, size));
  written += text.size();
}

void Store::Statements::forget_measured(JobId job) {
  const auto at = measured.find(job);
  if (at == measured.end()) return;
  db.prepare("DELETE FROM coefficients WHERE job=?").bind(job).run();
  db.prepare("DELETE FROM scale_tables WHERE job=?").bind(job).run();
  add(at->second.uid, &Usage::job_bytes, -at->second.coefficients - at->second.scale);
  measured.erase(at);
}

std::int64_t Store::Statements::knowledge_bytes(std::int64_t id) {
  auto row = db.prepare("SELECT length(CAST(job AS BLOB)) + length(CAST(record AS BLOB)) FROM knowledge WHERE id=?");
  return row.bind(id).step() ? row.integer(0) : 0;
}

void Store::Statements::forget_knowledge(std::uint32_t uid, std::int64_t id) {
  const std::int64_t bytes = knowledge_bytes(id);
  db.prepare("DELETE FROM knowledge WHERE id=?").bind(id).run();
  add(uid, &Usage::knowledge_bytes, -bytes);
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
    forget_measured(static_cast<JobId>(id));
    db.prepare("DELETE FROM trainings WHERE job=?").bind(id).run();
    db.prepare("DELETE FROM allocations WHERE anchor=?").bind(id).run();
  }
  add(uid, &Usage::job_bytes, -bytes);
  return !gone.empty();
}

bool Store::Statements::drop_knowledge(std::uint32_t uid, std::int64_t most) {
  auto oldest = db.prepare("SELECT id FROM knowledge WHERE uid=? ORDER BY updated, id LIMIT ?");
  oldest.bind(uid, most);
  std::vector<std::int64_t> gone;
  while (oldest.step()) gone.push_back(oldest.integer(0));
  for (const std::int64_t id : gone) forget_knowledge(uid, id);
  return !gone.empty();
}

// Of what the user has most of.
bool Store::Statements::drop_largest(std::uint32_t uid) {
  const Usage& one = used[uid];
  const std::int64_t of_transitions = one.transitions * kTransitionBytes;
  const std::int64_t largest = std::max({one.decision_bytes, of_transitions, one.job_bytes, one.knowledge_bytes});
  if (one.decision_bytes == largest) return drop_decisions(uid, 1);
  if (of_transitions == largest) return drop_transitions(uid, kAtOnce);
  return one.knowledge_bytes == largest ? drop_knowledge(uid, 1) : drop_jobs(uid, 1);
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
  // What a user has left may be of jobs that run: their rows are bounded in number by Slurm. Then the next user makes
  // room who has more than an equal share. Nobody loses history below that for another one's jobs.
  std::set<std::uint32_t> empty;
  while (s.all.bytes() > s.limits.bytes) {
    const auto of = [&](const auto& one) { return empty.contains(one.first) ? 0 : one.second.bytes(); };
    const auto most =
        std::max_element(s.used.begin(), s.used.end(), [&](const auto& a, const auto& b) { return of(a) < of(b); });
    if (of(*most) <= s.limits.bytes / static_cast<std::int64_t>(s.used.size())) break;
    if (!s.drop_largest(most->first) && !s.drop_decisions(most->first, 1) &&
        !s.drop_transitions(most->first, kAtOnce) && !s.drop_knowledge(most->first, 1))
      empty.insert(most->first);
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
  s_->used.clear();
  s_->all = {};
  s_->count();
}

std::int64_t Store::used() const { return s_->all.bytes(); }
std::size_t Store::take_written() { return std::exchange(s_->written, 0); }

}  // namespace espalier
