#include "planner/daemon/event_dispatch.hpp"

#include <charconv>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

const std::string& field(const wire::Event& event, const std::string& key) {
  const auto found = event.fields.find(key);
  if (found == event.fields.end()) throw Error("event " + event.name + ": has no " + key);
  return found->second;
}

JobId job_field(const wire::Event& event) {
  const std::string text = field(event, "job");
  JobId id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id == 0)
    throw Error("event " + event.name + ": job=" + text + " is no job id");
  return id;
}

}  // namespace

void dispatch(const wire::Event& event, Planner& planner) {
  if (event.name == "job_submitted") {
    if (field(event, "gpus") != "0") planner.job_submitted();
  } else if (event.name == "gpus_released") {
    planner.gpus_released(job_field(event), field(event, "node"));
  } else {
    throw Error("event " + event.name + ": not known");
  }
}

}  // namespace espalier
