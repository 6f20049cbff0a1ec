// What a generation's ranks tell of its end, and of switches and loads before that.
#include "launcher/world/loss.hpp"

#include <doctest/doctest.h>

#include "launcher/world/load_reports.hpp"
#include "launcher/world/switch_answers.hpp"
#include "planner/core/error.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

const std::vector<GpuId> kGpus{{"n1", 0}, {"n1", 1}, {"n2", 0}};

wire::Failed failed(const std::string& message, bool peer, bool memory = false) {
  wire::Failed words;
  words.message = message;
  words.peer = peer;
  words.memory = memory;
  return words;
}

wire::Switched switched(std::int64_t step, const std::string& problem = "") {
  wire::Switched one;
  one.step = step;
  one.problem = problem;
  return one;
}

wire::Standing standing(std::int64_t step) {
  wire::Standing one;
  one.step = step;
  return one;
}

wire::Loaded loaded(std::int64_t step, double copy_ms, std::int64_t sent) {
  wire::Loaded one;
  one.step = step;
  one.phases_ms = {{"copy", copy_ms}};
  one.bytes_sent = sent;
  return one;
}

}  // namespace

TEST_CASE("a loss has what was noticed first, unless more is known") {
  LossEvidence evidence(kGpus);
  Loss loss = evidence.loss("it broke");
  CHECK(loss.why == "it broke");
  CHECK(loss.code == 1);
  CHECK_FALSE(loss.own);
  evidence.rank_ended(0);
  evidence.rank_ended(137);
  evidence.rank_ended(9);
  CHECK(evidence.loss("it broke").code == 137);
  evidence.all_ended(7);
  CHECK(evidence.loss("it broke").code == 7);
}

TEST_CASE("ranks that MPI aborts are no cause of a loss where another rank died") {
  LossEvidence evidence(kGpus);
  evidence.died(0, "rank 0 was lost");
  evidence.died(2, "rank 2 was lost");
  evidence.aborted(0);
  Loss loss = evidence.loss("first");
  CHECK(loss.why == "rank 2 was lost");
  CHECK(loss.died == std::set<GpuId>{kGpus[2]});
  evidence.aborted(2);  // all were: then the first is the cause
  loss = evidence.loss("first");
  CHECK(loss.why == "rank 0 was lost, and 1 more");
  CHECK(loss.died == std::set<GpuId>{kGpus[0], kGpus[2]});
}

TEST_CASE("the first worker that failed by itself says why, not one that misses it") {
  LossEvidence evidence(kGpus);
  evidence.last_words("rank 1 misses rank 0", failed("", true));
  CHECK_FALSE(evidence.loss("first").own);
  evidence.last_words("rank 0 has no memory", failed("", false, true));
  evidence.last_words("rank 2 has failed, too", failed("", false));
  evidence.died(1, "rank 1 was lost");
  const Loss loss = evidence.loss("first");
  CHECK(loss.own);
  CHECK(loss.memory);
  CHECK(loss.why == "rank 0 has no memory");
}

TEST_CASE("a loss names the GPUs of ranks that ended before their hello, and a lost rank server") {
  LossEvidence evidence(kGpus);
  evidence.absent(1);
  evidence.server_gone();
  const Loss loss = evidence.loss("its server is gone");
  CHECK(loss.absent == std::set<GpuId>{kGpus[1]});
  CHECK(loss.died.empty());
  CHECK(loss.of_server);
}

TEST_CASE("a switch is answered when every rank has, and all stand at one boundary") {
  SwitchAnswers answers(2);
  CHECK_THROWS_AS(answers.switched(0, switched(5)), Error);  // nobody asked
  answers.ask({0, 1});
  CHECK_FALSE(answers.stands(0, standing(5)));
  CHECK(answers.stands(1, standing(5)));
  CHECK_FALSE(answers.switched(0, switched(5)));
  CHECK(answers.switched(1, switched(5)));
  CHECK(answers.boundary() == 5);
  CHECK(answers.problem().empty());
  CHECK_THROWS_AS(answers.switched(1, switched(5)), Error);  // a second answer to one switch
}

TEST_CASE("answers to a switch that was given up do not count for the next one") {
  SwitchAnswers answers(2);
  answers.ask({0, 1});
  CHECK_FALSE(answers.switched(0, switched(5, "it was saving")));
  answers.ask({0, 1});
  CHECK(answers.boundary() == 0);
  CHECK_FALSE(answers.stands(1, standing(5)));    // for the first switch
  CHECK_FALSE(answers.switched(1, switched(5)));  // the same
  CHECK_FALSE(answers.switched(0, switched(8)));
  CHECK(answers.problem().empty());
  CHECK_THROWS_AS(answers.stands(1, standing(9)), Error);
  CHECK(answers.switched(1, switched(8, "no room")));
  CHECK(answers.boundary() == 8);
  CHECK(answers.problem() == "no room");
}

TEST_CASE("a late answer to a switch that was given up ends no wait before the next switch is asked for") {
  SwitchAnswers answers(2);
  answers.ask({0, 1});
  CHECK_FALSE(answers.stands(0, standing(5)));
  CHECK_FALSE(answers.switched(0, switched(5, "no room")));
  answers.give_up();
  CHECK_FALSE(answers.stands(1, standing(6)));
  CHECK_FALSE(answers.switched(1, switched(6)));
  CHECK_THROWS_AS(answers.switched(1, switched(6)), Error);  // it has answered
  answers.ask({0, 1});
  CHECK_FALSE(answers.stands(0, standing(9)));
  CHECK(answers.stands(1, standing(9)));
  CHECK_FALSE(answers.switched(0, switched(9)));
  CHECK(answers.switched(1, switched(9)));
  CHECK(answers.boundary() == 9);
  CHECK(answers.problem().empty());
}

TEST_CASE("a rank that came after a switch was asked for keeps it from being answered") {
  SwitchAnswers answers(2);
  answers.ask({0});
  CHECK_FALSE(answers.switched(0, switched(5)));
  CHECK_THROWS_AS(answers.switched(1, switched(5)), Error);
}

TEST_CASE("all ranks take one state, and the slowest rank tells how long a phase took") {
  LoadReports reports(3);
  CHECK_FALSE(reports.took(0, "n1", loaded(7, 3, 10)));
  CHECK_FALSE(reports.took(1, "n1", loaded(7, 9, 20)));
  CHECK_THROWS_AS(reports.took(2, "n2", loaded(6, 1, 1)), Error);
  CHECK(reports.took(2, "n2", loaded(7, 4, 25)));
  CHECK(reports.taken().step == 7);
  CHECK(reports.phases_ms().at("copy") == 9);
  CHECK(reports.moved_bytes().sent == 55);
  CHECK(reports.moved_bytes().most_to_a_node == 30);
}
