#include "launcher/recovery/step_watch.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Watched {
  wire::Loop loop;
  std::string why;
  StepWatch steps;
  explicit Watched(double hang_seconds, double after_last_seconds = 3600)
      : steps(
            loop, hang_seconds,
            [this](const std::string& said) {
              why = said;
              loop.stop();
            },
            after_last_seconds) {}
  void run_for(std::chrono::milliseconds time) {
    const auto limit = loop.after(time, [this] { loop.stop(); });
    loop.run();
  }
  void step(std::int64_t number, double seconds) {
    wire::Step step;
    step.step = number;
    step.seconds = seconds;
    steps.stepped(step);
  }
};

}  // namespace

TEST_CASE("a step that hangs is told once, by its number") {
  Watched one(0.03);
  one.step(7, 0.001);
  one.steps.watch(true);
  const auto limit = one.loop.after(std::chrono::seconds(60), [&] { one.loop.stop(); });
  one.loop.run();
  CHECK(one.why == "step 8 was not done within 0 s");
}

TEST_CASE("a step may take ten times its usual time, and nothing is watched while no generation trains") {
  Watched one(0.001);
  one.step(1, 100);
  one.steps.watch(true);
  const auto limit = one.loop.after(std::chrono::milliseconds(30), [&] { one.loop.stop(); });
  one.loop.run();
  CHECK(one.why.empty());
  one.steps.begin_anew();
  one.steps.watch(false);
  const auto again = one.loop.after(std::chrono::milliseconds(30), [&] { one.loop.stop(); });
  one.loop.run();
  CHECK(one.why.empty());
}

TEST_CASE("the first steps of a generation are soon forgotten, and its time is its own") {
  Watched one(60);
  one.step(1, 10);
  CHECK(one.steps.seconds() == doctest::Approx(10));
  one.step(2, 1);
  CHECK(one.steps.seconds() == doctest::Approx(7.3));
  one.steps.begin_anew_after(1);
  CHECK(one.steps.step() == 1);
  CHECK(one.steps.seconds() == 0);
  CHECK(one.steps.longest() == doctest::Approx(1));  // of the generation before
}

TEST_CASE("the longest time between two steps is that of one generation, and without the steps themselves") {
  Watched one(60);
  one.step(1, 0.001);
  CHECK(one.steps.between_seconds() == 0);
  one.run_for(std::chrono::milliseconds(60));
  one.step(2, 0.02);
  const double longest = one.steps.between_seconds();
  CHECK(longest > 0.03);
  one.step(3, 0.001);
  CHECK(one.steps.between_seconds() == longest);
  one.steps.begin_anew();
  one.run_for(std::chrono::milliseconds(200));
  one.step(4, 0.001);
  CHECK(one.steps.between_seconds() == longest);
}

TEST_CASE("what follows the last step is no step that hangs, and has a limit of its own") {
  Watched one(0.02, 0.3);
  one.steps.watch(true, 8);
  one.step(8, 0.001);
  one.run_for(std::chrono::milliseconds(100));
  CHECK(one.why.empty());
  one.run_for(std::chrono::seconds(60));
  CHECK(one.why == "what follows the last step (its checkpoint, a validation) was not done within 0 s");
}

TEST_CASE("a recovered generation that has only the end left has that limit as well") {
  Watched one(0.02, 0.3);
  one.steps.begin_anew_after(8);
  one.steps.watch(true, 8);
  one.run_for(std::chrono::milliseconds(100));
  CHECK(one.why.empty());
}

TEST_CASE("a generation that gets on with work that is no step does not hang, and does when that stops") {
  Watched one(0.2);
  one.step(4, 0.001);
  one.steps.watch(true, 8);
  for (int batch = 0; batch < 8; ++batch) {
    one.run_for(std::chrono::milliseconds(50));
    CHECK(one.why.empty());
    one.steps.progressed();
  }
  one.run_for(std::chrono::seconds(60));
  CHECK(one.why == "step 5 was not done within 0 s");
}
