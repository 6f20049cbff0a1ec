// The questions of tools that make the planner do something, and those that cost next to nothing. The others are
// answered by read_answers.hpp.
#pragma once

#include "planner/daemon/planner.hpp"
#include "planner/daemon/queue_profiles.hpp"
#include "planner/daemon/read_answers.hpp"
#include "planner/wire/config.hpp"

namespace espalier {

class Answers {
 public:
  // `planner` and `config` must outlive this object. All calls come on the loop's thread.
  Answers(Planner& planner, const wire::Config& config);
  // Throws Error when the question is refused; its message is for the user.
  Json answer(const wire::Query& query, const wire::Peer& peer);
  // Until Slurm has told its configuration, nobody sees the jobs of others.
  Viewer viewer_of(const wire::Peer& peer) const;

 private:
  Json ping() const;
  Json forget(const Json& arguments, const wire::Peer& peer);
  Json config() const;
  Json control(const std::string& what, const Json& arguments, const wire::Peer& peer);

  Planner& planner_;
  QueueProfiles queue_profiles_;
  const wire::Config& config_;
  double started_;
};

}  // namespace espalier
