// From recorded operations to the planner's profile.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "torchrt/device/driver_version.hpp"
#include "torchrt/profiler/replica_times.hpp"
#include "torchrt/profiler/step_samples.hpp"
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
      one.spread = replica == 0 ? 0.3 : 0.01;
      all.push_back(one);
    }
  const auto chosen = reported(all, plan);
  REQUIRE(chosen.size() == 4);
  CHECK(chosen[0].stage == 0);
  CHECK(chosen[0].replica == 1);   // node a has replicas 0 and 1
  CHECK(chosen[0].spread == 0.3);  // of replica 0, on the same node
  CHECK(chosen[1].replica == 2);
  CHECK(chosen[1].spread == 0.01);
  CHECK(chosen[2].replica == 0);  // stage 1: node b has replica 0, node c has 1 and 2
  CHECK(chosen[3].replica == 2);
  for (const ReplicaProfile& one : chosen) CHECK(one.sync == 3.0 + one.stage);
}

TEST_CASE("a trace is a JSON array of events that any step may be appended to") {
  const auto folder = std::filesystem::temp_directory_path() / ("espalier-trace-" + std::to_string(::getpid()));
  Recorded rank;
  for (const std::int64_t step : {1, 2}) {
    LineFile file("profile.trace", trace_file(folder.string(), 3), LineFile::Absent::is_error);
    rank.recorder.begin_step(step);
    rank.op(OpKind::forward, 400, 1000, 200);
    append_trace(file, 3, rank.recorder.take());
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
  CHECK_THROWS_AS(LineFile("profile.trace", trace_file(folder.string(), 3), LineFile::Absent::is_error), Error);
  std::filesystem::remove(folder);
}

TEST_CASE("the sums of a forward pass are a part of it, also where a paced device caught up") {
  OpTimes one;
  one.step = 1;
  one.op.kind = OpKind::forward;
  one.begin = one.start = 0;
  one.end = 500;
  one.sums = 800;
  const ReplicaProfile times = replica_times(std::span(&one, 1), 1);
  CHECK(times.fwd == doctest::Approx(0.5));
  CHECK(times.comm_fwd == doctest::Approx(0.5));
}

TEST_CASE("samples of steps give medians, and how well they are known") {
  Recorded rank;
  StepSamples samples;
  CHECK(samples.summary().fwd == 0);
  const auto step = [&](std::int64_t number, double forward) {
    rank.recorder.begin_step(number);
    for (int m = 0; m < 2; ++m) {
      rank.op(OpKind::forward, 0, forward, 100);
      rank.op(OpKind::backward, 0, 2000);
    }
    rank.op(OpKind::finish_reduce, 0, 800);
    rank.op(OpKind::update, 0, 200);
  };
  step(1, 1000);
  step(2, 9000);
  step(3, 1000);
  samples.add(rank.recorder.take(), 2);
  step(4, 1000);
  samples.add(rank.recorder.take(), 2);
  CHECK(samples.steps() == 4);
  ReplicaProfile one = samples.summary();
  CHECK(one.fwd == doctest::Approx(1.1));  // with its sums
  CHECK(one.comm_fwd == doctest::Approx(0.1));
  CHECK(one.bwd == doctest::Approx(2));
  CHECK(one.optim == doctest::Approx(0.2));
  CHECK(*one.sync == doctest::Approx(0.8));
  CHECK(*one.spread == doctest::Approx(8 / 7.2));  // of steps of 7.2, 23.2, 7.2 and 7.2 ms: half the range
  for (int i = 5; i <= 20; ++i) step(i, 1010);
  samples.add(rank.recorder.take(), 2);
  CHECK(samples.steps() == 16);  // the last ones
  one = samples.summary();
  CHECK(one.fwd == doctest::Approx(1.11));
  CHECK(*one.spread == doctest::Approx(0));
}

TEST_CASE("a replica alone on its stage has no synchronization in any step") {
  Recorded rank;
  StepSamples samples;
  rank.recorder.begin_step(1);
  rank.op(OpKind::forward, 0, 10);
  samples.add(rank.recorder.take(), 1);
  CHECK_FALSE(samples.summary().sync);
}

TEST_CASE("the driver's version is the first number with points in its text") {
  const auto file = std::filesystem::temp_directory_path() / ("espalier-driver-" + std::to_string(::getpid()));
  std::ofstream(file) << "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs)\n"
                         "GCC version:  gcc version 12.2.0\n";
  CHECK(driver_version(file.string()) == "570.86.15");
  std::ofstream(file) << "nothing of the kind";
  CHECK(driver_version(file.string()).empty());
  std::filesystem::remove(file);
  CHECK(driver_version(file.string()).empty());
}
