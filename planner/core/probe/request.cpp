#include "planner/core/probe/request.hpp"

#include "planner/core/fields.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier {

std::string to_text(const ProbeRequest& request) {
  return nlohmann::json{{"pairs", request.pairs}, {"seconds", request.seconds}}.dump();
}

ProbeRequest probe_request(const std::string& text) {
  const auto json = try_json(text);
  if (json.is_discarded()) throw Error("--calibrate: is no JSON; espalier calibrate writes it");
  const Fields fields(json, "--calibrate", {"pairs", "seconds"});
  ProbeRequest request;
  fields.get("pairs", request.pairs);
  fields.get("seconds", request.seconds);
  if (!(request.seconds > 0)) throw Error("--calibrate.seconds: must be positive");
  return request;
}

}  // namespace espalier
