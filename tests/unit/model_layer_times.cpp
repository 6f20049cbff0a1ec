// What a layer that was measured alone tells of TP degrees and samples.
#include "planner/core/model/layer_times.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "planner/core/json.hpp"
#include "planner/core/model/coefficient_window.hpp"
#include "planner/core/model/degree_factor.hpp"
#include "planner/core/profile_check.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

// Of a layer with k_comp 3 (forward and backward), of which 0.6 is fixed.
double layer_ms(int tp, int samples, double factor) { return 3 * (samples * factor / tp + 0.2); }

// Times that `known` explains.
std::vector<LayerTime> times_of(const JobCoefficients& known) {
  std::vector<LayerTime> times;
  for (const int tp : {1, 2, 4})
    for (const int samples : {1, 4}) times.push_back({tp, samples, samples_of_work(known, samples, tp) * 7});
  return times;
}

Plan alone_on(int tp) { return {16, 4, {{12, tp, {replica(4, 0, 0, tp)}}}}; }

double forward_ms(const Cluster& c, const JobCoefficients& known, const Plan& plan) {
  return evaluate_plan(c.hardware, known, place_plan(c.topology, plan)).stages.front().comp_fwd;
}

JobCoefficients with_degrees() {
  JobCoefficients known = known_job({});
  known.activ_bytes = model_sizes(kShape, {}, 2).activ_bytes;
  known.activ_np_bytes = 5 * known.activ_bytes;
  known.degree_factors = {{1, 1}, {2, 1.1}, {4, 1.4}};
  known.fixed_samples = 0.3;
  return known;
}

}  // namespace

TEST_CASE(
    "a layer's times give the factor of each degree and the fixed part back, whichever degree they are told for") {
  std::vector<LayerTime> times;
  for (const auto& [tp, factor] : {std::pair(1, 1.0), {2, 1.1}, {4, 1.3}})
    for (const int samples : {1, 2, 8}) times.push_back({tp, samples, layer_ms(tp, samples, factor)});
  const auto fit = fit_layer_times(times, 1);
  REQUIRE(fit);
  REQUIRE(fit->degree_factors.size() == 3);
  CHECK(fit->degree_factors[0] == DegreeFactor{1, 1});
  CHECK(fit->degree_factors[1].factor == doctest::Approx(1.1));
  CHECK(fit->degree_factors[2].factor == doctest::Approx(1.3));
  CHECK(fit->fixed_samples == doctest::Approx(0.2));

  const auto at_four = fit_layer_times(times, 4);
  REQUIRE(at_four);
  CHECK(at_four->degree_factors[0].factor == doctest::Approx(1 / 1.3));
  CHECK(at_four->degree_factors[2] == DegreeFactor{4, 1});
  CHECK(at_four->fixed_samples == doctest::Approx(0.2 / 1.3));
}

// Weights are read once for each micro-batch, and TP divides them.
TEST_CASE("where the fixed part shrinks with the degree, times of many samples are predicted well all the same") {
  const std::vector<LayerTime> times{{1, 8, 66}, {1, 1, 10}, {8, 8, 10.1}, {8, 1, 1.7}};
  for (const int told : {1, 8}) {
    CAPTURE(told);
    const auto fit = fit_layer_times(times, told);
    REQUIRE(fit);
    JobCoefficients job;
    job.tp_degrees = {1, 2, 4, 8};
    job.degree_factors = fit->degree_factors;
    job.fixed_samples = fit->fixed_samples;
    CHECK(samples_of_work(job, 8, 8) / samples_of_work(job, 8, 1) == doctest::Approx(10.1 / 66).epsilon(0.03));
  }
}

TEST_CASE("a layer's times that tell less give less") {
  SUBCASE("one number of samples shows no fixed part") {
    const auto fit = fit_layer_times({{1, 4, 12}, {2, 4, 7}}, 1);
    REQUIRE(fit);
    CHECK(fit->fixed_samples == 0);
    CHECK(fit->degree_factors[1].factor == doctest::Approx(2 * 7.0 / 12));
  }
  SUBCASE("more samples that are slower each show no fixed part") {
    const auto fit = fit_layer_times({{1, 1, 3}, {1, 2, 7}}, 1);
    REQUIRE(fit);
    CHECK(fit->fixed_samples == 0);
  }
  SUBCASE("a layer that takes as long for any number of samples still has some time for each") {
    const auto fit = fit_layer_times({{1, 1, 3}, {1, 8, 3}}, 1);
    REQUIRE(fit);
    CHECK(std::isfinite(fit->fixed_samples));
    CHECK(fit->fixed_samples > 5);
  }
  SUBCASE("without a fixed part, times of other numbers of samples compare with nothing") {
    const auto fit = fit_layer_times({{1, 1, 4.5}, {2, 4, 8.1}, {4, 1, 2.3}}, 1);
    REQUIRE(fit);
    REQUIRE(fit->degree_factors.size() == 2);
    CHECK(fit->degree_factors[0] == DegreeFactor{1, 1});
    CHECK(fit->degree_factors[1].tp == 4);
    CHECK(fit->degree_factors[1].factor == doctest::Approx(4 * 2.3 / 4.5));
  }
  SUBCASE("nothing where the degree that runs was not measured") {
    CHECK_FALSE(fit_layer_times({{2, 1, 3}}, 1));
    CHECK_FALSE(fit_layer_times({}, 1));
  }
}

TEST_CASE("a profile with a layer's times gives back coefficients with which every degree is predicted") {
  const Cluster c = cluster(6, true);
  const JobCoefficients known = with_degrees();
  for (const int ran : {1, 2, 4}) {
    CAPTURE(ran);
    Profile profile = profile_of(c, known, alone_on(ran));
    profile.layer_times = times_of(known);
    const JobCoefficients found = calibrate(c.hardware, c.topology, profile).job;
    for (const int tp : {1, 2, 4})
      CHECK(forward_ms(c, found, alone_on(tp)) == doctest::Approx(forward_ms(c, known, alone_on(tp))));
    // Micro-batches of one sample, of which there are more.
    Plan small = alone_on(2);
    small.micro_batches = 16;
    small.stages[0].replicas[0].share = 1;
    CHECK(forward_ms(c, found, small) == doctest::Approx(forward_ms(c, known, small)));
  }
}

TEST_CASE("stages with other degrees than the first are calibrated by their own") {
  const Cluster c = cluster(6, true);
  JobCoefficients known = with_degrees();
  known.first.compute_layers = 0, known.last.compute_layers = 1.5;
  const Plan plan{16, 4, {{5, 4, {replica(4, 0, 0, 4)}}, {4, 1, {replica(4, 2, 0, 1)}}, {3, 2, {replica(4, 4, 0, 2)}}}};
  Profile profile = profile_of(c, known, plan);
  profile.layer_times = times_of(known);
  const JobCoefficients found = calibrate(c.hardware, c.topology, profile).job;
  CHECK(found.last.compute_layers == doctest::Approx(1.5));
  const Prediction one = evaluate_plan(c.hardware, found, place_plan(c.topology, plan)),
                   other = evaluate_plan(c.hardware, known, place_plan(c.topology, plan));
  for (std::size_t s = 0; s < 3; ++s) CHECK(one.stages[s].comp_fwd == doctest::Approx(other.stages[s].comp_fwd));
}

TEST_CASE("what one generation told of degrees holds for the next, which does not tell it") {
  const Cluster c = cluster(6, true);
  const JobCoefficients known = with_degrees();
  Profile profile = profile_of(c, known, alone_on(1));
  profile.layer_times = times_of(known);
  const JobCoefficients first = calibrate(c.hardware, c.topology, profile).job;
  const Profile later = profile_of(c, known, alone_on(4));
  const JobCoefficients second = calibrate(c.hardware, c.topology, later, {}, {0, &first}).job;
  for (const int tp : {1, 2, 4})
    CHECK(forward_ms(c, second, alone_on(tp)) == doctest::Approx(forward_ms(c, known, alone_on(tp))));
  // Without it, degree 1 is predicted as four times degree 4.
  const JobCoefficients unaware = calibrate(c.hardware, c.topology, later).job;
  CHECK(unaware.degree_factors.empty());
  CHECK(forward_ms(c, unaware, alone_on(1)) > 1.3 * forward_ms(c, known, alone_on(1)));
}

TEST_CASE("a degree that is new tells its own time, and what was known of the others stays") {
  const Cluster c = cluster(6, true);
  const JobCoefficients known = with_degrees();
  Profile profile = profile_of(c, known, alone_on(1));
  profile.layer_times = times_of(known);
  std::erase_if(profile.layer_times, [](const LayerTime& one) { return one.tp == 4; });
  const JobCoefficients first = calibrate(c.hardware, c.topology, profile).job;
  REQUIRE_FALSE(degree_is_measured(first, 4));
  const JobCoefficients fresh =
      calibrate(c.hardware, c.topology, profile_of(c, known, alone_on(4)), {}, {0, &first}).job;
  CHECK(told_degree(fresh) == 4);
  const JobCoefficients both = refine(first, fresh);
  for (const int tp : {1, 2, 4})
    CHECK(forward_ms(c, both, alone_on(tp)) == doctest::Approx(forward_ms(c, known, alone_on(tp))).epsilon(0.02));
}

namespace {

// A model whose ends take this much, on a plan without inner stages.
JobCoefficients with_edges(double first, double last) {
  JobCoefficients known = with_degrees();
  known.first.compute_layers = first, known.last.compute_layers = last;
  return known;
}

// Times of the ends that `known` explains, as times_of() has a layer's.
EdgeTimes edges_of(const JobCoefficients& known, int tp, int samples) {
  const double layer = samples_of_work(known, samples, tp) * 7;
  return {tp, samples, known.first.compute_layers * layer, known.last.compute_layers * layer};
}

}  // namespace

TEST_CASE("times of the model's ends, measured alone, are what a plan without inner stages does not show") {
  const Cluster c = cluster(6, true);
  const JobCoefficients known = with_edges(0.25, 2.5);
  const Plan pipeline{
      16, 4, {{4, 1, {replica(4, 0, 0, 1)}}, {4, 1, {replica(4, 2, 0, 1)}}, {4, 1, {replica(4, 4, 0, 1)}}}};
  for (const int ran : {1, 2}) {
    CAPTURE(ran);
    Profile profile = profile_of(c, known, alone_on(ran));
    profile.layer_times = times_of(known);
    const JobCoefficients unaware = calibrate(c.hardware, c.topology, profile).job;
    CHECK(unaware.first.assumed_compute);
    CHECK(unaware.last.assumed_compute);
    CHECK(forward_ms(c, unaware, pipeline) != doctest::Approx(forward_ms(c, known, pipeline)).epsilon(0.02));

    profile.edge_times = edges_of(known, ran, 4);
    const JobCoefficients found = calibrate(c.hardware, c.topology, profile).job;
    CHECK_FALSE(found.first.assumed_compute);
    CHECK_FALSE(found.last.assumed_compute);
    CHECK(found.first.compute_layers == doctest::Approx(0.25));
    CHECK(found.last.compute_layers == doctest::Approx(2.5));
    const Prediction one = evaluate_plan(c.hardware, found, place_plan(c.topology, pipeline)),
                     other = evaluate_plan(c.hardware, known, place_plan(c.topology, pipeline));
    for (std::size_t s = 0; s < 3; ++s) CHECK(one.stages[s].comp_fwd == doctest::Approx(other.stages[s].comp_fwd));
  }
}

TEST_CASE("what one generation told of the model's ends holds for the next, and an inner stage tells them better") {
  const Cluster c = cluster(6, true);
  const JobCoefficients known = with_edges(0.25, 2.5);
  Profile profile = profile_of(c, known, alone_on(1));
  profile.layer_times = times_of(known);
  profile.edge_times = edges_of(with_edges(0, 3), 1, 4);
  const JobCoefficients first = calibrate(c.hardware, c.topology, profile).job;
  const JobCoefficients second =
      calibrate(c.hardware, c.topology, profile_of(c, known, alone_on(2)), {}, {0, &first}).job;
  CHECK(second.last.compute_layers == first.last.compute_layers);
  CHECK_FALSE(second.last.assumed_compute);
  const Plan pipeline{
      16, 4, {{4, 1, {replica(4, 0, 0, 1)}}, {4, 1, {replica(4, 2, 0, 1)}}, {4, 1, {replica(4, 4, 0, 1)}}}};
  const JobCoefficients third = calibrate(c.hardware, c.topology, profile_of(c, known, pipeline), {}, {0, &second}).job;
  CHECK(third.first.compute_layers == doctest::Approx(0.25));
  CHECK(third.last.compute_layers == doctest::Approx(2.5));
}

TEST_CASE("times of the model's ends that compare with no layer tell nothing, and absurd ones are bounded") {
  CHECK_FALSE(edge_layers({{1, 4, 2}}, std::nullopt));
  CHECK_FALSE(edge_layers({}, EdgeTimes{1, 4, 1, 1}));
  CHECK_FALSE(edge_layers({{1, 2, 2}, {2, 4, 2}}, EdgeTimes{1, 4, 1, 1}));
  const auto found = edge_layers({{1, 2, 2}, {1, 4, 4}}, EdgeTimes{1, 4, 1, 6});
  REQUIRE(found);
  CHECK(found->first == 0.25);
  CHECK(found->last == 1.5);
  CHECK(edge_layers({{1, 4, 1e-300}}, EdgeTimes{1, 4, 1e9, 1e9})->last == 1e6);
}

TEST_CASE("a profile's times of the model's ends are read back, and times that cannot be are refused by name") {
  const Cluster c = cluster(6, true);
  Profile profile = profile_of(c, with_degrees(), alone_on(1));
  profile.step = 1;
  CHECK_FALSE(Json(profile).contains("edge_times"));
  profile.edge_times = {1, 4, 0, 1.5};
  CHECK(Json(profile).get<Profile>().edge_times == profile.edge_times);
  REQUIRE(unfit(profile, profile.plan, profile.shape) == "");
  const auto refused = [&](EdgeTimes times) {
    Profile other = profile;
    other.edge_times = times;
    return unfit(other, other.plan, other.shape);
  };
  CHECK(refused({0, 4, 1, 1}) == "profile: edge_times: its tp is no TP degree");
  CHECK(refused({1 << 17, 4, 1, 1}) == "profile: edge_times: its tp is no TP degree");
  CHECK(refused({1, 0, 1, 1}) == "profile: edge_times: its samples are not between 1 and the global batch");
  CHECK(refused({1, 17, 1, 1}) == "profile: edge_times: its samples are not between 1 and the global batch");
  CHECK(refused({1, 4, -1, 1}) == "profile: edge_times: its first_ms is no time in ms");
  CHECK(refused({1, 4, 1, NAN}) == "profile: edge_times: its last_ms is no time in ms");
  CHECK(refused({1, 4, 1, 1e10}) == "profile: edge_times: its last_ms is no time in ms");
  Json broken = profile;
  broken["edge_times"]["last_ms"] = -1;
  CHECK_THROWS_WITH(broken.get<Profile>(), "profile.edge_times.last_ms: must be finite and not negative");
  broken["edge_times"] = 3;
  CHECK_THROWS_WITH(broken.get<Profile>(), "profile.edge_times: must be a JSON object");
}

TEST_CASE("a profile's times of a layer are read back, and times that cannot be are refused by name") {
  const Cluster c = cluster(6, true);
  Profile profile = profile_of(c, with_degrees(), alone_on(1));
  profile.step = 1;
  CHECK_FALSE(Json(profile).contains("layer_times"));
  profile.layer_times = {{1, 4, 2.5}, {2, 4, 1.5}};
  CHECK(Json(profile).get<Profile>().layer_times == profile.layer_times);
  REQUIRE(unfit(profile, profile.plan, profile.shape) == "");
  const auto refused = [&](std::vector<LayerTime> times) {
    Profile other = profile;
    other.layer_times = std::move(times);
    return unfit(other, other.plan, other.shape);
  };
  CHECK(refused({{0, 4, 1}}) == "profile: layer_times: its tp is no TP degree");
  CHECK(refused({{1 << 17, 4, 1}}) == "profile: layer_times: its tp is no TP degree");
  CHECK(refused({{1, 0, 1}}) == "profile: layer_times: its samples are not between 1 and the global batch");
  CHECK(refused({{1, 17, 1}}) == "profile: layer_times: its samples are not between 1 and the global batch");
  CHECK(refused({{1, 4, 0}}) == "profile: layer_times: its ms is no time in ms above zero");
  CHECK(refused({{1, 4, 1e10}}) == "profile: layer_times: its ms is no time in ms above zero");
  CHECK(refused({{1, 4, NAN}}) == "profile: layer_times: its ms is no time in ms above zero");
  CHECK(refused({{1, 4, 1}, {1, 4, 2}}) == "profile: layer_times tells a degree and samples twice");
  std::vector<LayerTime> many;
  for (int i = 0; i < 65; ++i) many.push_back({1 + i, 1, 1});
  CHECK(refused(many) == "profile: layer_times holds more than 64");
  Json broken = profile;
  broken["layer_times"] = 3;
  CHECK_THROWS_WITH(broken.get<Profile>(), "profile.layer_times: must be a list");
  broken["layer_times"] = Json::array({{{"tp", 1}, {"samples", 1}, {"ms", -1}}});
  CHECK_THROWS_WITH(broken.get<Profile>(), "profile.layer_times.ms: must be finite and not negative");
}
