// What tools may ask, and the answers.
#pragma once

#include "planner/daemon/planner.hpp"
#include "planner/wire/config.hpp"

namespace espalier {

class Answers {
 public:
  // Both must outlive this.
  Answers(Planner& planner, const wire::Config& config);
  // Throws Error: refused, with a message for the user.
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
