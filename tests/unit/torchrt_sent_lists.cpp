// Lists that come while a generation runs.
#include "torchrt/schedule/sent_lists.hpp"

#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "planner/core/pipeline/generate.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

Layout layout_of(int micro_batches) {
  Plan plan{8, micro_batches, {}};
  for (int s = 0; s < 2; ++s) plan.stages.push_back({2, 1, {{8 / micro_batches, {{"n1", s}}}}});
  return make_layout(plan, 4);
}

std::string refusal(const std::string& csv, int micro_batches) {
  try {
    (void)sent_lists(csv, layout_of(micro_batches), {}, Messages::queues);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("sent lists: sound ones of the plan's shape are taken as they are") {
  const pipeline::Schedule lists = pipeline::generate("zb-h1", {2, 4, 1});
  CHECK(*sent_lists(pipeline::write_csv(lists), layout_of(4), {}, Messages::queues) == lists);
}

TEST_CASE("sent lists: others are refused with a reason") {
  const std::string csv = pipeline::write_csv(pipeline::generate("zb-h1", {2, 4, 1}));
  CHECK(refusal(csv, 2) ==
        "the lists that were sent: they are for other stages, chunks or micro-batches than the plan");
  CHECK(refusal(csv.substr(csv.find(',') + 1), 4).find("the lists that were sent: row 1") == 0);
  CHECK(refusal("nonsense", 4).find("the lists that were sent: row 1") == 0);
  CHECK(refusal("1F0\n0F0\n", 4) != "accepted");
}

TEST_CASE("sent lists: a fingerprint tells lists apart that differ in one place") {
  const pipeline::Schedule lists = pipeline::generate("zb-v", {2, 4, 2});
  CHECK(fingerprint(lists) == fingerprint(pipeline::Schedule(lists)));
  for (std::size_t at = 0; at + 1 < lists.actions[1].size(); ++at) {
    pipeline::Schedule other = lists;
    std::swap(other.actions[1][at], other.actions[1][at + 1]);
    CHECK(fingerprint(other) != fingerprint(lists));
    CHECK(fingerprint(other) >= 0);
  }
}
