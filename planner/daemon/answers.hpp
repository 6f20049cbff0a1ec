// The questions that tools may ask the planner, and the answers.
#pragma once

#include "planner/daemon/planner.hpp"
#include "planner/daemon/queue_profiles.hpp"
#include "planner/wire/config.hpp"

namespace espalier {

// Whose jobs a question may be about. With PrivateData=jobs in slurm.conf an ordinary user sees the
// user's own ones only.
struct Viewer {
  uid_t uid;
  bool all;
  bool sees(uid_t owner) const { return all || owner == uid; }
};

class Answers {
 public:
  // `planner` and `config` must outlive this object.
  Answers(Planner& planner, const wire::Config& config);
  // Throws Error when the question is refused; its message is for the user.
  Json answer(const wire::Query& query, const wire::Peer& peer);

 private:
  Json ping() const;
  Viewer viewer_of(const wire::Peer& peer) const;
  Json job(const Json& arguments, const Viewer& viewer) const;
  Json jobs(const Json& arguments, const Viewer& viewer) const;
  Json scale(const Json& arguments, const Viewer& viewer) const;
  Json decision(const Json& arguments, const Viewer& viewer) const;
  Json decisions(const Json& arguments, const Viewer& viewer) const;
  Json nodes(const Json& arguments, const Viewer& viewer) const;
  Json profiles(const Json& arguments, const Viewer& viewer) const;
  Json profile(const Json& arguments, const Viewer& viewer) const;
  Json forget(const Json& arguments, const wire::Peer& peer);
  Json config() const;
  Json usage(const Json& arguments, const Viewer& viewer) const;
  Json usage_of(const StoredJob& stored, bool with_allocations) const;
  Json explain(const Json& arguments, const Viewer& viewer) const;
  Json control(const std::string& what, const Json& arguments, const wire::Peer& peer);

  Planner& planner_;
  QueueProfiles queue_profiles_;
  const wire::Config& config_;
  double started_;
};

}  // namespace espalier
