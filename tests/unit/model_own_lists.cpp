// The planner's time and memory of a user's own lists (espalier-train --schedule FILE).
#include "planner/core/model/own_lists.hpp"

#include <doctest/doctest.h>

#include <random>
#include <thread>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/iteration_profile.hpp"
#include "planner/core/model/scheduled_plan.hpp"
#include "planner/core/model/scheduled_time.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/improve.hpp"
#include "planner/core/pipeline/list_scheduler.hpp"
#include "planner/core/pipeline/search.hpp"
#include "planner/core/pipeline/simulate.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/solver/evaluator.hpp"
#include "tests/unit/model_profiles.hpp"
#include "tests/unit/pipeline_cases.hpp"
#include "tests/unit/solver_cases.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

struct Named {
  const char* schedule;
  int chunks;
};
constexpr Named kNamed[] = {{"1f1b", 1},        {"gpipe", 1}, {"gpipe", 2},      {"interleaved", 2},
                            {"interleaved", 3}, {"zb-h1", 1}, {"zb-h2", 1},      {"zb-v", 2},
                            {"v-half", 2},      {"v-min", 2}, {"memory-min", 1}, {"memory-min", 2}};

std::string csv_of(const Named& named, int stages, int micro_batches) {
  return pipeline::write_csv(pipeline::generate(named.schedule, {stages, micro_batches, named.chunks}));
}

// `layers` by stage, one replica a stage; in the form.
Plan plan_of(const std::vector<int>& layers, int micro_batches, PipelineForm form) {
  Plan plan{4 * micro_batches, micro_batches, {}};
  for (std::size_t s = 0; s < layers.size(); ++s)
    plan.stages.push_back({layers[s], 1, {replica(4, 0, static_cast<int>(s), 1)}});
  return with_form(plan, form);
}

JobCoefficients coefficients(int layers, int global_batch) {
  JobCoefficients known = job(layers, global_batch);
  known.deferred = 0.4;
  known.first.compute_layers = 0.3;
  known.last.compute_layers = 1.2;
  return known;
}

JobCoefficients with_lists(JobCoefficients known, const std::string& csv) {
  known.own_lists = OwnLists::of(csv);
  return known;
}

// Lists that no generator makes: of the search under a random limit of memory.
pipeline::Schedule searched(const pipeline::Schedule& from, std::uint64_t seed) {
  pipeline::Chance chance(seed);
  pipeline::SearchProblem problem{
      static_cast<int>(from.actions.size()), from.micro_batches, from.rank_of_chunk, {}, {}};
  problem.costs = pipeline::uneven_costs(from.rank_of_chunk.size(), chance);
  problem.memory.assign(from.actions.size(), 2 + 4 * chance.unit());
  pipeline::SearchOptions options;
  options.seed = seed;
  options.work = 20'000;
  const pipeline::Found found = pipeline::search(problem, options, {from});
  return found.found() ? found.schedule : from;
}

std::string refusal(const std::string& csv) {
  try {
    OwnLists::of(csv);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE(
    "own lists: a known schedule that is written as CSV has the time and the memory of its name, for all small "
    "shapes") {
  const Cluster c = cluster(1);
  std::mt19937 random(11);
  int compared = 0;
  for (const Named& named : kNamed)
    for (const int stages : {2, 3, 4, 5})
      for (const int micro_batches : {1, 2, 3, 4, 6, 8, 11}) {
        CAPTURE(std::string(named.schedule));
        CAPTURE(named.chunks);
        CAPTURE(stages);
        CAPTURE(micro_batches);
        std::vector<int> layers;
        for (int s = 0; s < stages; ++s) layers.push_back(named.chunks + static_cast<int>(random() % 3));
        const PipelineForm form = pipeline_form(named.schedule, named.chunks);
        const Plan plan = plan_of(layers, micro_batches, form);
        if (form_of(plan).chunks != named.chunks) continue;  // no layer for each chunk
        for (const bool recompute : {false, true}) {
          JobCoefficients by_name = coefficients(plan.total_layers(), plan.global_batch);
          by_name.recompute = recompute;
          // The plan names another schedule with these chunks, as a job's does that runs lists of its own.
          const std::string csv = csv_of(named, stages, micro_batches);
          const JobCoefficients by_lists = with_lists(by_name, csv);
          Plan beside = plan;
          beside.schedule = by_lists.own_lists->form().schedule();
          const Prediction name = evaluate_plan(c.hardware, c.topology, by_name, plan);
          const Prediction lists = evaluate_plan(c.hardware, c.topology, by_lists, beside);
          REQUIRE(name.stages.size() == lists.stages.size());
          CHECK(lists.exact_ms == doctest::Approx(name.exact_ms).epsilon(1e-9));
          for (std::size_t s = 0; s < name.stages.size(); ++s)
            CHECK(lists.stages[s].memory.peak == doctest::Approx(name.stages[s].memory.peak).epsilon(1e-9));
          // What searches look at.
          for (int s = 0; s < stages; ++s)
            CHECK(by_lists.own_lists->held(s, recompute) ==
                  doctest::Approx(micro_batches_held(form, stages, micro_batches, s, recompute)));
          for (const WorkShares work : {WorkShares{1.0 / 3, 0}, WorkShares{1.0 / 3, 1.0 / 3}, WorkShares{0.25, 0.5}})
            CHECK(by_lists.own_lists->fill(work) ==
                  doctest::Approx(fill_share(form, stages, micro_batches, work)).epsilon(0.02));
          ++compared;
        }
      }
  CHECK(compared > 500);
}

TEST_CASE("own lists: the time of a plan that runs them is the simulator's, its memory what its lists hold") {
  const Cluster c = cluster(1);
  int other = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Named named = kNamed[random() % std::size(kNamed)];
    const int stages = 1 + static_cast<int>(random() % 4), micro_batches = 2 + static_cast<int>(random() % 6);
    CAPTURE(seed);
    const auto start = pipeline::generate(named.schedule, {stages, micro_batches, named.chunks});
    const pipeline::Schedule made = searched(start, seed);
    other += made == start ? 0 : 1;
    std::vector<int> layers;
    for (int s = 0; s < stages; ++s) layers.push_back(named.chunks + static_cast<int>(random() % 3));
    const Plan named_plan = plan_of(layers, micro_batches, pipeline_form(named.schedule, named.chunks));
    if (form_of(named_plan).chunks != named.chunks) continue;
    const JobCoefficients known =
        with_lists(coefficients(named_plan.total_layers(), named_plan.global_batch), pipeline::write_csv(made));
    const PlacedPlan placed = place_plan(c.topology, named_plan);
    const Prediction prediction = evaluate_plan(c.hardware, known, placed);

    std::vector<StageTime> times = stage_times(c.hardware, known, placed);
    std::vector<StageRates> rates;
    for (const PlacedStage& stage : placed.stages)
      rates.push_back(stage_rates(c.hardware, known, stage.shape, stage.shares));
    const std::vector<Chunk> chunks = named_plan.model_chunks();
    pipeline::Costs costs = chunk_costs(known, rates, times, chunks);
    for (std::size_t k = 0; k < costs.size(); ++k)
      costs[k].activation = static_cast<double>(chunks[k].layers) / layers[static_cast<std::size_t>(chunks[k].stage)];
    const pipeline::Simulation run = pipeline::simulate(in_parts(made), costs);
    double end = 0;
    for (int s = 0; s < stages; ++s) {
      const auto rank = static_cast<std::size_t>(s);
      end = std::max(end, run.ranks[rank].last + times[rank].extra);
      CHECK(held_at(known, placed.position(s, known)) == doctest::Approx(run.ranks[rank].peak));
    }
    CHECK(prediction.exact_ms == doctest::Approx(end).epsilon(1e-9));
  }
  CHECK(other > 30);
}

TEST_CASE("own lists: they count for their number of stages and micro-batches and their placement alone") {
  const Cluster c = cluster(1);
  // One micro-batch at a time: far slower than 1F1B, and it holds far less.
  const Plan at = plan_of({3, 3, 3, 3}, 8, {}), fewer_stages = plan_of({4, 4, 4}, 8, {}),
             other = plan_of({3, 3, 3, 3}, 4, {});
  const Plan chunked = plan_of({3, 3, 3, 3}, 8, pipeline_form("interleaved", 2));
  const JobCoefficients plain = coefficients(12, 32);
  const JobCoefficients own = with_lists(plain, csv_of({"memory-min", 1}, 4, 8));
  const auto ms = [&](const JobCoefficients& known, const Plan& plan) {
    JobCoefficients of_plan = known;
    of_plan.global_batch = plan.global_batch;
    return evaluate_plan(c.hardware, c.topology, of_plan, plan).exact_ms;
  };
  CHECK(ms(own, at) > 2 * ms(plain, at));
  for (const Plan* plan : {&fewer_stages, &other, &chunked}) CHECK(ms(own, *plan) == ms(plain, *plan));
  // Chunks that lie in no way of a known schedule do not run lists of one chunk each.
  Plan odd = at;
  odd.chunks = {{0, 2}, {0, 1}, {1, 3}, {2, 3}, {3, 3}};
  REQUIRE(validate(odd).empty());
  CHECK(own.own_lists->run_on(at));
  for (const Plan* plan : {&fewer_stages, &other, &chunked, &std::as_const(odd)})
    CHECK_FALSE(own.own_lists->run_on(*plan));
  CHECK(ms(own, odd) == ms(plain, odd));
  CHECK(evaluate_plan(c.hardware, c.topology, own, at).stages[0].memory.activations ==
        doctest::Approx(evaluate_plan(c.hardware, c.topology, plain, at).stages[0].memory.activations / 4));
  CHECK(evaluate_plan(c.hardware, c.topology, own, odd).stages[0].memory.activations ==
        evaluate_plan(c.hardware, c.topology, plain, odd).stages[0].memory.activations);
}

TEST_CASE("own lists: the search for plans has the time and the memory of the evaluation") {
  std::mt19937 random(5);
  int ran = 0, feasible = 0;
  for (int round = 0; round < 200; ++round) {
    test::TinyCase tiny = test::tiny_case(random, 6, 8);
    const Named named = kNamed[random() % std::size(kNamed)];
    const auto divides = [&](int count) { return tiny.job.global_batch % count == 0; };
    int micro_batches = 1 + static_cast<int>(random() % 4);
    while (!divides(micro_batches)) --micro_batches;
    const std::string csv = csv_of(named, 2, micro_batches);
    const PipelineForm form = pipeline_form(named.schedule, named.chunks);
    const std::vector<PipelineForm> by_name{form, form};
    tiny.bounds.fixed_pp = 2;
    tiny.bounds.fixed_micro_batches = micro_batches;
    Problem problem = tiny.problem();
    problem.forms = by_name;
    Evaluator name(problem);
    const PipelineForm beside = form_beside(pipeline::read_csv(csv), "");
    const std::vector<PipelineForm> by_lists{beside, beside};
    test::TinyCase with_own = tiny;
    with_own.job.own_lists = OwnLists::of(csv);
    Problem own = with_own.problem();
    own.forms = by_lists;
    Evaluator lists(own);
    PlanSketch sketch;
    sketch.micro_batches = micro_batches;
    int left = 2;
    for (const Piece& piece : tiny.available)
      for (int gpu = 0; gpu < piece.gpus && left > 0; ++gpu, --left) {
        StageSketch& stage = sketch.stages.emplace_back();
        stage.tp = 1;
        stage.layers = 1;
        stage.pieces = {{piece.node, piece.type, 1}};
      }
    if (left > 0) continue;
    PlanSketch same = sketch;
    const Score by = name.balance_sketch(sketch), with = lists.balance_sketch(same);
    CHECK(by.feasible() == with.feasible());
    ++ran;
    if (!by.feasible() || !with.feasible()) continue;
    // Where a stage has too few layers for its chunks, each goes on with fewer, which the lists do not fit.
    if (sketch.form != form || same.form != beside) continue;
    for (std::size_t s = 0; s < 2; ++s) CHECK(sketch.stages[s].layers == same.stages[s].layers);
    CHECK(lists.exact_sketch(same) == doctest::Approx(name.exact_sketch(sketch)).epsilon(1e-9));
    ++feasible;
  }
  CHECK(ran > 50);
  CHECK(feasible > 10);
}

TEST_CASE(
    "own lists: a profile of a plan that runs them gives the activations of a layer, whatever its schedule is called") {
  Cluster c = cluster();
  c.hardware.types[0].memory_bytes = 1e12;
  Plan plan{16, 4, {}};
  for (int s = 0; s < 3; ++s) plan.stages.push_back({4, 1, {replica(4, 0, s, 1)}});
  JobCoefficients known = known_job({});
  const auto own = OwnLists::of(csv_of({"gpipe", 1}, 3, 4));
  known.own_lists = own;
  Profile profile = profile_of(c, known, plan);
  // The helper's peaks are 1F1B's: those of the lists.
  const PlacedPlan placed = place_plan(c.topology, plan);
  const Prediction prediction = evaluate_plan(c.hardware, known, placed);
  for (ReplicaProfile& one : profile.replicas) {
    one.peak_bytes = prediction.stages[static_cast<std::size_t>(one.stage)].memory.peak;
  }
  const JobCoefficients found = calibrate(c.hardware, c.topology, profile, {}, {}, own).job;
  CHECK(found.activ_p_bytes + found.activ_np_bytes ==
        doctest::Approx(known.activ_p_bytes + known.activ_np_bytes).epsilon(1e-6));
  CHECK(found.own_lists == nullptr);
  const JobCoefficients blind = calibrate(c.hardware, c.topology, profile).job;
  CHECK(blind.activ_p_bytes + blind.activ_np_bytes > 1.2 * (known.activ_p_bytes + known.activ_np_bytes));
}

TEST_CASE("own lists: the speed that is assumed from a step's time is that of the lists") {
  Cluster c = cluster();
  Plan plan{16, 4, {}};
  for (int s = 0; s < 3; ++s) plan.stages.push_back({4, 1, {replica(4, 0, s, 1)}});
  const auto own = OwnLists::of(csv_of({"memory-min", 1}, 3, 4));
  const JobCoefficients found = assumed_coefficients(c.hardware, c.topology, kShape, {}, plan, 1e6, own);
  CHECK(found.own_lists == nullptr);
  JobCoefficients known = found;
  known.own_lists = own;
  CHECK(evaluate_plan(c.hardware, c.topology, known, plan).exact_ms == doctest::Approx(1e6).epsilon(1e-4));
}

TEST_CASE("own lists: equal texts are one object, on all threads") {
  const std::string csv = csv_of({"zb-h1", 1}, 4, 9);
  const auto one = OwnLists::of(csv);
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  std::array<double, 4> fill{};
  for (std::size_t t = 0; t < same.size(); ++t)
    threads.emplace_back([&, t] {
      const auto mine = OwnLists::of(std::string(csv));
      same[t] = mine == one;
      for (int a = 1; a < 20; ++a) fill[t] += mine->fill({a / 48.0, 0.3});
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < same.size(); ++t) {
    CHECK(same[t]);
    CHECK(fill[t] == fill[0]);
  }
  CHECK(OwnLists::of(csv_of({"zb-h1", 1}, 4, 8)) != one);
  CHECK(OwnLists::of("") == nullptr);
}

TEST_CASE("own lists: a text that is too long, unsound or placed in no known way is refused in words") {
  CHECK(refusal(std::string(kMostOwnLists + 1, ',')) == "lists of 65537 bytes: a job may tell at most 65536");
  CHECK(refusal("0F0\n1B0\n").find("1F0 is missing") != std::string::npos);
  CHECK(refusal("0F0,0B0,0B0\n1F0,1B0\n").find("it is there twice") != std::string::npos);
  CHECK(refusal("0F0,1F0,1B0,0B0\n2F0,2B0\n").find("neither round the stages") != std::string::npos);
  CHECK(refusal("0F0,0B0\n1F0,1B0\n") == "accepted");
}

TEST_CASE("own lists: the other plans run the named schedule where that has the same chunks, else one that has them") {
  const auto beside = [](const Named& lists, const char* named) {
    return form_beside(pipeline::generate(lists.schedule, {4, 4, lists.chunks}), named).schedule();
  };
  CHECK(beside({"zb-h1", 1}, "1f1b") == "1f1b");
  CHECK(beside({"1f1b", 1}, "zb-h1") == "zb-h1");
  CHECK(beside({"1f1b", 1}, "zb-v") == "1f1b");
  CHECK(beside({"zb-v", 2}, "v-half") == "v-half");
  CHECK(beside({"zb-v", 2}, "interleaved") == "zb-v");
  CHECK(beside({"interleaved", 3}, "1f1b") == "interleaved");
  CHECK(beside({"interleaved", 2}, "gpipe") == "gpipe");
  CHECK(beside({"interleaved", 2}, "auto") == "interleaved");
}

TEST_CASE("own lists: a job tells them with its limits, and is planned with them") {
  ElasticJob one;
  one.parallel.lists = csv_of({"zb-h1", 1}, 4, 8);
  const Json text = Json(one.parallel);
  CHECK(text.get<ParallelLimits>() == one.parallel);
  CHECK_FALSE(Json(ParallelLimits{}).contains("lists"));
  REQUIRE(told_lists(one) != nullptr);
  CHECK(as_the_job_allows(coefficients(12, 32), one).own_lists == told_lists(one));
  one.parallel.lists = "0F0\n";
  CHECK(told_lists(one) == nullptr);  // 0B0 is missing
  CHECK(as_the_job_allows(coefficients(12, 32), one).own_lists == nullptr);
}
