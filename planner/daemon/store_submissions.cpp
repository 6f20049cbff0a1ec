#include "planner/daemon/store_statements.hpp"

namespace espalier {

std::vector<Submission> Store::submissions() {
  std::vector<Submission> kept;
  auto query = s_->db.prepare("SELECT time, gpus FROM submissions ORDER BY time, gpus>0, id");
  while (query.step()) kept.push_back({query.real(0), static_cast<int>(query.integer(1))});
  return kept;
}

void Store::add(const std::vector<Submission>& news, double from, std::size_t most) {
  Transaction transaction(s_->db);
  for (const Submission& one : news)
    s_->db.prepare("INSERT INTO submissions(time, gpus) VALUES(?,?)").bind(one.time, one.gpus).run();
  s_->db.prepare("DELETE FROM submissions WHERE time<? AND gpus>0").bind(from).run();
  // Ids rise with every row, so this looks at no row that stays. A user may submit many jobs.
  s_->db.prepare("DELETE FROM submissions WHERE id<=(SELECT max(id) FROM submissions)-? AND gpus>0")
      .bind(static_cast<std::int64_t>(most))
      .run();
  transaction.commit();
}

}  // namespace espalier
