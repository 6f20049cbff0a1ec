#include <doctest/doctest.h>

#include "launcher/recovery/faults.hpp"

using namespace espalier;
using namespace espalier::launcher;
using Gpus = std::vector<GpuId>;

namespace {
const GpuId a{"n1", 0}, b{"n1", 1}, c{"n2", 0}, d{"n2", 1};
const Gpus all{a, b, c, d};
const std::set<GpuId> anchor{a, b};
const Faults::Time start{};

Gpus tries(Faults& faults, const Gpus& left, Faults::Time now = start) {
  const Gpus gpus = faults.choose(now, left, anchor);
  if (!gpus.empty()) faults.tried(gpus);
  return gpus;
}
}  // namespace

TEST_CASE("after the first loss the job goes on with all GPUs that are left") {
  Faults faults;
  faults.lost(start, 10, {c}, false);
  CHECK(tries(faults, all) == all);
  CHECK(faults.attempts() == 1);
}

TEST_CASE("a GPU where two ranks died is left out, for an hour") {
  Faults faults;
  faults.lost(start, 10, {c}, false);
  CHECK(tries(faults, all) == all);
  faults.failed(start, {c});
  CHECK(faults.unfit(start) == std::set<GpuId>{c});
  CHECK(tries(faults, all) == Gpus{a, b, d});
  CHECK(faults.unfit(start + std::chrono::minutes(59)).size() == 1);
  CHECK(faults.unfit(start + std::chrono::minutes(61)).empty());
}

TEST_CASE(
    "a node where two ranks died on every GPU keeps the best of them: what they left is reached from there only") {
  Faults faults;
  faults.lost(start, 10, {c, d}, false);
  faults.lost(start, 11, {c, d}, false);
  faults.lost(start, 12, {c}, false);
  CHECK(faults.unfit(start) == std::set<GpuId>{c, d});
  CHECK(tries(faults, all) == Gpus{a, b, d});
}

TEST_CASE("a faulty GPU is left out for an hour after it was last found so") {
  Faults faults;
  faults.faulty(start, {c});
  faults.lost(start, 10, {a}, false);
  CHECK(faults.unfit(start) == std::set<GpuId>{c});
  CHECK(tries(faults, all) == Gpus{a, b, d});
  faults.faulty(start + std::chrono::minutes(30), {c});
  CHECK(faults.unfit(start + std::chrono::minutes(89)).size() == 1);
  CHECK(faults.unfit(start + std::chrono::minutes(91)).empty());
}

TEST_CASE("of a node without a fit GPU, one where ranks have died is used rather than a faulty one") {
  Faults faults;
  faults.faulty(start, {c});
  for (const int step : {10, 11, 12}) faults.lost(start, step, {d}, false);
  CHECK(faults.unfit(start) == std::set<GpuId>{c, d});
  CHECK(tries(faults, all) == Gpus{a, b, d});
  Faults alone;
  alone.faulty(start, {c, d});
  alone.lost(start, 10, {}, false);
  CHECK(tries(alone, all) == Gpus{a, b, c});
}

TEST_CASE("an attempt that Slurm refused says nothing about the GPUs") {
  Faults faults;
  faults.excuse();
  faults.lost(start, 10, {c}, false);
  faults.excuse();  // of before the loss: there is nothing to excuse
  for (int i = 0; i < 5; ++i) {
    CHECK(tries(faults, all) == all);
    faults.excuse();
    faults.excuse();  // once
    CHECK(faults.attempts() == 0);
  }
  for (int i = 0; i < 4; ++i) CHECK(tries(faults, all) == all);
  CHECK(tries(faults, all) == Gpus{a, b, d});
}

TEST_CASE("a job that has only GPUs where ranks died goes on with them") {
  Faults faults;
  faults.lost(start, 10, {a}, false);
  faults.lost(start, 11, {a}, false);
  CHECK(faults.unfit(start) == std::set<GpuId>{a});
  for (int i = 0; i < 4; ++i) CHECK(tries(faults, {a}) == Gpus{a});
  CHECK(tries(faults, {a}).empty());
}

TEST_CASE("attempts that fail for no visible reason get fewer GPUs, and end") {
  Faults faults;
  faults.lost(start, 10, {c}, false);
  std::vector<Gpus> tried;
  for (Gpus next; !(next = tries(faults, all)).empty(); faults.failed(start, {})) tried.push_back(next);
  CHECK(tried == std::vector<Gpus>{all, all, all, all, {a, b, d}, {a, b}});
  CHECK(faults.why_ended() == "it did not start again on any of the GPUs that are left");
}

TEST_CASE("a job on its anchor's GPUs alone is tried there four times") {
  Faults faults;
  faults.lost(start, 10, {}, false);
  for (int i = 0; i < 4; ++i) CHECK(tries(faults, {a, b}) == Gpus{a, b});
  CHECK(tries(faults, {a, b}).empty());
}

TEST_CASE("GPUs that go away meanwhile make another set, which has its own attempts") {
  Faults faults;
  faults.lost(start, 10, {}, false);
  for (int i = 0; i < 4; ++i) CHECK(tries(faults, all) == all);
  CHECK(tries(faults, {a, b, c}) == Gpus{a, b, c});
  CHECK(tries(faults, {}).empty());
}

TEST_CASE("a step that fails three times ends the job; one that is passed does not count") {
  Faults faults;
  const auto lose = [&](std::int64_t step) {
    faults.lost(start + std::chrono::hours(2) * step, step, {}, false);
    return !tries(faults, all, start + std::chrono::hours(2) * step).empty();
  };
  CHECK(lose(10));
  CHECK(lose(10));
  CHECK(lose(11));
  CHECK(lose(11));
  CHECK(lose(5));  // it had gone back to a checkpoint: that is another step's failure
  CHECK(lose(7));
  CHECK(lose(5));
  CHECK_FALSE(lose(11));  // and no way past step 12
  CHECK(faults.why_ended() == "step 12 failed 3 times");
}

TEST_CASE("GPUs that Slurm takes or a node that is lost are not the step's fault") {
  Faults faults;
  for (int i = 0; i < 10; ++i) {
    faults.lost(start, 10, {}, true);
    CHECK(tries(faults, all) == all);
  }
}

TEST_CASE("when nothing is left the reason says so") {
  Faults faults;
  faults.lost(start, 10, {}, true);
  CHECK(tries(faults, {}).empty());
  CHECK(faults.why_ended() == "no GPU is left");
}

TEST_CASE("losses after the last step are not told as those of a step that does not exist") {
  Faults faults;
  for (int i = 0; i < 3; ++i) faults.lost(start, 12, {}, false);
  CHECK(faults.why_ended(13) == "step 13 failed 3 times");
  CHECK(faults.why_ended(12) == "what follows the last step (its checkpoint, a validation) failed 3 times");
}
