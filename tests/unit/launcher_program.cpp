#include "launcher/job/program.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct Job {
  wire::Loop loop;
  wire::Config config;
  bool planned = false;
  bool bitwise = false;
  std::string log, last;
  Program program{loop,
                  config,
                  {[this] { return planned; }, [this] { log += "introduced "; }, [this] { return bitwise; },
                   [this](const std::string& why) {
                     log += "contradicts ";
                     last = why;
                   }},
                  {std::chrono::milliseconds(10), std::chrono::milliseconds(200)}};

  static wire::Hello hello(int layers) {
    wire::Hello hello;
    hello.model = {"gpt2", layers, 256, 8, 128, 1000, 16, 4};
    hello.total_steps = 50;
    hello.handoff = HandoffMethod::checkpoint;
    hello.spare = true;
    return hello;
  }
};

}  // namespace

TEST_CASE("the first hello introduces the program, and later ones do not change it") {
  Job job;
  CHECK_FALSE(job.program.speaks_protocol());
  job.program.hello(Job::hello(8), true);
  job.program.hello(Job::hello(4), true);
  CHECK(job.log == "introduced ");
  CHECK(job.program.speaks_protocol());
  CHECK(job.program.model().layers == 8);
  CHECK(job.program.total_steps() == 50);
  CHECK(job.program.restarts());
}

TEST_CASE("rank 0 alone tells the lists of a schedule, whichever rank is the first to say hello") {
  const auto from = [](int rank, const std::string& lists) {
    wire::Hello hello = Job::hello(8);
    hello.rank = rank;
    hello.parallel.lists = lists;
    return hello;
  };
  {
    Job job;
    job.program.hello(from(3, ""), true);
    CHECK(job.program.parallel().lists.empty());
    job.program.hello(from(0, "0F0,0B0"), true);
    job.program.hello(from(2, ""), true);
    CHECK(job.program.parallel().lists == "0F0,0B0");
  }
  Job job;
  wire::Description description;
  description.model = Job::hello(8).model;
  description.parallel.lists = "0F0,0B0";
  job.program.described(description);
  job.program.hello(from(3, ""), true);
  CHECK(job.program.parallel().lists == "0F0,0B0");  // as --describe told
  job.program.hello(from(0, ""), false);             // of an older generation
  CHECK(job.program.parallel().lists == "0F0,0B0");
}

TEST_CASE("a hello must say what the description said once a plan was made for it") {
  Job job;
  wire::Description description;
  description.model = Job::hello(8).model;
  job.program.described(description);
  job.planned = true;
  job.program.hello(Job::hello(4), true);
  CHECK(job.log == "contradicts ");
  job.program.start_anew();
  job.program.hello(Job::hello(8), true);
  CHECK(job.log == "contradicts introduced ");
}

TEST_CASE("a program that says no hello in time runs without elasticity") {
  Job job;
  job.config.protocol_seconds = 0;
  job.program.await_hello();
  const auto look = job.loop.every(std::chrono::milliseconds(5), [&] {
    if (!job.program.elastic()) job.loop.stop();
  });
  const auto limit = job.loop.after(std::chrono::seconds(60), [&] { job.loop.stop(); });
  job.loop.run();
  CHECK_FALSE(job.program.elastic());
}

TEST_CASE("a program has its time to say hello, without that in which Slurm had the job suspended") {
  Job job;
  job.config.protocol_seconds = 1;
  job.program.await_hello();
  const auto stands = job.loop.after(std::chrono::milliseconds(50),
                                     [] { std::this_thread::sleep_for(std::chrono::milliseconds(1500)); });
  const auto resumed = job.loop.after(std::chrono::milliseconds(1600), [&] {
    job.program.hello(Job::hello(8), true);
    job.loop.stop();
  });
  job.loop.run();
  CHECK(job.program.elastic());
}

TEST_CASE(
    "spares are wanted once after each generation that was started, of a program that can be started ahead, on a site "
    "that allows it") {
  Job job;
  job.config.spares = true;
  CHECK_FALSE(job.program.wants_spares(0));
  job.program.hello(Job::hello(8), true);
  CHECK(job.program.wants_spares(0));
  CHECK_FALSE(job.program.wants_spares(0));
  CHECK(job.program.wants_spares(1));
  job.config.spares = false;
  CHECK_FALSE(job.program.wants_spares(2));
}

namespace {

wire::Frame data_hello(const Json& capabilities) {
  wire::Frame frame{"hello",
                    {{"token", "0123456789abcdef"},
                     {"generation", 0},
                     {"rank", 0},
                     {"node", "n1"},
                     {"pid", 7},
                     {"total_steps", 50},
                     {"handoff", "device"},
                     {"invented_later", true}}};
  frame.body["capabilities"] = capabilities;
  return frame;
}
const Json kGood = {{"parallel", "data"},  {"global_batch", 24}, {"unit", 2},      {"start_seconds", 40},
                    {"program", "t.py 1"}, {"vault", 7},         {"unheard_of", 1}};

}  // namespace

TEST_CASE("a program that is data-parallel only is planned as a model of one layer, and unknown fields do not matter") {
  Job job;
  const wire::WorkerHello worker = wire::read_hello(data_hello(kGood));
  job.program.claim(worker.can);
  job.program.hello(worker.hello, true);
  CHECK(job.log == "introduced ");
  CHECK(job.program.data_only());
  CHECK(job.program.start_seconds() == 40);
  CHECK(job.program.model().layers == 1);
  CHECK(job.program.model().global_batch == 24);
  CHECK(job.program.model().setting->program == "t.py 1");
  CHECK(job.program.parallel().pp == 1);
  CHECK(job.program.parallel().tp == 2);
}

TEST_CASE("a program goes on with another plan in place only where its hello says that it can") {
  CHECK_FALSE(wire::read_hello(data_hello(kGood)).can.in_place);
  Json good = kGood;
  good["in_place"] = true;
  CHECK(wire::read_hello(data_hello(good)).can.in_place);
}

TEST_CASE("a program that is data-parallel only is refused, in words, where the user demands every bit") {
  Job job;
  job.bitwise = true;
  job.program.hello(wire::read_hello(data_hello(kGood)).hello, true);
  CHECK(job.log == "contradicts ");
  CHECK(job.last.find("accuracy=bitwise") != std::string::npos);
}

TEST_CASE("capabilities that cannot be are refused by name") {
  for (const auto& [field, value] : {std::pair("global_batch", Json(0)),
                                     {"unit", Json(0)},
                                     {"start_seconds", Json(100000)},
                                     {"missed_heartbeats", Json(3601)},
                                     {"missed_heartbeats", Json(-1)},
                                     {"parallel", Json("tensor")},
                                     {"program", Json(std::string(300, 'x'))},
                                     {"in_place", Json("yes")},
                                     {"unit", Json("two")}}) {
    Json bad = kGood;
    bad[field] = value;
    const std::string message = std::string("hello.capabilities.") + field;
    CAPTURE(message);
    try {
      wire::read_hello(data_hello(bad));
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find(message) == 0);
    }
  }
  CHECK_THROWS_AS(wire::read_hello(data_hello(Json::array())), Error);
  CHECK_THROWS_WITH_AS(wire::read_hello(data_hello({{"parallel", "plan"}})), "hello.model: missing", Error);
}
