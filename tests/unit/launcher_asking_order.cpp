#include "launcher/slurm/asking_order.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

TEST_CASE("few jobs are asked about every time, of many some at a time and each in its turn") {
  AskingOrder order(3);
  CHECK(order.next({}).empty());
  CHECK(order.next({7, 5}) == std::vector<JobId>{5, 7});
  CHECK(order.next({7, 5}) == std::vector<JobId>{5, 7});
  // New ones come first.
  CHECK(order.next({5, 7, 8, 9, 10}) == std::vector<JobId>{8, 9, 10});
  CHECK(order.next({5, 7, 8, 9, 10}) == std::vector<JobId>{5, 7, 8});
  CHECK(order.next({5, 7, 8, 9, 10}) == std::vector<JobId>{9, 10, 5});
  // One that has ended is forgotten: should its number come again, it is new.
  CHECK(order.next({7, 9, 10}) == std::vector<JobId>{7, 9, 10});
  CHECK(order.next({5, 7, 9, 10}) == std::vector<JobId>{5, 7, 9});
}
