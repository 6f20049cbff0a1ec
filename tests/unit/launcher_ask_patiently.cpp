#include "launcher/slurm/ask_patiently.hpp"

#include <doctest/doctest.h>

#include "launcher/slurm/unanswered.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

using std::chrono::seconds;

// Every question takes ten seconds.
struct Slurm {
  int away = 0;  // so many questions
  int asked = 0, waited = 0;
  std::string told;
  std::chrono::steady_clock::time_point now{};
  void ask() {
    ask_patiently(
        [this] {
          now += seconds(10);
          if (asked++ < away) throw Unanswered("slurm: no answer " + std::to_string(asked));
        },
        [this](const std::string& why) { told += why + "; "; },
        {seconds(60), seconds(2), [this] { return now; },
         [this](std::chrono::milliseconds time) {
           ++waited;
           now += time;
         }});
  }
};

}  // namespace

TEST_CASE("a slurmctld that answers is asked once") {
  Slurm slurm;
  slurm.ask();
  CHECK(slurm.asked == 1);
  CHECK(slurm.waited == 0);
  CHECK(slurm.told.empty());
}

TEST_CASE("a slurmctld that is away is asked again, and the user hears of it once") {
  Slurm slurm;
  slurm.away = 3;
  slurm.ask();
  CHECK(slurm.asked == 4);
  CHECK(slurm.waited == 3);
  CHECK(slurm.told == "slurm: no answer 1; ");
}

TEST_CASE("a slurmctld that stays away is given up after its time, with the last reason") {
  Slurm slurm;
  slurm.away = 100;
  CHECK_THROWS_WITH_AS(slurm.ask(), "slurm: no answer 6", Unanswered);
  CHECK(slurm.now.time_since_epoch() == seconds(70));  // 5 x (10 + 2) + 10
}

TEST_CASE("an error that waiting does not change ends it at once") {
  int asked = 0;
  const auto ask = [&] {
    ++asked;
    throw Error("a movable job requests no GPUs itself");
  };
  const Patience patience{seconds(60), seconds(2), [] { return std::chrono::steady_clock::time_point(); },
                          [](std::chrono::milliseconds) {}};
  CHECK_THROWS_AS(ask_patiently(
                      ask, [](const std::string&) {}, patience),
                  Error);
  CHECK(asked == 1);
}
