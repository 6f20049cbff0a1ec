// From recorded operations to the planner's profile.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "torchrt/profiler/replica_times.hpp"
#include "torchrt/profiler/trace.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// A time line that a test advances.
struct Script {
  double now = 0;
};
class ScriptedTimeline : public Timeline {
 public:
  explicit ScriptedTimeline(Script& script) : script_(script) {}
  void clear() override { marks_.clear(); }
  std::size_t mark() override {
    marks_.push_back(script_.now);
    return marks_.size() - 1;
  }
  std::vector<double> microseconds() override { return marks_; }

 private:
  Script& script_;
  std::vector<double> marks_;
};

struct Recorded {
  Script script;
  OpRecorder recorder{std::make_unique<ScriptedTimeline>(script)};

  void op(OpKind kind, double waits, double works, double sums = 0) {
    const Op op{kind, 0};
    recorder.begin(op);
    script.now += waits;
    if (kind == OpKind::forward || kind == OpKind::backward) recorder.arrived();
    script.now += works / 2;
    if (sums > 0) {
      recorder.begin_sum();
      script.now += sums;
      recorder.end_sum();
    }
    script.now += works / 2;
    recorder.end(op);
    script.now += 7;  // between operations
  }
};

}  // namespace

TEST_CASE("a replica's times are means of its work without what it waited for") {
  Recorded rank;
  for (const std::int64_t step : {1, 2}) {
    rank.recorder.begin_step(step);
    const double slow = step == 1 ? 1000 : 3000;
    for (int m = 0; m < 2; ++m) {
      rank.op(OpKind::receive_activation, 0, 5);
      rank.op(OpKind::forward, 400, slow, 200);
      rank.op(OpKind::backward, 9000, slow);
      rank.op(OpKind::weight_gradient, 0, 500);
    }
    rank.op(OpKind::finish_reduce, 0, 800);
    rank.op(OpKind::finish_reduce, 0, 200);
    rank.op(OpKind::agree, 0, 7000);
    rank.op(OpKind::update, 0, 300);
    rank.op(OpKind::update, 0, 100);
  }
  const ReplicaProfile one = replica_times(rank.recorder.take(), 2);
  CHECK(one.fwd == doctest::Approx(2.2));  // ms: means of forwards, sums of the rest
  CHECK(one.comm_fwd == doctest::Approx(0.2));
  CHECK(one.bwd == doctest::Approx(2.5));
  CHECK(one.bwd_weights == doctest::Approx(0.5));
  CHECK(one.optim == doctest::Approx(0.4));
  CHECK(*one.sync == doctest::Approx(1.0));
  CHECK(rank.recorder.take().empty());
}

TEST_CASE("of what a slower device does, its times count") {
  Recorded rank;
  rank.recorder.begin_step(1);
  rank.recorder.begin({OpKind::forward, 0});
  const std::chrono::steady_clock::time_point start{std::chrono::milliseconds(3)};
  rank.recorder.held(start, start + std::chrono::milliseconds(40));
  rank.recorder.end({OpKind::forward, 0});
  CHECK(replica_times(rank.recorder.take(), 1).fwd == doctest::Approx(40));
}

TEST_CASE("a stage without replicas has no synchronization, nor has a rank that was not measured") {
  Recorded rank;
  rank.op(OpKind::forward, 0, 10);
  CHECK_FALSE(replica_times(rank.recorder.take(), 1).sync);
  CHECK(replica_times({}, 1).fwd == 0);
}

TEST_CASE("reported are each stage's slowest replica of every node, with the least wait of the stage") {
  Plan plan = uniform_plan(2, 3, 4, 6, 1, {{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}, {"c", 0}, {"c", 1}});
  std::vector<ReplicaProfile> all;
  for (int stage = 0; stage < 2; ++stage)
    for (int replica = 0; replica < 3; ++replica) {
      ReplicaProfile one;
      one.stage = stage, one.replica = replica;
      one.fwd = 1 + replica, one.bwd = 2;
      one.sync = 5 - replica + stage;
      all.push_back(one);
    }
  const auto chosen = reported(all, plan);
  REQUIRE(chosen.size() == 4);
  CHECK(chosen[0].stage == 0);
  CHECK(chosen[0].replica == 1);  // node a has replicas 0 and 1
  CHECK(chosen[1].replica == 2);
  CHECK(chosen[2].replica == 0);  // stage 1: node b has replica 0, node c has 1 and 2
  CHECK(chosen[3].replica == 2);
  for (const ReplicaProfile& one : chosen) CHECK(one.sync == 3.0 + one.stage);
}

TEST_CASE("a trace is a JSON array of events that any step may be appended to") {
  const auto folder = std::filesystem::temp_directory_path() / ("espalier-trace-" + std::to_string(::getpid()));
  Recorded rank;
  for (const std::int64_t step : {1, 2}) {
    rank.recorder.begin_step(step);
    rank.op(OpKind::forward, 400, 1000, 200);
    append_trace(folder.string(), 3, rank.recorder.take());
  }
  std::ifstream in(folder / "rank-3.json");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text.erase(text.find_last_of(','));
  const Json events = Json::parse(text + "]");
  REQUIRE(events.size() == 2);
  CHECK(events[1]["name"] == "forward");
  CHECK(events[1]["dur"] == 1600.0);
  CHECK(events[1]["args"]["waited"] == 400.0);
  CHECK(events[1]["args"]["sums"] == 200.0);
  CHECK(events[1]["args"]["step"] == 2);
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "in the way";
  CHECK_THROWS_AS(append_trace(folder.string(), 3, {}), Error);
  std::filesystem::remove(folder);
}
