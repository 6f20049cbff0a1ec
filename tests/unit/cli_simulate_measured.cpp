// Kinds of jobs from the output of `espalier show job --json`.
#include <doctest/doctest.h>

#include "planner/cli/simulate_model_table.hpp"
#include "planner/core/coefficients_json.hpp"
#include "tests/unit/plan_files.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::cli;
using namespace espalier::plan_files;
using namespace espalier::sim_cases;

namespace {

// espalierd's report of a job on two GPUs.
struct MeasuredJob {
  ClusterView cluster = cluster_of(2, 4);
  std::shared_ptr<const Site> site = site_of(cluster);
  JobCoefficients coefficients = small_kind(*site, cluster).coefficients;
  Json record;
  MeasuredJob() {
    coefficients.gpu[0].assumed_comp = false;
    coefficients.deferred = 0.45;
    ElasticJob job;
    job.id = 7;
    job.min_gpus = 2, job.max_gpus = 6;
    job.model = small_kind(*site, cluster).shape;
    job.model.micro_batches = 8;
    job.anchor = {{7, "n1", {0, 1}}};
    record = {{"job", job}};
    record["job"]["coefficients"] = coefficients_json(coefficients, site->hardware);
  }
};

}  // namespace

TEST_SUITE("simulate") {
  TEST_CASE("a kind may be what a job's record says, and is then planned with what was measured") {
    const MeasuredJob job;
    const Folder folder;
    folder.write("job.json", job.record.dump());
    std::vector<std::string> notes;
    const auto kinds = read_model_table(
        folder.write("jobs.toml",
                     "[[jobs]]\nmodel = \"mine\"\nmeasured = \"job.json\"\n[[jobs]]\nmodel = \"other\"\n"
                     "measured = \"job.json\"\npp = 1\ndp = 2\nmax_gpus = 3\naccuracy = \"relaxed\"\n"),
        *job.site, job.cluster, notes);
    REQUIRE(kinds.size() == 2);
    CHECK(kinds[0].model == "mine");
    CHECK(kinds[0].pp == 2);  // the GPUs it was started on
    CHECK(kinds[0].dp == 1);
    CHECK(kinds[0].micro_batches == 8);
    CHECK(kinds[0].max_gpus == 6);
    CHECK(kinds[0].accuracy == Accuracy::bitwise);
    CHECK(kinds[0].coefficients == job.coefficients);
    CHECK(kinds[0].step_seconds > 0);
    CHECK(kinds[1].dp == 2);
    CHECK(kinds[1].max_gpus == 3);
    CHECK(kinds[1].accuracy == Accuracy::relaxed);
  }

  TEST_CASE("a record that does not serve as a kind is refused, and says why") {
    const auto refusal = [](const Json& record, const std::string& more = "") {
      const MeasuredJob job;
      const Folder folder;
      folder.write("job.json", record.dump());
      std::vector<std::string> notes;
      return complaint(folder, [&] {
        read_model_table(folder.write("jobs.toml", "[[jobs]]\nmodel = \"mine\"\nmeasured = \"job.json\"\n" + more),
                         *job.site, job.cluster, notes);
      });
    };
    const MeasuredJob good;
    const std::string at = "jobs.toml:3: jobs.measured: job.json: ";
    CHECK(refusal(good.record) == "accepted");
    CHECK(refusal(Json::object()).find(at + "is not what `espalier show job ID --json` prints") == 0);
    Json none = good.record, slow = good.record, typed = good.record, smaller = good.record;
    none["job"]["coefficients"] = nullptr;
    CHECK(refusal(none) == at + "no coefficients: the job was never profiled");
    slow["job"]["coefficients"]["gpu"]["h100"]["comp"] = 0;
    CHECK(refusal(slow) == at + "coefficients.gpu.h100.comp: must be above zero");
    typed["job"]["coefficients"]["gpu"] = {{"a100", typed["job"]["coefficients"]["gpu"]["h100"]}};
    CHECK(refusal(typed) == at + "coefficients.gpu: nothing of type \"h100\", which the cluster has");
    smaller["job"]["model"]["layers"] = 7;
    CHECK(refusal(smaller) == at + "its model, plan and coefficients do not fit each other");
    CHECK(refusal(good.record, "global_batch = 4\n") ==
          "jobs.toml:4: jobs.global_batch: not beside measured, which tells it");
    CHECK(refusal(good.record, "measured_by = 4\n").find("jobs.toml:4: jobs.measured_by: ") == 0);
    CHECK(refusal(good.record, "accuracy = \"good\"\n").find("jobs.toml:4: jobs.accuracy: ") == 0);
    CHECK(refusal(good.record, "max_gpus = 0\n").find("jobs.toml:4: jobs.max_gpus: ") == 0);
  }
}
