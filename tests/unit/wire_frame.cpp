#include <doctest/doctest.h>

#include <random>

#include "planner/core/error.hpp"
#include "planner/wire/event.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/messages.hpp"
#include "planner/wire/rank_messages.hpp"

using namespace espalier;
using namespace espalier::wire;

namespace {
std::string header(unsigned char version, std::uint32_t size) {
  std::string bytes = "ESP";
  bytes += static_cast<char>(version);
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((size >> shift) & 0xff);
  return bytes;
}
}  // namespace

TEST_CASE("a frame survives, whole or byte by byte, and leaves what follows") {
  const std::string bytes = encode(to_frame(Switched{17})) + encode(to_frame(Ready{}));
  Frame frame;
  std::size_t used = 0;
  for (std::size_t size = 0; size <= bytes.size() && used == 0; ++size)
    if (const auto taken = decode(std::string_view(bytes).substr(0, size), frame)) used = *taken;
  CHECK(from_frame<Switched>(frame).step == 17);
  CHECK(decode(std::string_view(bytes).substr(used), frame) == bytes.size() - used);
  CHECK(frame.type == "ready");
}

TEST_CASE("a message that is truncated waits, one that is oversized, foreign or malformed is refused") {
  Frame frame;
  CHECK(!decode("ES", frame));
  CHECK(!decode(header(2, 10) + "{\"type\":", frame));
  CHECK_THROWS_WITH_AS(decode("GET / HTTP/1.1", frame), "stream: not the Espalier protocol; check the port", Error);
  CHECK_THROWS_WITH_AS(
      decode(header(1, 10), frame),
      "stream: the peer speaks protocol version 1, this side 2; install the same Espalier on all nodes", Error);
  CHECK_THROWS_AS(decode(header(2, 0xffffffffu), frame), Error);
  for (const std::string body : {"[]", "{}", "{\"type\":1}", "{\"type\"", "nonsense", ""})
    CHECK_THROWS_AS(decode(header(2, static_cast<std::uint32_t>(body.size())) + body, frame), Error);
}

TEST_CASE("a message that is nested without end is refused before anything walks down it") {
  Frame frame;
  const std::string nested =
      "{\"type\":\"refused\",\"reason\":" + std::string(1000000, '[') + std::string(1000000, ']') + "}";
  CHECK_THROWS_WITH_AS(decode(header(2, static_cast<std::uint32_t>(nested.size())) + nested, frame),
                       "stream: a message is nested too deeply", Error);
}

TEST_CASE("random bytes never do more than throw Error") {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = encode(to_frame(Loaded{1, 2, 3}));
    for (int flips = 0; flips < 3; ++flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    Frame frame;
    try {
      if (decode(bytes, frame)) (void)from_frame<Loaded>(frame);
    } catch (const Error&) {
    }
  }
}

TEST_CASE("a message with a missing or ill-typed field is refused by name") {
  CHECK_THROWS_WITH_AS(from_frame<Switched>({"switched", Json::object()}), "switched.step: missing", Error);
  CHECK_THROWS_WITH_AS(from_frame<Switched>({"switched", {{"step", "1"}}}), "switched.step: must be a whole number",
                       Error);
  CHECK_THROWS_WITH_AS(from_frame<Ready>({"switched", {{"step", 1}}}), "message switched: expected ready", Error);
  CHECK_THROWS_AS(from_frame<Propose>({"propose", {{"decision", 1}}}), Error);
}

TEST_CASE("a list of numbers takes whole ones that fit, and no others") {
  Json holding = {{"job", 1}, {"node", "n1"}, {"gpus", {0, 1}}};
  CHECK(holding.get<Holding>().gpus == std::vector<int>{0, 1});
  for (const char* wrong : {"[4294967297]", "[1e300]", "[1.5]", "[true]", "[-4294967297]", "{\"a\":1}", "1"}) {
    CAPTURE(wrong);
    holding["gpus"] = Json::parse(wrong);
    CHECK_THROWS_AS(holding.get<Holding>(), Error);
  }
}

TEST_CASE("programs of different versions pass over fields that they do not know") {
  CHECK(from_frame<Bye>({"bye", {{"job", 1}, {"exit_code", 3}, {"x", 1}}}).exit_code == 3);
  Decision decision;
  decision.plan = uniform_plan(1, 1, 1, 4, 1, {{"n1", 0}});
  decision.acquire = {ExtensionRequest{}};
  Frame proposal = to_frame(Propose{decision});
  proposal.body["decision"]["x"] = proposal.body["decision"]["plan"]["x"] = 1;
  proposal.body["decision"]["acquire"][0]["x"] = "y";
  CHECK(from_frame<Propose>(proposal).decision.plan == decision.plan);
  CHECK_THROWS_WITH_AS((void)proposal.body["decision"].get<Decision>(), "decision.x: unknown field", Error);
  CHECK(from_frame<Switched>({"switched", {{"step", 1}, {"problem", ""}, {"x", 1}}}).step == 1);
  CHECK(from_frame<Load>({"load", {{"step", 3}, {"later", Json::object()}}}).step == 3);
  const Assign assign{uniform_plan(1, 1, 1, 4, 1, {{"n1", 0}}),
                      Assign::Source{1, uniform_plan(1, 1, 1, 4, 1, {{"n1", 0}})}};
  Frame frame = to_frame(assign);
  for (Json* const plan : {&frame.body["plan"], &frame.body["source"]["plan"]}) {
    (*plan)["x"] = 1;
    (*plan)["stages"][0]["x"] = 1;
    (*plan)["stages"][0]["replicas"][0]["x"] = Json::array();
  }
  frame.body["source"]["x"] = nullptr;
  CHECK(from_frame<Assign>(frame).plan == assign.plan);
  CHECK(from_frame<Assign>(frame).source->plan == assign.plan);
  CHECK_THROWS_WITH_AS((void)frame.body["plan"].get<Plan>(), "plan.x: unknown field", Error);  // a file's, for example
}

TEST_CASE("bytes that are no UTF-8 do not keep a message from being sent") {
  Frame frame;
  const std::string bytes = encode(to_frame(Failed{"bad \xff byte"}));
  REQUIRE(decode(bytes, frame));
  CHECK(from_frame<Failed>(frame).message.starts_with("bad "));
}

TEST_CASE("an assignment carries its source or none") {
  Assign assign{uniform_plan(2, 1, 4, 8, 2, {{"n1", 0}, {"n1", 1}}), std::nullopt, Accuracy::relaxed};
  CHECK(!from_frame<Assign>(to_frame(assign)).source);
  CHECK(from_frame<Assign>(to_frame(assign)).accuracy == Accuracy::relaxed);
  assign.source = Assign::Source{3, assign.plan};
  CHECK(from_frame<Assign>(to_frame(assign)).source->generation == 3);
}

TEST_CASE("an assignment names a GPU or leaves it to the rank") {
  Assign assign{uniform_plan(2, 1, 4, 8, 2, {{"n1", 0}, {"n1", 1}}), std::nullopt, Accuracy::relaxed, 1};
  Frame frame = to_frame(assign);
  CHECK(from_frame<Assign>(frame).device == 1);
  frame.body.erase("device");
  CHECK(!from_frame<Assign>(frame).device);
  frame.body["device"] = "first";
  CHECK_THROWS_AS(from_frame<Assign>(frame), Error);
}

TEST_CASE("an assignment and a switch may say whose the GPUs are") {
  const Plan plan = uniform_plan(2, 1, 4, 8, 2, {{"n1", 0}, {"n1", 1}});
  const GpuJobs jobs{{"n1/0", 7}, {"n1/1", 8}};
  Frame frame = to_frame(Assign{plan, std::nullopt, Accuracy::relaxed, 1, jobs});
  CHECK(from_frame<Assign>(frame).jobs == jobs);
  frame.body.erase("jobs");
  CHECK(from_frame<Assign>(frame).jobs.empty());
  frame = to_frame(Switch{plan, 2, jobs});
  CHECK(from_frame<Switch>(frame).jobs == jobs);
  frame.body["jobs"] = "all";
  CHECK_THROWS_AS(from_frame<Switch>(frame), Error);
}

TEST_CASE("`ready` may say which GPUs reach each other, and a continuation keeps that") {
  Frame frame = to_frame(Ready{{0, 0, 1}});
  CHECK(from_frame<Ready>(frame).gpu_islands == std::vector<int>{0, 0, 1});
  frame.body["gpu_islands"] = {0.5};
  CHECK_THROWS_AS(from_frame<Ready>(frame), Error);
  frame.body.erase("gpu_islands");
  CHECK(from_frame<Ready>(frame).gpu_islands.empty());
  frame.body.erase("jobs_reach");
  CHECK_FALSE(from_frame<Ready>(frame).jobs_reach);
  CHECK(from_frame<Ready>(to_frame(Ready{{}, true})).jobs_reach);
  Continuation kept;
  kept.gpu_islands = {{"n1/7", {0, 1}}};
  kept.jobs_reach = true;
  frame = to_frame(kept);
  CHECK(from_frame<Continuation>(frame).gpu_islands == kept.gpu_islands);
  CHECK(from_frame<Continuation>(frame).jobs_reach);
  frame.body.erase("jobs_reach");
  CHECK_FALSE(from_frame<Continuation>(frame).jobs_reach);
  frame.body.erase("gpu_islands");
  CHECK(from_frame<Continuation>(frame).gpu_islands.empty());
  frame.body["gpu_islands"] = {{"n1/7", "all"}};
  CHECK_THROWS_AS(from_frame<Continuation>(frame), Error);
}

TEST_CASE("a generation goes on with the plan of `resume`, or with its own") {
  const Plan plan = uniform_plan(2, 1, 4, 8, 2, {{"n1", 0}, {"n1", 1}});
  Frame frame = to_frame(Resume{});
  CHECK(frame.body.empty());  // as launchers of earlier versions say it
  CHECK(!from_frame<Resume>(frame).plan);
  frame = to_frame(Resume{plan});
  CHECK(from_frame<Resume>(frame).plan == plan);
  frame.body["plan"] = "the other one";
  CHECK_THROWS_AS(from_frame<Resume>(frame), Error);
}

TEST_CASE("a planner of an earlier version knows no change in place") {
  CHECK(from_frame<Registered>(to_frame(Registered{true})).in_place);
  CHECK_FALSE(from_frame<Registered>(Frame{"registered", Json::object()}).in_place);
}

TEST_CASE("a source is lost only where the assignment says so") {
  Assign assign{uniform_plan(2, 1, 4, 8, 2, {{"n1", 0}, {"n1", 1}}), std::nullopt, Accuracy::relaxed};
  assign.source = Assign::Source{3, assign.plan};
  Frame frame = to_frame(assign);
  CHECK(!from_frame<Assign>(frame).source->recovery);
  frame.body["source"].erase("recovery");
  CHECK(!from_frame<Assign>(frame).source->recovery);
  frame.body["source"]["recovery"] = true;
  CHECK(from_frame<Assign>(frame).source->recovery);
}

TEST_CASE("a source names the generations before it, or none") {
  Assign assign{uniform_plan(2, 1, 4, 8, 2, {{"n1", 0}, {"n1", 1}}), std::nullopt, Accuracy::relaxed};
  const Plan older = uniform_plan(1, 1, 4, 8, 2, {{"n1", 0}});
  assign.source = Assign::Source{3, assign.plan, true, 0, {{2, older, false, 7}, {1, assign.plan, true, 5}}};
  Frame frame = to_frame(assign);
  const auto earlier = from_frame<Assign>(frame).source->earlier;
  REQUIRE(earlier.size() == 2);
  CHECK(earlier[0].generation == 2);
  CHECK(earlier[0].plan == older);
  CHECK(!earlier[0].copies_only);
  CHECK(earlier[0].step == 7);
  CHECK(earlier[1].generation == 1);
  CHECK(earlier[1].copies_only);
  frame.body["source"]["earlier"][0].erase("plan");
  CHECK_THROWS_AS(from_frame<Assign>(frame), Error);
  frame.body["source"]["earlier"] = 7;
  CHECK_THROWS_AS(from_frame<Assign>(frame), Error);
  frame.body["source"].erase("earlier");
  CHECK(from_frame<Assign>(frame).source->earlier.empty());
}

TEST_CASE("a step of a worker that does not say so has not settled anything") {
  Frame frame = to_frame(Step{5, 1.5, 0.1, 100, true});
  CHECK(from_frame<Step>(frame).settled);
  frame.body.erase("settled");
  CHECK(!from_frame<Step>(frame).settled);
}

TEST_CASE("a source says how long a step takes, or that there is no time") {
  Assign assign{uniform_plan(2, 1, 4, 8, 2, {{"n1", 0}, {"n1", 1}}), std::nullopt, Accuracy::relaxed};
  assign.source = Assign::Source{3, assign.plan, false, 1.5};
  Frame frame = to_frame(assign);
  CHECK(from_frame<Assign>(frame).source->early_seconds == 1.5);
  frame.body["source"].erase("early_seconds");
  CHECK(from_frame<Assign>(frame).source->early_seconds == 0);
  frame.body["source"]["early_seconds"] = "long";
  CHECK_THROWS_AS(from_frame<Assign>(frame), Error);
}

TEST_CASE("datagram events are of one exact form") {
  const Event event = parse_event("ESP1 gpus_released job=12 node=n1 gpus=0,1 exit=0");
  CHECK(event.name == "gpus_released");
  CHECK(event.fields.at("gpus") == "0,1");
  for (const std::string text :
       {"", "ESP1", "ESP2 x", "ESP1 Name", "ESP1 name key", "ESP1 name k=1 k=2", "ESP1 name k=\n", "ESP1 name =1"})
    CHECK_THROWS_AS(parse_event(text), Error);
  CHECK_THROWS_AS(parse_event("ESP1 name k=" + std::string(2000, 'x')), Error);
}

TEST_CASE("a rank server's hello carries the faults of GPUs, and none where an older one says nothing of them") {
  Frame hello = to_frame(RankServerHello{7, "n1", 12, {{3, "(0000:41:00.0): its driver has lost it"}}});
  const auto faults = from_frame<RankServerHello>(hello).gpu_faults;
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].gpu == 3);
  CHECK(faults[0].text == "(0000:41:00.0): its driver has lost it");
  Frame broken = hello;
  broken.body["gpu_faults"][0].erase("text");
  CHECK_THROWS_AS(from_frame<RankServerHello>(broken), Error);
  broken = hello;
  broken.body["gpu_faults"] = "all";
  CHECK_THROWS_AS(from_frame<RankServerHello>(broken), Error);
  hello.body.erase("gpu_faults");
  CHECK(from_frame<RankServerHello>(hello).gpu_faults.empty());
}

TEST_CASE("bytes survive base64, which takes a third more of them") {
  std::string bytes;
  for (int length = 0; length < 700; ++length) {
    CHECK(base64_to_bytes(bytes_to_base64(bytes)) == bytes);
    CHECK(bytes_to_base64(bytes).size() == (bytes.size() + 2) / 3 * 4);
    bytes += static_cast<char>(length * 7);
  }
  CHECK(bytes_to_base64("fence") == "ZmVuY2U=");
  CHECK(base64_to_bytes("").empty());
}

TEST_CASE("what is no base64 is refused") {
  for (const char* text : {"Z", "ZmV", "Zm=V", "Zg===", "====", " ZmVu", "ZmVuY2U=\n", "Zm\u00fcu", "Z=mV", "ZmVu-_=="})
    CHECK_THROWS_AS(base64_to_bytes(text), Error);
}

TEST_CASE("messages of fences that know no base64 are read as ever") {
  Frame entered = to_frame(with_bytes(FenceEntered{1, 2}, "\xff", false));
  entered.body.erase("base64");
  CHECK(bytes_of(from_frame<FenceEntered>(entered)) == "\xff");
  Frame done = to_frame(with_bytes(FenceDone{1, 2, true}, "\x01", false));
  done.body.erase("base64");
  CHECK(bytes_of(from_frame<FenceDone>(done)) == "\x01");
  Frame hello = to_frame(RankServerHello{7, "n1", 12});
  hello.body.erase("base64");
  CHECK_FALSE(from_frame<RankServerHello>(hello).base64);
  Frame request = to_frame(RunRanks{});
  request.body.erase("base64");
  CHECK_FALSE(from_frame<RunRanks>(request).base64);
}

TEST_CASE("a keeper's hello carries what an earlier launcher has sent it, and nothing where there was none") {
  CHECK_FALSE(from_frame<KeeperHello>(to_frame(KeeperHello{7, "n1", false, {}})).continuation);
  Continuation left;
  left.restarts = 2;
  left.number = 40;
  left.base = 7;
  left.program = {"espalier-train", "--steps", "9"};
  left.description.total_steps = 9;
  left.accuracy = Accuracy::relaxed;
  left.last_generation = 5;
  left.source = Assign::Source{4, {}, true, 0, {{3, {}, true, 17}}};
  const auto read = from_frame<KeeperHello>(to_frame(KeeperHello{7, "n1", false, left})).continuation;
  REQUIRE(read);
  CHECK(read->restarts == 2);
  CHECK(read->number == 40);
  CHECK(read->base == 7);
  CHECK(read->program == left.program);
  CHECK(read->description.total_steps == 9);
  CHECK(read->accuracy == Accuracy::relaxed);
  CHECK(read->last_generation == 5);
  REQUIRE(read->source);
  CHECK(read->source->generation == 4);
  CHECK(read->source->recovery);
  REQUIRE(read->source->earlier.size() == 1);
  CHECK(read->source->earlier[0].step == 17);
  left.source.reset();
  CHECK_FALSE(from_frame<Continuation>(to_frame(left)).source);
  Frame broken = to_frame(KeeperHello{7, "n1", false, left});
  broken.body["continuation"].erase("base");
  CHECK_THROWS_AS(from_frame<KeeperHello>(broken), Error);
}
