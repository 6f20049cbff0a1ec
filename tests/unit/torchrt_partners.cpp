#include <doctest/doctest.h>

#include "tests/unit/torchrt_plans.hpp"
#include "torchrt/recovery/partners.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

std::vector<int> partners_of(const Plan& plan, const std::vector<std::string>& owners) {
  std::vector<VaultPlace> places;
  for (const std::string& owner : owners) places.push_back({owner});
  return snapshot_partners(plan, places);
}

const VaultPlace kLaunchers{"7", true, true}, kOwn{"7", true, false};

}  // namespace

TEST_CASE("copies are kept on the next node, spread over its ranks") {
  CHECK(partners_of(pipeline_of({{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}}), {"7", "8", "9", "9"}) ==
        std::vector<int>{2, 3, 0, 1});
  CHECK(partners_of(pipeline_of({{"a", 0}, {"b", 0}, {"a", 1}, {"c", 0}}), {"7", "8", "7", "9"}) ==
        std::vector<int>{1, 3, 1, 0});
}

TEST_CASE("on one node an extension's copies are kept beside it, since it takes its own with it") {
  CHECK(partners_of(pipeline_of({{"a", 0}, {"a", 1}, {"a", 2}, {"a", 3}}), {"7", "7", "8", "8"}) ==
        std::vector<int>{2, 3, 0, 1});
}

TEST_CASE("one node and one vault have nobody to keep their copies") {
  CHECK(partners_of(pipeline_of({{"a", 0}, {"a", 1}}), {"7", "7"}) == std::vector<int>{-1, -1});
}

TEST_CASE("the job's own ranks keep what is lent, two copies each; the launcher's own need none") {
  const Plan plan = pipeline_of({{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}});
  CHECK(snapshot_partners(plan, {kLaunchers, kLaunchers, {"8"}, {"8"}}) == std::vector<int>{-1, -1, 0, 1});
  CHECK(snapshot_partners(plan, {kLaunchers, {"8"}, {"9"}, {"9"}}) == std::vector<int>{-1, 0, 0, 1});
  // A partner may also be on the launcher's node, because the loss of that node ends the job
  // anyway.
  CHECK(snapshot_partners(pipeline_of({{"a", 0}, {"a", 1}}), {kLaunchers, {"8"}}) == std::vector<int>{-1, 0});
}

TEST_CASE("own ranks elsewhere keep copies and need them; what they have no room for goes to the next node") {
  const Plan plan = pipeline_of({{"a", 0}, {"b", 0}, {"c", 0}, {"c", 1}, {"c", 2}, {"c", 3}});
  CHECK(snapshot_partners(plan, {kLaunchers, kOwn, {"8"}, {"8"}, {"8"}, {"8"}}) == std::vector<int>{-1, 0, 1, 0, 1, 0});
  // Never on a rank of the same node, because the two are lost together.
  CHECK(snapshot_partners(pipeline_of({{"a", 0}, {"b", 0}, {"b", 1}}), {kLaunchers, kOwn, kOwn}) ==
        std::vector<int>{-1, 0, 0});
}

TEST_CASE(
    "own ranks with memory for more copies keep all that is lent, and lose none when two extensions end at once") {
  const Plan plan = pipeline_of({{"a", 0}, {"b", 0}, {"c", 0}, {"c", 1}, {"d", 0}, {"d", 1}});
  const VaultPlace roomy_launcher{"7", true, true, 4}, roomy{"7", true, false, 3};
  CHECK(snapshot_partners(plan, {roomy_launcher, roomy, {"8"}, {"8"}, {"9"}, {"9"}}) ==
        std::vector<int>{-1, 0, 1, 0, 1, 0});
  const Plan large = pipeline_of({{"a", 0}, {"b", 0}, {"c", 0}, {"c", 1}, {"c", 2}, {"d", 0}, {"d", 1}, {"d", 2}});
  CHECK(snapshot_partners(large, {roomy_launcher, roomy, {"8"}, {"8"}, {"8"}, {"9"}, {"9"}, {"9"}}) ==
        std::vector<int>{-1, 0, 1, 0, 1, 0, 1, 0});
  // Without that memory some go to the other extension, and are lost with it.
  CHECK(snapshot_partners(large, {kLaunchers, kOwn, {"8"}, {"8"}, {"8"}, {"9"}, {"9"}, {"9"}}) ==
        std::vector<int>{-1, 0, 1, 0, 1, 2, 3, 4});
}

TEST_CASE("how many copies fit into a host's memory") {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  CHECK(copies_that_fit(1000 * kGiB, 8, 2 * kGiB) == 4);  // the most
  // 64 GiB a rank: 16 for its own copies, half of the rest for others, 16 each.
  CHECK(copies_that_fit(8 * 64 * kGiB, 8, 4 * kGiB) == 3);
  CHECK(copies_that_fit(8 * 32 * kGiB, 8, 4 * kGiB) == 2);
  CHECK(copies_that_fit(0, 8, kGiB) == 2);
  CHECK(copies_that_fit(kGiB, 0, 0) == 4);
}
