#include <doctest/doctest.h>
#include <fcntl.h>

#include <thread>

#include "planner/core/error.hpp"
#include "torchrt/handoff/source_marks.hpp"
#include "torchrt/learning_rate.hpp"
#include "torchrt/recovery/marks.hpp"

using namespace espalier;
using namespace espalier::torchrt;
using namespace std::chrono_literals;

namespace {

UniqueFd copy_of(const Marks& marks) { return UniqueFd(::fcntl(marks.fd(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace

TEST_CASE("memories stand at a step when all do, and the newest tells how far the generation is") {
  Marks one(4, 7), other(4, 7);
  SourceMarks sources;
  CHECK(sources.newest() == -1);
  CHECK(sources.all_at(3));  // no source has been added
  CHECK_FALSE(sources.has(0));
  sources.add_rank(0, copy_of(one), one.bytes());
  sources.add_rank(2, copy_of(other), other.bytes());
  CHECK(sources.has(2));
  sources.add_unit(0, 1);
  sources.add_unit(2, 3);
  CHECK(sources.newest() == -1);
  one.set(1, 5);
  other.set(3, 4);
  other.set(2, 9);  // nobody reads this unit's mark
  CHECK(sources.newest() == 5);
  CHECK_FALSE(sources.all_at(5));
  other.set(3, 5);
  CHECK(sources.all_at(5));
  one.set(1, -1);
  CHECK_FALSE(sources.all_at(5));
  CHECK(sources.newest() == 5);
}

TEST_CASE("a wait for a step ends when all are there, one is past it, or time is up") {
  Marks marks(2, 7);
  SourceMarks sources;
  sources.wait_past(5, 10s);  // no source to wait for
  sources.add_rank(0, copy_of(marks), marks.bytes());
  sources.add_unit(0, 0);
  sources.add_unit(0, 1);
  marks.set(0, 5);
  CHECK_FALSE(sources.wait(5, 20ms));
  sources.wait_past(5, 20ms);
  CHECK(sources.newest() == 5);
  std::thread training([&] {
    std::this_thread::sleep_for(20ms);
    marks.set(1, 5);
  });
  CHECK(sources.wait(5, 10s));
  training.join();
  std::thread next([&] {
    std::this_thread::sleep_for(20ms);
    marks.set(1, 6);
  });
  sources.wait_past(5, 10s);
  CHECK(sources.newest() == 6);
  next.join();
  CHECK_FALSE(sources.wait(5, 10s));
}

TEST_CASE("only who updates alike can make the state after a step from the one before") {
  TrainingConfig training;
  training.steps = 100;
  const std::int64_t settings = update_settings(training);
  Marks one(1, settings), other(1, settings + 1);
  SourceMarks sources;
  CHECK(sources.updates_with(settings));
  sources.add_rank(0, copy_of(one), one.bytes());
  one.agreed(3, 1, 1, 1);
  CHECK(sources.updates_with(settings));
  sources.add_rank(1, copy_of(other), other.bytes());
  CHECK_FALSE(sources.updates_with(settings));
}

TEST_CASE("an update's settings are all that changes it, and nothing that does not") {
  TrainingConfig training;
  training.steps = 100;
  const auto differs = [&](const auto& change) {
    TrainingConfig other = training;
    change(other);
    return update_settings(other) != update_settings(training);
  };
  CHECK(differs([](TrainingConfig& t) { t.steps = 101; }));
  CHECK(differs([](TrainingConfig& t) { t.warmup_steps = 1; }));
  CHECK(differs([](TrainingConfig& t) { t.learning_rate *= 2; }));
  CHECK(differs([](TrainingConfig& t) { t.minimum_learning_rate *= 2; }));
  CHECK(differs([](TrainingConfig& t) { t.weight_decay = 0; }));
  CHECK(differs([](TrainingConfig& t) { t.beta1 = 0.8; }));
  CHECK(differs([](TrainingConfig& t) { t.beta2 = 0.8; }));
  CHECK(differs([](TrainingConfig& t) { t.epsilon = 1e-7; }));
  CHECK_FALSE(differs([](TrainingConfig& t) { t.clip_norm = 2; }));  // gradients are clipped where they are made
  CHECK_FALSE(differs([](TrainingConfig& t) { t.threads = 2; }));
}

TEST_CASE("marks that cannot be mapped are refused") {
  SourceMarks sources;
  const Marks marks(1, 7);
  CHECK_THROWS_AS(sources.add_rank(0, copy_of(marks), marks.bytes() + 8), Error);
}
