#include "launcher/profile/profile_questions.hpp"

#include <cstdlib>

#include "planner/core/error.hpp"

namespace espalier::launcher {

ProfileQuestions::ProfileQuestions(const ProfileRequest& request)
    : request_(request), config_(wire::load_config()), site_(load_site(config_.extension_qos)) {
  const char* id = std::getenv("SLURM_JOB_ID");
  if (id == nullptr) throw Error("profile: --inside is for profile jobs; leave it out");
  own_ = static_cast<JobId>(std::strtoul(id, nullptr, 10));
}

Json ProfileQuestions::ask(const std::string& what, const Json& arguments) const {
  return ask_planner(config_, site_.planner_uids, what, arguments);
}

Json ProfileQuestions::arguments() const {
  Json all = arguments_of(request_);
  all["profile_job"] = own_;
  all["description"] = told_;
  return all;
}

bool ProfileQuestions::waits() const { return ask("stage_wait", {{"job", request_.job}}).at("waits").get<bool>(); }

Json ProfileQuestions::plans() const { return ask("stage_plans", arguments()); }

Json ProfileQuestions::report(const Json& profiles) const {
  Json all = arguments();
  all["profiles"] = profiles;
  return ask("stage_report", all);
}

Json ProfileQuestions::places(const std::string& type) const {
  return ask("stage_places", {{"job", request_.job}, {"profile_job", own_}, {"type", type}});
}

JobId ProfileQuestions::submit_next(const Json& place, int delay_seconds) const {
  return submit_profile_job(config_, site_.cluster, request_, place, delay_seconds);
}

}  // namespace espalier::launcher
