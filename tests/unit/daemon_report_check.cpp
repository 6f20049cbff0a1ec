// A launcher's report is checked before the planner computes with it.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <numeric>

#include "planner/core/error.hpp"
#include "planner/daemon/report_check.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

constexpr int kHuge = std::numeric_limits<int>::max();

// The reason why the job is refused after `change`; empty: it is accepted.
std::string refused(const std::function<void(ElasticJob&)>& change) {
  ElasticJob reported = job(10, "n1", {0, 1});
  extend(reported, 20, "n2", {0});
  change(reported);
  try {
    check_report(reported);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void expect(const std::string& words, const std::function<void(ElasticJob&)>& change) {
  const std::string why = refused(change);
  CAPTURE(why);
  CHECK(why.starts_with("job 10: reported with "));
  CHECK(why.find(words) != std::string::npos);
}

}  // namespace

TEST_CASE("an honest report is taken, also one from before the model is known") {
  CHECK(refused([](ElasticJob&) {}).empty());
  CHECK(refused([](ElasticJob& job) { job.model = {}, job.plan.reset(); }).empty());
  CHECK(refused([](ElasticJob& job) { job.model = {}; }).empty());
}

TEST_CASE("a model's setting must be plain text of a sane length, and its heads a number that a model has") {
  const auto setting = [](auto change) { return [=](ElasticJob& job) { change(job.model.setting.emplace()); }; };
  CHECK(refused(setting([](TrainingSetting& told) {
          told = {"a 1.0", "torch 2", "bfloat16", "1f1b", true, true};
        })).empty());
  expect("setting of 129 bytes", setting([](TrainingSetting& told) { told.program.assign(129, 'x'); }));
  expect("not plain text", setting([](TrainingSetting& told) { told.runtime = "torch\n2"; }));
  expect("key_value_heads", [](ElasticJob& job) { job.model.key_value_heads = -1; });
  expect("intermediate", [](ElasticJob& job) { job.model.intermediate = kHuge; });
}

TEST_CASE("a job's own lists must be a sound schedule, placed in a known way, and no longer than a report may be") {
  const auto lists = [](const std::string& csv) { return [=](ElasticJob& job) { job.parallel.lists = csv; }; };
  CHECK(refused(lists("0F0,0B0\n1F0,1B0\n")).empty());
  expect("1F0 is missing", lists("0F0,0B0\n1B0\n"));
  expect("neither round the stages", lists("0F0,1F0,1B0,0B0\n2F0,2B0\n"));
  expect("lists of 70000 bytes", lists(std::string(70000, ',')));
}

TEST_CASE("replica sizes must ascend, and be as many and as large as a program may have") {
  const auto units = [](std::vector<int> list) { return [=](ElasticJob& job) { job.model.units = list; }; };
  CHECK(refused(units({1, 2, 4})).empty());
  expect("replica sizes that do not ascend", units({2, 1}));
  expect("replica sizes that do not ascend", units({2, 2}));
  expect("a replica of", units({0, 1}));
  expect("a replica of", units({1, kHuge}));
  std::vector<int> many(33);
  std::iota(many.begin(), many.end(), 1);
  expect("a number of replica sizes of", units(many));
}

TEST_CASE("a plan whose batch or micro-batches nobody could compute with is refused") {
  const auto batch = [](int samples, int micro_batches) {
    return [=](ElasticJob& job) {
      job.plan->global_batch = samples;
      job.plan->micro_batches = micro_batches;
      for (Stage& stage : job.plan->stages) stage.replicas[0].share = samples / micro_batches;
    };
  };
  expect("global batch", batch(kHuge, 1));
  expect("global batch", batch(kHuge, kHuge));
  expect("global batch", batch((1 << 20) + 1, 1));
  expect("global batch", batch(0, 1));
  expect("micro-batches", [](ElasticJob& job) { job.plan->micro_batches = 0; });
  CHECK(refused(batch(1 << 20, 1 << 10)).empty());
}

TEST_CASE("a plan with sums that overflow is refused") {
  expect("share", [](ElasticJob& job) { job.plan->stages[0].replicas.assign(3, {kHuge, {{"n1", 0}}}); });
  expect("layers", [](ElasticJob& job) {
    job.model.layers = 0;
    for (Stage& stage : job.plan->stages) stage.layers = kHuge / 2;
  });
  expect("number of layers of 150000", [](ElasticJob& job) {
    job.model.layers = 0;
    for (Stage& stage : job.plan->stages) stage.layers = 50000;
  });
}

TEST_CASE("a plan without stages is refused") {
  expect("without stages", [](ElasticJob& job) { job.plan->stages.clear(); });
}

TEST_CASE("GPUs that no node has are refused wherever they are named") {
  expect("GPU index", [](ElasticJob& job) { job.plan->stages[0].replicas[0].gpus[0].index = kHuge; });
  expect("GPU index 4096", [](ElasticJob& job) { job.anchor[0].gpus[0] = 4096; });
  expect("GPU index -1", [](ElasticJob& job) { job.extensions[0].gpus[0] = -1; });
  expect("GPU index", [](ElasticJob& job) { job.unfit.push_back({"n1", kHuge}); });
  expect("node name", [](ElasticJob& job) { job.unfit.push_back({std::string(300, 'n'), 0}); });
}

TEST_CASE("what ranks said of their GPUs is taken in sane sizes") {
  CHECK(refused([](ElasticJob& job) { job.gpu_islands = {{"n1/10", {0, kHuge}}}; }).empty());
  expect("GPUs in islands", [](ElasticJob& job) { job.gpu_islands["n1/10"].assign(5000, 0); });
  expect("server's name", [](ElasticJob& job) { job.gpu_islands[std::string(2000, 'n')] = {0}; });
  ElasticJob many = job(10, "n1", {0, 1});
  many.gpu_islands["n1/10"].assign(40, 0);
  CHECK_NOTHROW(check_size(many, 64));
  CHECK_THROWS_AS(check_size(many, 8), Error);
}

TEST_CASE("a holding that names a GPU twice is refused: it would count twice") {
  expect("GPU n1/1 twice in its anchor", [](ElasticJob& job) { job.anchor[0].gpus.push_back(1); });
  expect("GPU n2/0 twice in its extensions", [](ElasticJob& job) { job.extensions.push_back(job.extensions[0]); });
}

TEST_CASE("a model of sizes out of all proportion is refused") {
  for (int ModelShape::*size : {&ModelShape::layers, &ModelShape::hidden, &ModelShape::heads, &ModelShape::sequence,
                                &ModelShape::vocabulary, &ModelShape::global_batch, &ModelShape::micro_batches}) {
    expect("model.", [=](ElasticJob& job) { job.model.*size = kHuge; });
    expect("model.", [=](ElasticJob& job) { job.model.*size = -1; });
  }
  expect("model family", [](ElasticJob& job) { job.model.family = std::string(1000, 'x'); });
}
