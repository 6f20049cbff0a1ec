// The step time of a plan from the profiles of its stages: by hand where it is short, by rules elsewhere.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/profiled_step.hpp"
#include "tests/unit/stage_profiles.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

constexpr double kPrecise = 1e-9;

double step_of(const Plan&, const std::vector<StageProfile>& profiles, bool mixed = false) {
  const Cluster c = cluster(6, mixed);
  return profiled_step(c.hardware, c.topology, profiles).step_ms;
}

double whole(const UnitCost& cost) { return cost.forward + cost.backward + cost.weight_gradient; }

std::string complaint(const std::vector<StageProfile>& profiles, bool mixed = false) {
  try {
    step_of({}, profiles, mixed);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("profiled step") {
  TEST_CASE("one GPU: every micro-batch goes through all units, then each is updated") {
    const Plan plan{16, 4, {{12, 1, {replica(4, 0, 0, 1)}}}, {}, "1f1b"};
    const double work = whole(kEmbedding) + 12 * whole(kBlock) + whole(kHead);
    const double optimizer = kEmbedding.optimizer + 12 * kBlock.optimizer + kHead.optimizer;
    CHECK(step_of(plan, all_stages(plan)) == doctest::Approx(4 * work + optimizer).epsilon(kPrecise));
  }

  TEST_CASE("two stages, one micro-batch: there and back, with a message each way") {
    Plan plan = two_stages();
    plan.micro_batches = 1;
    for (Stage& stage : plan.stages) stage.replicas.front().share = 16;
    const Cluster c = cluster(6);
    const double send = 16 * kBoundary / c.hardware.kinds[0].nic_bandwidth;
    // The first stage ends last; the second one's weights are done meanwhile.
    const double work =
        whole(kEmbedding) + 6 * whole(kBlock) + 6 * (kBlock.forward + kBlock.backward) + kHead.forward + kHead.backward;
    const double optimizer = std::max(kEmbedding.optimizer, kHead.optimizer) + 6 * kBlock.optimizer;
    CHECK(step_of(plan, all_stages(plan)) == doctest::Approx(work + 2 * send + optimizer).epsilon(kPrecise));
  }

  TEST_CASE("replicas: what the backward pass hides of the sums costs nothing") {
    const Plan plan{16, 2, {{12, 1, {replica(4, 0, 0, 1), replica(4, 0, 1, 1)}}}, {}, "1f1b"};
    std::vector<StageProfile> profiles = all_stages(plan);
    const Cluster c = cluster(6);
    const ProfiledStep quick = profiled_step(c.hardware, c.topology, profiles);
    // 80 bytes at 50 a ms are there before the next unit's gradient: only the embedding's is exposed.
    CHECK(quick.stages[0].sync == doctest::Approx(kUnitGradient / 50).epsilon(kPrecise));
    for (UnitProfile& unit : profiles[0].units) unit.gradient_bytes = unit.accumulator_bytes = 50 * 100;
    const ProfiledStep slow = profiled_step(c.hardware, c.topology, profiles);
    // 14 units of 100 ms, which begin when the head's gradient is complete; the pass takes 12 blocks and the embedding
    // after it.
    const double behind =
        12 * (kBlock.backward + kBlock.weight_gradient) + kEmbedding.backward + kEmbedding.weight_gradient;
    CHECK(slow.stages[0].sync == doctest::Approx(14 * 100 - behind).epsilon(kPrecise));
    CHECK(slow.step_ms - quick.step_ms ==
          doctest::Approx(slow.stages[0].sync - quick.stages[0].sync).epsilon(kPrecise));
  }

  TEST_CASE("ZeRO-1 scatters in the pass and gathers after the update") {
    const Plan plan{16, 2, {{12, 1, {replica(4, 0, 0, 1), replica(4, 0, 1, 1)}}}, {}, "1f1b"};
    std::vector<StageProfile> profiles = all_stages(plan);
    const Cluster c = cluster(6);
    const double before = profiled_step(c.hardware, c.topology, profiles).stages[0].optimizer;
    profiles[0].zero1 = true;
    const ProfiledStep step = profiled_step(c.hardware, c.topology, profiles);
    CHECK(step.stages[0].sync == doctest::Approx(kUnitGradient / 50 / 2).epsilon(kPrecise));
    CHECK(step.stages[0].optimizer == doctest::Approx(before + 14 * kUnitGradient / 50 / 2).epsilon(kPrecise));
    // Bitwise sums are whole: integers beside the float32.
    for (UnitProfile& unit : profiles[0].units) unit.accumulator_bytes = 1.5 * unit.gradient_bytes;
    CHECK(profiled_step(c.hardware, c.topology, profiles).stages[0].sync ==
          doctest::Approx(kUnitGradient / 50).epsilon(kPrecise));
  }

  TEST_CASE("the sums of tensor parallelism come from the network's figures") {
    const Plan plan{16, 4, {{12, 2, {replica(4, 0, 0, 2)}}}, {}, "1f1b"};
    std::vector<StageProfile> profiles = all_stages(plan);
    const double without = step_of(plan, profiles);
    for (UnitProfile& unit : profiles[0].units)
      if (unit.kind == UnitKind::block) unit.forward_sums = unit.backward_sums = {2, 2 * 8192.0};
    // A ring of two sends each message once; one of v_sat has all of the bandwidth.
    CHECK(step_of(plan, profiles) == doctest::Approx(without + 4 * 12 * 4 * 8192.0 / 128).epsilon(kPrecise));
  }

  TEST_CASE("the tied table's gradient is exchanged between the first and the last stage only") {
    std::vector<StageProfile> profiles = all_stages(two_stages());
    const double without = step_of(two_stages(), profiles);
    for (StageProfile& one : profiles) one.tied_bytes = 1000;
    CHECK(step_of(two_stages(), profiles) == doctest::Approx(without + 1000 / 10.0).epsilon(kPrecise));
  }

  TEST_CASE("the slowest type of a stage counts, and each type needs a profile") {
    const Plan plan{16, 4, {{12, 1, {replica(2, 0, 0, 1), replica(2, 1, 0, 1)}}}, {}, "1f1b"};
    std::vector<StageProfile> profiles{stage_profile(plan, 0)};
    CHECK(complaint(profiles, true) ==
          "stage profiles: stage 0 has no profile of a replica on GPUs of type slow; run espalier-train --profile-plan "
          "for "
          "one of them");
    profiles.push_back(stage_profile(plan, 0, 1));
    const double even = step_of(plan, profiles, true);
    for (UnitProfile& unit : profiles[1].units) unit.forward *= 2;
    CHECK(step_of(plan, profiles, true) > even);
  }

  TEST_CASE("recomputation: weights come before the gradient that is sent") {
    std::vector<StageProfile> profiles = all_stages(two_stages());
    const double plain = step_of(two_stages(), profiles);
    for (StageProfile& one : profiles) one.recompute = true;
    CHECK(step_of(two_stages(), profiles) > plain);
  }

  TEST_CASE("zero bubbles are shorter than 1F1B") {
    Plan plan{16, 4, {}, {}, "1f1b"};
    for (int node = 0; node < 4; ++node) plan.stages.push_back({3, 1, {replica(4, node, 0, 1)}});
    const double plain = step_of(plan, all_stages(plan));
    plan.schedule = "zb-h1";
    CHECK(step_of(plan, all_stages(plan)) < plain);
  }

  TEST_CASE("profiles that do not belong together are refused") {
    const std::vector<StageProfile> good = all_stages(two_stages());
    CHECK(complaint({}) == "stage profiles: there is none; profile each stage of the plan");
    CHECK(complaint({good[0]}) == "stage profiles: stage 1 has none; run espalier-train --profile-plan with --stage 1");
    CHECK(complaint({good[0], good[0], good[1]}) ==
          "stage profiles: stage 0, replica 0: is there twice; leave one of them out");
    auto profiles = good;
    profiles[1].plan.micro_batches = 8;
    CHECK(complaint(profiles) == "stage profiles: stage 1, replica 0: is of another plan than the first profile");
    profiles = good;
    profiles[1].zero1 = true;
    CHECK(complaint(profiles) ==
          "stage profiles: stage 1, replica 0: is of another model or training than the first profile");
    profiles = good;
    for (StageProfile& one : profiles) one.shape.setting.emplace().precision = "float32";
    profiles[1].shape.setting->runtime = "torch 3";
    CHECK(complaint(profiles) == "accepted");
    profiles[1].shape.setting->precision = "bfloat16";
    CHECK(complaint(profiles) ==
          "stage profiles: stage 1, replica 0: is of another model or training than the first profile");
    profiles = all_stages({16, 4, {{12, 1, {replica(4, 9, 0, 1)}}}, {}, "1f1b"});
    CHECK(complaint(profiles) == "GPU n9/0: its node is unknown");
  }

  TEST_CASE("a job's coefficients follow from the profiles of its stages") {
    const Cluster c = cluster(6);
    const Calibration found = calibrate(c.hardware, c.topology, profile_of(all_stages(two_stages())));
    CHECK_FALSE(found.job.gpu[0].assumed_comp);
    CHECK_FALSE(found.job.gpu[0].assumed_optim);
    CHECK(found.job.param_bytes == doctest::Approx(kUnitGradient));
    CHECK(found.job.param_optim_bytes == doctest::Approx(3 * kUnitGradient));
    CHECK(found.job.activ_bytes == kBoundary);
    const double backward = kBlock.backward + kBlock.weight_gradient;
    CHECK(found.job.gpu[0].backward == doctest::Approx((6 * backward + whole(kEmbedding) - kEmbedding.forward) /
                                                       (6 * kBlock.forward + kEmbedding.forward)));
  }
}
