// Which jobs of Slurm's snapshots count as submissions, and what a new espalierd knows of them.
#include <doctest/doctest.h>

#include "planner/daemon/sqlite.hpp"
#include "planner/daemon/submissions.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

SlurmJob asking(JobId id, double submitted, int gpus, const std::string& comment = "") {
  SlurmJob job = slurm_job(id, 1000, {}, comment);
  job.submitted = submitted;
  job.wanted_gpus = gpus;
  return job;
}

SlurmSnapshot at(double time, const std::vector<SlurmJob>& jobs) {
  SlurmSnapshot slurm;
  slurm.time = time;
  for (const SlurmJob& job : jobs) slurm.jobs[job.id] = job;
  return slurm;
}

}  // namespace

TEST_SUITE("submissions") {
  TEST_CASE("each job that asks for GPUs counts once; extensions and jobs from before the first look do not") {
    const Folder folder;
    Store store(folder.file("a.db"));
    Submissions submissions(store);
    submissions.look(at(1000, {asking(1, 900, 4)}), "elastic");
    CHECK(submissions.arrivals().recent().empty());
    CHECK(submissions.arrivals().since() == 1000);
    const auto news = {asking(1, 900, 4), asking(2, 1001, 8), asking(3, 1001, 0),
                       asking(4, 1002, 2, "espalier:ext:1:ab"), asking(5, 1002, 16)};
    submissions.look(at(1003, news), "elastic");
    submissions.look(at(1005, news), "elastic");
    REQUIRE(submissions.arrivals().recent().size() == 2);
    CHECK(submissions.arrivals().recent()[0] == Submission{1001, 8});
    CHECK(submissions.arrivals().recent()[1] == Submission{1002, 16});
  }

  TEST_CASE("a new espalierd goes on from what the last one has seen") {
    const Folder folder;
    {
      Store store(folder.file("a.db"));
      Submissions submissions(store);
      submissions.look(at(1000, {}), "elastic");
      submissions.look(at(1010, {asking(2, 1005, 8)}), "elastic");
    }
    Store store(folder.file("a.db"));
    Submissions submissions(store);
    submissions.look(at(1100, {asking(2, 1005, 8), asking(3, 1050, 4)}), "elastic");
    REQUIRE(submissions.arrivals().recent().size() == 2);
    CHECK(submissions.arrivals().recent()[1] == Submission{1050, 4});
    CHECK(store.submissions().size() == 3);
  }

  TEST_CASE("after a restart the rate is over the time that was watched, not since the first submission that is left") {
    const Folder folder;
    constexpr double kDay = Arrivals::kMostSeconds;
    {
      Store store(folder.file("a.db"));
      Submissions submissions(store);
      submissions.look(at(1000, {}), "elastic");
      submissions.look(at(1010, {asking(2, 1005, 8)}), "elastic");
      // Two days later the first submission is too old to be kept.
      submissions.look(at(2 * kDay, {asking(3, 2 * kDay - 600, 8)}), "elastic");
    }
    Store store(folder.file("a.db"));
    Submissions submissions(store);
    submissions.look(at(2 * kDay + 1, {}), "elastic");
    REQUIRE(submissions.arrivals().recent().size() == 1);
    CHECK(submissions.arrivals().since() == 1000);
    CHECK(submissions.arrivals().rate(2 * kDay, 8 * 3600, 1) == doctest::Approx(1 / (8 * 3600.0)));
  }

  TEST_CASE("a store from before the watch's begin was kept counts from its first submission") {
    const Folder folder;
    Store store(folder.file("a.db"));
    store.add({{500, 4}, {600, 4}}, 0, 100);
    { Submissions(store).look(at(1000, {}), "elastic"); }
    Submissions again(store);
    CHECK(again.arrivals().since() == 500);
    CHECK(again.arrivals().recent().size() == 2);
    CHECK(store.submissions().size() == 3);
  }

  TEST_CASE("the store forgets what is a day old, and the oldest of too many") {
    const Folder folder;
    Store store(folder.file("a.db"));
    store.add(std::vector<Submission>{{10, 1}, {20, 2}, {30, 3}}, 15, 100);
    CHECK(store.submissions().size() == 2);
    store.add(std::vector<Submission>{{40, 4}}, 15, 2);
    REQUIRE(store.submissions().size() == 2);
    CHECK(store.submissions()[0] == Submission{30, 3});
  }

  TEST_CASE("a store of the fifth schema keeps what it has") {
    const Folder folder;
    { Store(folder.file("a.db")).save(job(10, "n1", {0, 1}), 1); }
    {
      Database old(folder.file("a.db"));
      old.execute("DROP TABLE submissions");
      old.execute("PRAGMA user_version=5");
    }
    Store store(folder.file("a.db"));
    CHECK(store.job(10));
    CHECK(store.submissions().empty());
  }
}
