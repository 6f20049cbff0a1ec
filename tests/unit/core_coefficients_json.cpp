// The JSON of a job's coefficients.
#include <doctest/doctest.h>

#include "planner/core/coefficients_json.hpp"
#include "planner/core/error.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

struct Known {
  Hardware hardware;
  JobCoefficients job;
  Known() {
    hardware.types.resize(2);
    hardware.types[0].name = "a100";
    hardware.types[1].name = "h100";
    job = sim::assumed_coefficients({"llama", 8, 1024, 16, 1024, 50257, 64, 1}, {0.45, true, true}, hardware);
    job.gpu[1].overlap = 3.5;
    job.gpu[1].assumed_overlap = false;
    job.first.compute_layers = 0.25;
    job.first.assumed_compute = false;
    job.tp_degrees = {1, 2};
    job.tied_bytes = 12;
    job.deferred = 0.5;
  }
};

std::string refusal(const std::function<void(Json&)>& spoil) {
  const Known known;
  Json json = coefficients_json(known.job, known.hardware);
  spoil(json);
  return error_of([&] { coefficients_from(json, known.hardware); });
}

}  // namespace

TEST_CASE("the tensors at a boundary come back, and files from before them say one") {
  Known known;
  CHECK_FALSE(coefficients_json(known.job, known.hardware).contains("boundary_tensors"));
  CHECK(coefficients_from(coefficients_json(known.job, known.hardware), known.hardware).boundary_tensors == 1);
  known.job.boundary_tensors = 2;
  CHECK(coefficients_from(coefficients_json(known.job, known.hardware), known.hardware) == known.job);
  CHECK(refusal([](Json& json) { json["boundary_tensors"] = 0.5; }) ==
        "coefficients.boundary_tensors: must lie between 1 and 2");
  CHECK(refusal([](Json& json) { json["boundary_tensors"] = 3; }) ==
        "coefficients.boundary_tensors: must lie between 1 and 2");
}

TEST_CASE("what sums take comes back, and records from before it say nothing of it") {
  Known known;
  known.job.rail_ms_per_byte = known.job.sync_beyond = 0;
  known.job.assumed_rail = true;
  const Json before = coefficients_json(known.job, known.hardware);
  for (const char* name : {"rail_ms_per_byte", "assumed_rail", "sync_beyond"}) CHECK_FALSE(before.contains(name));
  CHECK(coefficients_from(before, known.hardware) == known.job);
  known.job.rail_ms_per_byte = 2e-5;
  known.job.sync_beyond = 3;
  known.job.assumed_rail = false;
  CHECK(coefficients_from(coefficients_json(known.job, known.hardware), known.hardware) == known.job);
  for (const std::string name : {"rail_ms_per_byte", "sync_beyond"})
    CHECK(refusal([&](Json& json) { json[name] = -1; }) ==
          "coefficients." + name + ": must be finite and not negative");
}

TEST_CASE("coefficients come back as they were told, by the names of GPU types") {
  const Known known;
  const Json json = coefficients_json(known.job, known.hardware);
  CHECK(coefficients_from(Json::parse(json.dump()), known.hardware) == known.job);
  Hardware other = known.hardware;
  std::swap(other.types[0], other.types[1]);
  const JobCoefficients swapped = coefficients_from(json, other);
  CHECK(swapped.gpu[0] == known.job.gpu[1]);
  CHECK(swapped.gpu[1] == known.job.gpu[0]);
  other.types.pop_back();
  CHECK(coefficients_from(json, other).gpu.size() == 1);
}

TEST_CASE("coefficients that cannot be are refused by field") {
  CHECK(refusal([](Json& c) { c.erase("param_bytes"); }) == "coefficients.param_bytes: missing");
  CHECK(refusal([](Json& c) { c["speed"] = 1; }) == "coefficients.speed: unknown field");
  CHECK(refusal([](Json& c) { c["activ_bytes"] = -1; }) == "coefficients.activ_bytes: must be finite and not negative");
  CHECK(refusal([](Json& c) { c["activ_bytes"] = nullptr; }) ==
        "coefficients.activ_bytes: must be finite and not negative");
  CHECK(refusal([](Json& c) { c["deferred"] = 1.5; }) == "coefficients.deferred: must be at most 1");
  CHECK(refusal([](Json& c) { c["layers"] = 0; }) == "coefficients: layers and global_batch must be above zero");
  CHECK(refusal([](Json& c) { c["tp_degrees"] = Json::array(); }) == "coefficients.tp_degrees: must hold at least one");
  CHECK(refusal([](Json& c) { c["zero1"] = 1; }) == "coefficients.zero1: must be true or false");
  CHECK(refusal([](Json& c) { c["last"]["param_bytes"] = "x"; }) == "coefficients.last.param_bytes: must be a number");
  CHECK(refusal([](Json& c) { c["gpu"]["h100"]["comp"] = 0; }) == "coefficients.gpu.h100.comp: must be above zero");
  CHECK(refusal([](Json& c) { c["gpu"]["a100"]["overlap"] = 0.5; }) ==
        "coefficients.gpu.a100.overlap: must be at least 1");
  CHECK(refusal([](Json& c) { c["gpu"].erase("a100"); }) ==
        "coefficients.gpu: nothing of type \"a100\", which the cluster has");
  CHECK(refusal([](Json& c) { c["gpu"] = 4; }) == "coefficients.gpu: must be a JSON object");
}
