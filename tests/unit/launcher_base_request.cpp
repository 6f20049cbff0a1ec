// What Slurm is asked for when a movable job wants a base, and whether a base that waits is still that.
#include "launcher/base/base_request.hpp"

#include <doctest/doctest.h>
#include <slurm/slurm.h>

#include "launcher/slurm/extension_request.hpp"
#include "planner/slurm/limit_reason.h"

using namespace espalier;
using namespace espalier::launcher;

namespace {

JobContext movable() {
  JobContext context;
  context.job = 7;
  context.base_partition = "gpu";
  context.qos = "normal";
  context.account = "lab";
  context.base_gpus = 8;
  return context;
}

BaseShape shape() {
  BaseShape shape;
  shape.nodes = 2;
  shape.gpus_per_node = 4;
  shape.excluded = {"c1", "v1"};
  return shape;
}

// As Slurm shows what base_job() has asked for.
SlurmJob waiting() {
  const BaseJob job = base_job(movable(), BaseTime(0), shape(), {}, {}, false);
  SlurmJob waits;
  waits.id = 12;
  waits.state = SlurmJob::State::pending;
  waits.comment = job.comment;
  waits.partition = job.partition;
  waits.qos = job.qos;
  waits.account = job.account;
  waits.wanted_nodes = 2;
  waits.wanted_gpus_per_node = 4;
  waits.excluded = {"v1", "c1"};
  return waits;
}

}  // namespace

TEST_CASE("a base that waits is the one that a requeued launcher would submit, or has more nodes excluded") {
  CHECK(still_wanted(waiting(), movable(), shape()));
  SlurmJob steered = waiting();
  steered.excluded = {"a1", "c1", "v1"};
  CHECK(still_wanted(steered, movable(), shape()));
}

TEST_CASE("a base that waits for anything else is not gone on with") {
  SlurmJob other = waiting();
  SUBCASE("of another job") { other.comment = "espalier:base:77:0123"; }
  SUBCASE("of a job whose id begins so") { other.comment = "espalier:base:70:0123"; }
  SUBCASE("no base") { other.comment = ""; }
  SUBCASE("it runs") { other.state = SlurmJob::State::running; }
  SUBCASE("another partition") { other.partition = "slow"; }
  SUBCASE("another QOS") { other.qos = "high"; }
  SUBCASE("another account") { other.account = "other"; }
  SUBCASE("another reservation") { other.reservation = "maintenance"; }
  SUBCASE("another number of nodes") { other.wanted_nodes = 1; }
  SUBCASE("another number of GPUs") { other.wanted_gpus_per_node = 8; }
  SUBCASE("it may have a node that it must not have") { other.excluded = {"c1"}; }
  SUBCASE("a second base, which an earlier launcher wanted to move to") {
    other.comment = base_job(movable(), BaseTime(0), shape(), {"n1", "n2"}, {}, true).comment;
  }
  CHECK_FALSE(still_wanted(other, movable(), shape()));
}

TEST_CASE("a base asks for the time that BaseTime gives it, and for a deadline only when the job ends") {
  const BaseJob forever = base_job(movable(), BaseTime(0), shape(), {}, {}, false);
  CHECK(forever.ends == 0);
  CHECK(forever.deadline == 0);
  const BaseJob limited = base_job(movable(), BaseTime(0, 30), shape(), {}, {}, false);
  CHECK(limited.ends >= std::time(nullptr) + 1800);
  CHECK(limited.ends < std::time(nullptr) + 1860);
  CHECK(limited.deadline == 0);
  JobContext context = movable();
  const std::time_t end = std::time(nullptr) + 3600;
  CHECK(base_job(context, BaseTime(end), shape(), {}, {}, false).deadline == end + 1800);
  context.may_be_requeued = true;
  CHECK(base_job(context, BaseTime(end), shape(), {}, {}, false).deadline == end + 7 * 24 * 3600);
}

TEST_CASE("a base beside another one must start within two minutes, also without a launcher that withdraws it") {
  const std::time_t now = std::time(nullptr);
  JobContext context = movable();
  context.may_be_requeued = true;
  const BaseJob second = base_job(context, BaseTime(now + 3600), shape(), {"n1", "n2"}, {}, true);
  CHECK(second.ends == now + 3600);
  CHECK(second.deadline == now + 3720);
  // Where nothing limits it, it has a limit nevertheless: Slurm lets no other job have a deadline.
  const BaseJob forever = base_job(context, BaseTime(0), shape(), {"n1", "n2"}, {}, false);
  CHECK(forever.ends >= now + 365 * 24 * 3600);
  CHECK(forever.deadline == forever.ends + 120);
}

TEST_CASE("a base and an extension have the wckey and the nice value of the submitted job, and its cluster") {
  JobContext context = movable();
  context.wckey = "thesis";
  context.nice = 100;
  context.site.cluster = "east";
  const BaseJob base = base_job(context, BaseTime(0), shape(), {}, {}, false);
  CHECK(base.wckey == "thesis");
  CHECK(base.nice == 100);
  const ExtensionJob extension = extension_job(context, {}, {"n1", 1, 1, 1, 60}, "", false);
  CHECK(extension.wckey == "thesis");
  CHECK(extension.nice == 100);
  // A federation would have its other clusters run them, too.
  CHECK(base.cluster == "east");
  CHECK(extension.cluster == "east");
}

TEST_CASE("where the partition of the bases allows less time than the user asked for, that is said") {
  JobContext context = movable();
  CHECK(cut_short(context, 1000).empty());
  context.base_most_minutes = 60;
  CHECK(cut_short(context, 1000) ==
        "the bases of job 7 may run 60 minutes, the MaxTime of partition gpu, and not without a limit as the submitted "
        "job; the job ends then, and can be submitted again to go on from a checkpoint");
  context.ends = 1000 + 61 * 60;
  CHECK(cut_short(context, 1000).find("and not 61 minutes as the submitted job;") != std::string::npos);
  CHECK(cut_short(context, 1060).empty());
  context.base_minutes = 90;
  CHECK(cut_short(context, 1060).find("and not 90 minutes as time= says;") != std::string::npos);
  context.base_minutes = 60;
  CHECK(cut_short(context, 1060).empty());
}

TEST_CASE("of the reasons for which a job waits, the one that its time limit is too long for its partition is known") {
  CHECK(espalier_slurm_beyond_partition_time(WAIT_PART_TIME_LIMIT));
  CHECK_FALSE(espalier_slurm_beyond_partition_time(WAIT_RESOURCES));
  CHECK(espalier_slurm_limit_of(WAIT_PART_TIME_LIMIT) == ESPALIER_LIMIT_NONE);  // no other job counts there
}

TEST_CASE("the form of a base that runs is what it holds") {
  SlurmJob runs;
  runs.holdings = {{12, "n1", {0, 1}}, {12, "n2", {2, 3}}};
  runs.cpus = 16;
  runs.memory_mb_per_node = 900;
  const BaseShape form = shape_of(runs);
  CHECK(form.nodes == 2);
  CHECK(form.gpus_per_node == 2);
  CHECK(form.cpus_per_node == 8);
  CHECK(form.memory_mb_per_node == 900);
}
