// The profile of one stage as JSON: what is written is read back; what is wrong is named.
#include <doctest/doctest.h>

#include <limits>

#include "planner/core/error.hpp"
#include "tests/unit/stage_profiles.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

std::string complaint(const std::function<void(Json&)>& change) {
  Json json = stage_profile_json(stage_profile(two_stages(), 0));
  change(json);
  try {
    stage_profile_from(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("stage profile") {
  TEST_CASE("what is written is read back") {
    for (const int stage : {0, 1}) {
      const StageProfile known = stage_profile(two_stages(), stage);
      CHECK(stage_profile_from(Json::parse(stage_profile_json(known).dump())) == known);
    }
  }

  TEST_CASE("the totals are of all units") {
    const Json json = stage_profile_json(stage_profile(two_stages(), 0));
    CHECK(json.at("totals").at("forward_ms").get<double>() == doctest::Approx(kEmbedding.forward + 6 * kBlock.forward));
  }

  TEST_CASE("each wrong field is named") {
    CHECK(complaint([](Json&) {}) == "accepted");
    CHECK(complaint([](Json& json) { json.erase("units"); }) == "stage profile.units: missing");
    CHECK(complaint([](Json& json) { json["speed"] = 1; }) == "stage profile.speed: unknown field");
    CHECK(complaint([](Json& json) { json["stage"] = 2; }) == "stage profiles: stage 2, replica 0: is not in its plan");
    CHECK(complaint([](Json& json) {
            for (Json& stage : json["plan"]["stages"]) stage["layers"] = 2000000000;
          }) == "stage profile.plan: its numbers are larger than those of any plan");
    CHECK(complaint([](Json& json) { json["replica"] = 1; }) ==
          "stage profiles: stage 0, replica 1: is not in its plan");
    CHECK(complaint([](Json& json) { json["peak_bytes"] = -1; }) ==
          "stage profile.peak_bytes: must be finite and not negative");
    CHECK(complaint([](Json& json) { json["static_bytes"] = nullptr; }) ==
          "stage profile.static_bytes: must be finite and not negative");
    CHECK(complaint([](Json& json) { json["units"] = 3; }) == "stage profile.units: must be a list");
    CHECK(complaint([](Json& json) { json["units"][0]["kind"] = "expert"; }) ==
          "stage profile.units.kind: is \"expert\"; known are embedding, block and head");
    CHECK(complaint([](Json& json) { json["units"][1]["forward_ms"] = "fast"; }) ==
          "stage profile.units.forward_ms: must be a number");
    CHECK(complaint([](Json& json) { json["units"][1]["backward_sums"]["count"] = -1; }) ==
          "stage profile.units.backward_sums.count: must not be negative");
    for (const int count : {-1, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()})
      CHECK(complaint([&](Json& json) { json["units"][1]["count"] = count; }) ==
            "stage profile.units.count: must be between 0 and 1048576");
    CHECK(complaint([](Json& json) { json["units"][1]["count"] = 5; }) ==
          "stage profile.units: are not those of stage 0 of its plan (block)");
    CHECK(complaint([](Json& json) { json["units"].erase(0); }) ==
          "stage profile.units: are not those of stage 0 of its plan (embedding)");
    CHECK(complaint([](Json& json) { json["units"].push_back(json["units"][1]); }) ==
          "stage profile.units: are not those of stage 0 of its plan (block)");
    CHECK(complaint([](Json& json) { json["plan"]["micro_batches"] = 3; }).starts_with("stage profile.plan: "));
  }
}
