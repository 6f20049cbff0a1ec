// Jobs that teach the planner: what they train and measure, and a daemon that learns from it.
#pragma once

#include <doctest/doctest.h>

#include "tests/unit/daemon_cases.hpp"
#include "tests/unit/model_profiles.hpp"

namespace espalier::learning_cases {

using namespace espalier::test;

inline const ModelShape kTrained = [] {
  ModelShape shape = model_cases::kShape;
  shape.setting = {"train 1.0", "torch 2.11.0", "float32", "1f1b", false, false};
  return shape;
}();

inline Site site_of(const std::string& type = "h100") {
  return site_from_view(ClusterView{{node("n1", 4, "leaf1", type), node("n2", 4, "leaf1", type)}, {}, {}}, {}).site;
}

inline JobCoefficients known_coefficients() {
  auto known = model_cases::known_job({});
  known.gpu.resize(1);
  return known;
}

// A job of kTrained on two GPUs of a node.
inline ElasticJob training(JobId id, const std::string& on = "n1") {
  auto result = job(id, on, {0, 1});
  result.model = kTrained;
  result.plan = uniform_plan(2, 1, 12, 16, 4, {{on, 0}, {on, 1}});
  return result;
}

inline Profile calm_profile(const ElasticJob& of, std::int64_t step, double slower = 1) {
  const Site site = site_of();
  Profile profile = model_cases::profile_of({site.hardware, site.topology}, known_coefficients(), *of.plan);
  profile.shape = kTrained;
  profile.steps = 8;
  profile.step = step;
  for (ReplicaProfile& one : profile.replicas) {
    one.spread = 0.01;
    for (double* time : {&one.fwd, &one.bwd, &one.comm_fwd}) *time *= slower;
  }
  return profile;
}

// The daemon's tests, with a second node's job 11 of another user or the same.
struct Learning : Daemon {
  void run_second(uid_t uid) {
    slurm_says([&](SlurmSnapshot& slurm) { run_job(slurm, slurm_job(11, uid, {{11, "n2", {0, 1}}})); });
  }
  std::shared_ptr<TestLink> registers(const ElasticJob& job, uid_t uid) {
    auto link = connect(uid);
    link->says(wire::Register{job, "n1", static_cast<int>(job.id)});
    REQUIRE(until([&] { return link->got<wire::Registered>().has_value(); }));
    return link;
  }
  std::shared_ptr<TestLink> teaches() {
    planner->hold(10, true);
    auto link = registers(training(10), 1000);
    auto told = training(10);
    told.profile = calm_profile(told, 9);
    link->says(wire::Status{told});
    return link;
  }
  const ProfileBook& book(JobId id) const { return planner->jobs().at(id).profiles; }
  std::optional<JobCoefficients> coefficients(JobId id) const { return book(id).coefficients(site_of()); }

  wire::Config config;
  Json asks(uid_t uid, const std::string& what, const Json& arguments = Json::object()) {
    return test::ask(*this, config, {what, arguments}, uid);
  }
};

}  // namespace espalier::learning_cases
