#include "launcher/base/base_time.hpp"

#include <doctest/doctest.h>

namespace {

using espalier::launcher::BaseTime;

TEST_CASE("a base ends with the submitted job, however late it starts") {
  const BaseTime time(10000);
  CHECK(time.ends(1000) == 10000);
  CHECK(time.ends(9000) == 10000);
  CHECK(time.last() == 10000);
  CHECK(BaseTime(0).ends(1000) == 0);
  CHECK(BaseTime(0).last() == 0);
}

TEST_CASE("a second base has what is left of the first one's time, also after the job was requeued") {
  BaseTime requeued(90000);  // Slurm has given the submitted job its whole limit anew
  requeued.began(10000);     // the base that an earlier launcher has left
  CHECK(requeued.ends(9000) == 10000);
  CHECK(requeued.last() == 10000);
  requeued.began(9960);  // the base that took its place, in whole minutes
  CHECK(requeued.ends(9500) == 10000);
}

TEST_CASE("a limit on the bases' times counts from the first base on, not while that waits") {
  BaseTime time(0, 100);
  CHECK(time.ends(1000) == 7005);
  CHECK(time.ends(500000) == 506005);
  CHECK(time.last() == 0);  // it may wait for ever
  time.began(506040);
  CHECK(time.ends(503000) == 506040);
  CHECK(time.last() == 506040);
}

TEST_CASE("no limit on the bases' times outlives the submitted job") {
  BaseTime time(5000, 100);
  CHECK(time.ends(1000) == 5000);
  CHECK(time.last() == 5000);
  time.began(0);
  CHECK(time.ends(1000) == 5000);
}

TEST_CASE("a limit that was changed while a base runs counts for the bases after it") {
  BaseTime time(90000);
  time.began(10000);
  time.seen(10000, 90000);
  CHECK(time.ends(5000) == 10000);
  time.seen(13600, 90000);  // an administrator has given it an hour more
  CHECK(time.ends(5000) == 13600);
  time.began(13560);  // the next base, in whole minutes
  time.seen(13560, 90000);
  CHECK(time.ends(5000) == 13600);
  time.seen(11760, 90000);  // its user has taken half an hour from it
  CHECK(time.ends(5000) == 11800);
  time.seen(11760, 11000);  // and more from the submitted job
  CHECK(time.ends(5000) == 11000);
  time.seen(0, 0);  // the limits were taken away
  CHECK(time.ends(5000) == 0);
  time.seen(20000, 0);
  CHECK(time.ends(5000) == 20000);
}

TEST_CASE("a base beside an unlimited one has a limit, which is no limit of the training") {
  BaseTime time(0);
  time.began(0);
  time.began(31536000);  // a year, for its deadline
  time.seen(31536000, 0);
  CHECK(time.ends(5000) == 0);
}

TEST_CASE("no base asks for more time than its partition allows, which Slurm would never grant") {
  const BaseTime unlimited(0, 0, 60);
  CHECK(unlimited.ends(1000) == 4605);
  CHECK(unlimited.ends(2000) == 5605);  // one that starts later ends later
  CHECK(unlimited.last() == 0);
  CHECK(BaseTime(2000, 0, 60).ends(1000) == 2000);
  CHECK(BaseTime(0, 30, 60).ends(1000) == 2805);
  CHECK(BaseTime(0, 90, 60).ends(1000) == 4605);
  BaseTime moved(0, 90, 60);
  moved.began(4600);
  CHECK(moved.ends(2000) == 4600);
  BaseTime lowered(0, 0, 10);  // MaxTime, while the base ran that an earlier launcher has left
  lowered.began(9000);
  CHECK(lowered.ends(1000) == 1605);
}

}  // namespace
