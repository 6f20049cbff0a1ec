// FlexTrain's scale table: predictions by formula and by profile, and the filter (§4.4).
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/flextrain/predicted_scale.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/topology/from_view.hpp"

using namespace espalier;

namespace {

Site site_of(int nodes, double memory_bytes = 0) {
  ClusterView view;
  for (int n = 1; n <= nodes; ++n) {
    NodeView node;
    node.name = "n" + std::to_string(n);
    node.gpu_type = "h100";
    node.gpu_owner.assign(4, 0);
    view.nodes.push_back(std::move(node));
  }
  Site site = site_from_view(view, {}).site;
  if (memory_bytes > 0) site.hardware.types.front().memory_bytes = memory_bytes;
  return site;
}

ElasticJob running(const Site& site, int layers, const std::string& schedule, int chunks) {
  ElasticJob job;
  job.id = 7;
  job.phase = JobPhase::running;
  job.model = {"llama", layers, 2048, 16, 1024, 2048, 32, 32};
  job.model.setting.emplace().schedule = schedule;
  job.parallel.chunks = chunks;
  job.parallel.v_shaped = schedule.starts_with("zb-v");
  job.parallel.dp = 1;
  job.parallel.tp = 1;
  job.parallel.micro_batches = 32;
  job.max_gpus = 12;
  job.anchor = {{7, "n1", {0, 1}}};
  job.plan = first_plan(job, site, sheet_for(job, site), RankOrder::planned).plan;
  job.step_seconds = 1;
  return job;
}

ScaleEntry entry(int gpus, double profiled, double modelled) {
  ScaleEntry made;
  made.gpus = gpus;
  made.plan = "some";
  made.profiled = profiled;
  made.modelled = modelled;
  return made;
}

}  // namespace

TEST_CASE("equation 5: enough micro-batches, and too few") {
  // 12 divisions on 4 stages of 3 chunks, 8 micro-batches: m v + p - 1 passes of one division.
  CHECK(modelled_passes(3, 4, 3, 8) == doctest::Approx(8 * 3 + 3));
  CHECK(modelled_passes(3, 4, 3, 2) == doctest::Approx(4 * 3 + 1));
  // One chunk of three divisions: m + p - 1 passes of three (eqs. 1 and 2).
  CHECK(modelled_passes(3, 4, 1, 8) == doctest::Approx(3 * (8 + 3)));
  CHECK(modelled_passes(12, 1, 1, 8) == doctest::Approx(12 * 8));
}

TEST_CASE("equation 5: stages of unequal length are paced by the longest") {
  // 24 layers on 11 stages: the longest has 3. On 12 stages each has 2.
  CHECK(modelled_passes(3, 11, 1, 32) / modelled_passes(2, 12, 1, 32) == doctest::Approx(126.0 / 86));
}

TEST_CASE("the filter drops what the predictions disagree about, what differs too much, and what gains too little") {
  ScaleOptions options;
  std::vector<ScaleEntry> rows{entry(2, 1, 1),      entry(3, 1.4, 1.45), entry(4, 1.38, 1.9), entry(5, 1.41, 2.0),
                               entry(6, 1.42, 1.7), entry(7, 2.2, 2.3),  entry(8, 2.21, 2.31)};
  filter_entries(rows, options);
  CHECK(rows[0].dropped.empty());
  CHECK(rows[1].dropped.empty());
  CHECK(rows[2].dropped == "measured figures say it is slower than the row before, the formula says faster");
  CHECK(rows[3].dropped == "the two predictions differ too much: 1.41x and 2x");
  CHECK(rows[4].dropped == "measured figures say it is faster than the row before, the formula says slower");
  CHECK(rows[5].dropped.empty());
  CHECK(rows[6].dropped == "it gains too little: 2.21x after 2.2x");
  // What was impossible before stays so, and counts for nothing.
  std::vector<ScaleEntry> none{entry(2, 1, 1), entry(3, 0, 0), entry(4, 1.9, 1.9)};
  none[1].dropped = "no memory";
  filter_entries(none, options);
  CHECK(none[1].dropped == "no memory");
  CHECK(none[2].dropped.empty());
}

TEST_CASE("a scale table has a row for each number of GPUs, from the present to the most") {
  const Site site = site_of(3);
  for (const auto& [schedule, chunks] : {std::pair("1f1b", 0), std::pair("zb-v, 2 chunks", 2)}) {
    CAPTURE(schedule);
    const ElasticJob job = running(site, 24, schedule, chunks);
    const auto rows = predicted_scale(job, site, sheet_for(job, site), {});
    REQUIRE(rows.size() == 11);
    CHECK(rows.front().gpus == 2);
    CHECK(rows.front().profiled == 1);
    CHECK(rows.back().gpus == 12);
    int usable = 0;
    for (const ScaleEntry& row : rows) {
      CAPTURE(row.gpus);
      if (!row.plan.empty()) CHECK(row.peak_bytes > 0);
      if (!row.dropped.empty()) continue;
      ++usable;
      CHECK(row.schedule == (chunks > 0 ? "zb-v" : "1f1b"));
      CHECK(row.profiled <= row.gpus / 2.0 * 1.05);
      CHECK(row.step_seconds == doctest::Approx(rows.front().step_seconds / row.profiled));
    }
    CHECK(usable >= 4);
  }
}

TEST_CASE("rows that do not fit into memory, or that no plan divides, say so") {
  // Twenty-four layers' state fits on two GPUs only just.
  const Site roomy = site_of(3);
  ElasticJob job = running(roomy, 6, "1f1b", 0);
  const auto rows = predicted_scale(job, roomy, sheet_for(job, roomy), {});
  CHECK(rows.back().gpus == 12);
  CHECK(rows.back().dropped ==
        "no plan of so many GPUs divides the layers, the global batch and the tensor-parallel degree");
  job.plan.reset();
  CHECK_THROWS_AS(predicted_scale(job, roomy, sheet_for(running(roomy, 6, "1f1b", 0), roomy), {}), Error);
}

TEST_CASE("a job of very many GPUs has no more rows than asked for, the most GPUs among them") {
  const Site site = site_of(64, 100e9);  // two GPUs hold the integers of 128 layers' gradients, too
  ElasticJob job = running(site, 128, "1f1b", 0);
  job.parallel.dp = 0;
  job.max_gpus = 256;
  ScaleOptions options;
  options.most_entries = 8;
  const auto rows = predicted_scale(job, site, sheet_for(job, site), options);
  REQUIRE(rows.size() == 8);
  CHECK(rows.back().gpus == 256);
}
