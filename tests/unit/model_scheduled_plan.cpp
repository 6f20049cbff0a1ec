// The performance and memory model of other schedules than 1F1B.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "planner/core/error.hpp"
#include "planner/core/model/form_figures.hpp"
#include "planner/core/model/iteration_time.hpp"
#include "planner/core/model/scheduled_plan.hpp"
#include "planner/core/model/scheduled_time.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/simulate.hpp"
#include "planner/core/schedule/flextrain/predicted_scale.hpp"
#include "planner/core/schedule/job_problem.hpp"

using namespace espalier;

namespace {

struct Named {
  const char* schedule;
  int chunks;
};
constexpr Named kForms[] = {{"gpipe", 1}, {"gpipe", 2}, {"interleaved", 2}, {"interleaved", 3}, {"zb-h1", 1},
                            {"zb-h2", 1}, {"zb-v", 2},  {"v-half", 2},      {"v-min", 2},       {"memory-min", 2}};

pipeline::Costs any_costs(std::mt19937& random, int chunks) {
  std::uniform_real_distribution<double> any(0.5, 2);
  pipeline::Costs costs;
  for (int c = 0; c < chunks; ++c) {
    pipeline::ChunkCosts cost{any(random), any(random), any(random)};
    cost.backward = cost.backward_input + cost.backward_weight;
    cost.send_forward = cost.send_backward = any(random) / 10;
    costs.push_back(cost);
  }
  return costs;
}

std::vector<GpuId> gpus(int count) {
  std::vector<GpuId> list;
  for (int i = 0; i < count; ++i) list.push_back({"n1", i});
  return list;
}

}  // namespace

TEST_CASE("the time of a schedule is that of its lists, whatever the chunks cost") {
  std::mt19937 random(5);
  for (const Named& named : kForms)
    for (const int stages : {2, 3, 5})
      for (const int micro_batches : {1, 4, 7, 16}) {
        CAPTURE(named.schedule);
        CAPTURE(stages);
        CAPTURE(micro_batches);
        const PipelineForm form = pipeline_form(named.schedule, named.chunks);
        const auto costs = any_costs(random, stages * named.chunks);
        const auto lists = lists_of(form, stages, micro_batches);
        const auto simulated = pipeline::simulate(*lists, costs);
        const std::vector<double> none(static_cast<std::size_t>(stages), 0.0);
        CHECK(scheduled_time(form, stages, micro_batches, costs, none) == doctest::Approx(simulated.time));
        // What a stage holds, when every chunk counts as its share of the stage.
        pipeline::Costs shares(costs.size());
        for (auto& one : shares) one.activation = 1.0 / named.chunks;
        const auto held = pipeline::simulate(*lists, shares);
        for (int s = 0; s < stages; ++s)
          CHECK(micro_batches_held(form, stages, micro_batches, s, false) ==
                doctest::Approx(held.ranks[static_cast<std::size_t>(s)].peak));
      }
}

TEST_CASE("1F1B by its lists is 1F1B by its recurrence, a gradient leaving before the work on the weights") {
  std::mt19937 random(6);
  for (const int stages : {2, 4, 7})
    for (const int micro_batches : {1, 3, 8, 40}) {
      const auto costs = any_costs(random, stages);
      std::vector<StageTime> times;
      for (const auto& cost : costs) times.push_back({cost.forward, cost.backward, 0.7, 0, cost.backward_weight});
      auto sent = costs;
      for (int s = 0; s + 1 < stages; ++s) {
        times[static_cast<std::size_t>(s)].send = 0.1;
        sent[static_cast<std::size_t>(s)].send_forward = sent[static_cast<std::size_t>(s + 1)].send_backward = 0.1;
      }
      const std::vector<double> after(times.size(), 0.7);
      CHECK(scheduled_time({}, stages, micro_batches, sent, after) ==
            doctest::Approx(exact_iteration(times, micro_batches)));
    }
}

TEST_CASE("GPipe holds every micro-batch, also on one stage") {
  for (const int stages : {1, 2, 4, 200})
    for (const int stage : {0, stages - 1})
      CHECK(micro_batches_held(pipeline_form("gpipe", 1), stages, 6, stage, false) == 6);
  CHECK(micro_batches_held({}, 1, 6, 0, false) == 1);
}

TEST_CASE("with very many micro-batches the steady state is not simulated round by round") {
  std::mt19937 random(7);
  for (const Named& named : kForms)
    for (const int micro_batches : {64, 67, 200}) {
      CAPTURE(named.schedule);
      CAPTURE(micro_batches);
      const PipelineForm form = pipeline_form(named.schedule, named.chunks);
      const auto costs = any_costs(random, 4 * named.chunks);
      const std::vector<double> none(4, 0.0);
      CHECK(scheduled_time(form, 4, micro_batches, costs, none) ==
            doctest::Approx(pipeline::simulate(*lists_of(form, 4, micro_batches), costs).time).epsilon(0.01));
    }
}

TEST_CASE("interleaved 1F1B on equal stages takes what FlexTrain's eq. 5 says") {
  const double passes = 12;
  for (const int stages : {2, 3, 4, 6})
    for (const int chunks : {1, 2})
      for (const int micro_batches : {1, 2, 4, 12, 24}) {
        if (micro_batches > stages && micro_batches % stages != 0) continue;  // eq. 5 takes whole groups
        CAPTURE(stages);
        CAPTURE(chunks);
        CAPTURE(micro_batches);
        const double share = fill_share(pipeline_form("interleaved", chunks), stages, micro_batches, {1.0 / 3, 0});
        const double time = (micro_batches + share * (stages - 1)) * passes / stages;
        CHECK(time == doctest::Approx(modelled_passes(passes / stages, stages, chunks, micro_batches)));
      }
}

TEST_CASE("the search's estimate of a schedule is near to its lists, on stages that differ by a tenth") {
  std::mt19937 random(8);
  std::uniform_real_distribution<double> any(0.95, 1.05);
  double sum = 0, worst = 0;
  int count = 0;
  for (const Named& named : kForms)
    for (int round = 0; round < 30; ++round) {
      const int stages = 2 + static_cast<int>(random() % 7), micro_batches = 1 << (random() % 6);
      const PipelineForm form = pipeline_form(named.schedule, named.chunks);
      std::vector<StageTime> times;
      pipeline::Costs costs(static_cast<std::size_t>(stages * named.chunks));
      for (int s = 0; s < stages; ++s) {
        const double whole = 3 * any(random);
        times.push_back({whole / 3, 2 * whole / 3, 0, 0, whole / 3});
      }
      const auto chunks = with_form(uniform_plan(stages, 1, stages * named.chunks, 64, 1, gpus(stages)), form).chunks;
      for (std::size_t c = 0; c < costs.size(); ++c) {
        const int stage = chunks.empty() ? static_cast<int>(c) : chunks[c].stage;
        const double part = times[static_cast<std::size_t>(stage)].fwd / named.chunks;
        costs[c] = {part, part, part, 2 * part};
      }
      const double exact = scheduled_time(form, stages, micro_batches, costs, std::vector<double>(times.size(), 0.0));
      const double estimate =
          formed_iteration(times, micro_batches, fill_share(form, stages, micro_batches, {1.0 / 3, 1.0 / 3}), 0);
      const double error = std::abs(estimate / exact - 1);
      CAPTURE(named.schedule);
      CHECK(error < 0.08);
      sum += error, worst = std::max(worst, error), ++count;
    }
  MESSAGE("mean error ", 100 * sum / count, "%, worst ", 100 * worst, "%");
  CHECK(sum / count < 0.02);
}

TEST_CASE("a plan says its form") {
  const Plan plan = uniform_plan(3, 1, 8, 12, 6, gpus(3));
  CHECK(form_of(plan) == PipelineForm{});
  const Plan back = with_form(plan, pipeline_form("zb-v", 2));
  CHECK(back.schedule == "zb-v");
  CHECK(form_of(back) == pipeline_form("zb-v", 2));
  Plan unnamed = back;
  unnamed.schedule.clear();
  CHECK(form_of(unnamed) == pipeline_form("zb-v", 2));
  CHECK(form_of(with_form(plan, pipeline_form("interleaved", 2))) == pipeline_form("interleaved", 2));
  // Chunks that lie in no known way, and a name that there is none of, count as 1F1B.
  Plan odd = back;
  odd.chunks = {{1, 3}, {0, 3}, {2, 2}};
  odd.schedule = "mine";
  CHECK(form_of(odd) == PipelineForm{});
  CHECK(with_form(odd, pipeline_form("zb-v", 2)) == odd);
}

TEST_CASE("a job's schedules are what its program reports") {
  ElasticJob job;
  CHECK(forms_of(job).empty());
  job.model.setting.emplace().schedule = "1f1b";
  CHECK(forms_of(job).empty());
  job.model.setting->schedule = "zb-v, 2 chunks";
  job.parallel.chunks = 2;
  job.parallel.v_shaped = true;
  REQUIRE(forms_of(job).size() == 1);
  CHECK(forms_of(job).front() == pipeline_form("zb-v", 2));
  CHECK(in_its_form(uniform_plan(2, 1, 8, 12, 6, gpus(2)), {}, job).schedule == "zb-v");
  job.model.setting->schedule = "interleaved, 3 chunks";
  job.parallel.chunks = 3;
  CHECK(forms_of(job).front() == pipeline_form("interleaved", 3));
  job.model.setting->schedule = "someone's own";
  CHECK(forms_of(job).empty());
  job.model.setting->schedule = "auto";
  CHECK(forms_of(job).size() > 3);
  CHECK(forms_of(job).front() == PipelineForm{});
  CHECK(in_its_form(uniform_plan(2, 1, 8, 12, 6, gpus(2)), pipeline_form("zb-h1", 1), job).schedule == "zb-h1");
}

TEST_CASE("without a planner a plan gets the schedule that is best on equal stages") {
  const auto all = forms_of(kAutomaticSchedule, 0, false);
  CHECK(best_on_equal_stages(all, 4, 16) == pipeline_form("zb-v", 2));
  CHECK(best_on_equal_stages(all, 1, 16) == PipelineForm{});
}

TEST_CASE("a schedule that there is none of, and chunks that it cannot have, are refused by name") {
  CHECK_THROWS_WITH_AS(pipeline_form("zb-v", 3), "schedule \"zb-v\": cannot have 3 chunks on each stage, only 2",
                       Error);
  CHECK_THROWS_AS(pipeline_form("zb-w", 2), Error);
  CHECK_THROWS_AS(pipeline_form("interleaved", 0), Error);
}
