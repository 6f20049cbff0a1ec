#include "launcher/slurm/asking_order.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

namespace {

using Jobs = std::vector<JobId>;

std::set<JobId> up_to(JobId last) {
  std::set<JobId> jobs;
  for (JobId id = 1; id <= last; ++id) jobs.insert(id);
  return jobs;
}

}  // namespace

TEST_CASE("few jobs are asked about every time, of many some at a time and each in its turn") {
  AskingOrder order(3, 100);
  CHECK(order.next({}, {}).empty());
  CHECK(order.next({7, 5}, {}) == Jobs{5, 7});
  CHECK(order.next({7, 5}, {}) == Jobs{5, 7});
  // New ones come first.
  CHECK(order.next({5, 7, 8, 9, 10}, {}) == Jobs{8, 9, 10});
  CHECK(order.next({5, 7, 8, 9, 10}, {}) == Jobs{5, 7, 8});
  CHECK(order.next({5, 7, 8, 9, 10}, {}) == Jobs{9, 10, 5});
  // One that has ended is forgotten: should its number come again, it is new.
  CHECK(order.next({7, 9, 10}, {}) == Jobs{7, 9, 10});
  CHECK(order.next({5, 7, 9, 10}, {}) == Jobs{5, 7, 9});
}

TEST_CASE("jobs whose answers have not come keep their turn, and the others are all asked about") {
  AskingOrder order(2, 100);
  CHECK(order.next(up_to(6), {}) == Jobs{1, 2});
  CHECK(order.next(up_to(6), {1, 2}) == Jobs{3, 4});
  CHECK(order.next(up_to(6), {3, 4}) == Jobs{5, 6});
  CHECK(order.next(up_to(6), {5, 6}) == Jobs{1, 2});
}

TEST_CASE("every job is asked about in so many turns, however many there are") {
  AskingOrder order(8, 4);
  std::set<JobId> asked;
  for (int turn = 0; turn < 4; ++turn)
    for (const JobId id : order.next(up_to(404), {})) CHECK(asked.insert(id).second);
  CHECK(asked.size() == 404);
  CHECK(order.next(up_to(404), {}).size() == 101);
}
