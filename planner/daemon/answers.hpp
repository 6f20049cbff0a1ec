// The questions that tools may ask the planner, and the answers.
#pragma once

#include "planner/daemon/planner.hpp"
#include "planner/wire/config.hpp"

namespace espalier {

class Answers {
 public:
  // `planner` and `config` must outlive this object.
  Answers(Planner& planner, const wire::Config& config);
  // Throws Error when the question is refused; its message is for the user.
  Json answer(const wire::Query& query, const wire::Peer& peer);

 private:
  Json ping() const;
  Json job(const Json& arguments) const;
  Json jobs() const;
  Json decision(const Json& arguments) const;
  Json decisions(const Json& arguments) const;
  Json nodes() const;
  Json config() const;
  Json explain(const Json& arguments) const;
  Json control(const std::string& what, const Json& arguments, const wire::Peer& peer);

  Planner& planner_;
  const wire::Config& config_;
  double started_;
};

}  // namespace espalier
