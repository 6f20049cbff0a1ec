// Conversion of the core types to and from JSON (nlohmann's ADL hooks). from_json throws Error on
// anything malformed or unknown.
#pragma once

#include <nlohmann/json.hpp>

#include "planner/core/decision.hpp"

namespace espalier {

using Json = nlohmann::json;

void to_json(Json&, const GpuId&);  // "node/index"
void from_json(const Json&, GpuId&);
void to_json(Json&, const Plan&);
void from_json(const Json&, Plan&);
void to_json(Json&, const ModelShape&);
void from_json(const Json&, ModelShape&);
void to_json(Json&, const ParallelLimits&);
void from_json(const Json&, ParallelLimits&);
void to_json(Json&, const Profile&);
void from_json(const Json&, Profile&);  // figures must be finite and not negative
void to_json(Json&, const Holding&);
void from_json(const Json&, Holding&);
void to_json(Json&, const ExtensionRequest&);
void from_json(const Json&, ExtensionRequest&);
void to_json(Json&, const Candidate&);
void from_json(const Json&, Candidate&);
void to_json(Json&, const Decision&);
void from_json(const Json&, Decision&);
void to_json(Json&, const ElasticJob&);
void from_json(const Json&, ElasticJob&);
void to_json(Json&, const NodeView&);

// Enumerations by name. Messages and the decision store use these names.
std::string to_string(Accuracy);
std::string to_string(HandoffMethod);
std::string to_string(JobPhase);
std::string to_string(DecisionKind);
std::string to_string(Trigger);
Accuracy accuracy_from(const std::string&);
HandoffMethod handoff_method_from(const std::string&);
JobPhase phase_from(const std::string&);
DecisionKind kind_from(const std::string&);
Trigger trigger_from(const std::string&);

}  // namespace espalier
