// Questions: who is answered in which order, what they cost whom, and the thread that answers.
#include <doctest/doctest.h>

#include "planner/daemon/fair_queue.hpp"
#include "planner/daemon/question_thread.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Questions that are answered when the test says so.
struct Later {
  struct Asked {
    wire::Query query;
    uid_t uid;
    QuestionThread::Done done;
  };
  std::vector<Asked> asked;

  QuestionDesk::Sources sources() {
    return {[](const wire::Query&, const wire::Peer&) { return Json::object(); },
            [this](const wire::Query& query, const wire::Peer& peer, QuestionThread::Done done) {
              asked.push_back({query, peer.uid, std::move(done)});
            },
            [](const std::string& what) { return what.starts_with("show"); }};
  }
  void answer(std::size_t at, double seconds = 0.001) {
    const auto one = asked.at(at);
    const std::string text = "{\"body\":{\"of\":" + Json(one.query.what).dump() + "}}";
    one.done({wire::encode_text("reply", text), "", seconds});
  }
};

std::vector<std::string> replies(const TestLink& link) {
  std::vector<std::string> list;
  for (const wire::Frame& frame : link.sent)
    list.push_back(frame.type == "reply" ? frame.body.at("body").value("of", "at once") : frame.type);
  return list;
}

}  // namespace

TEST_CASE("users take turns in a fair queue, whatever each has put into it") {
  FairQueue<int> queue;
  CHECK_FALSE(queue.pop());
  for (int i = 0; i < 100; ++i) queue.push(1000, i);
  queue.push(1001, 500);
  queue.push(1002, 600);
  queue.push(1002, 601);
  std::vector<int> order;
  for (int i = 0; i < 6; ++i) order.push_back(*queue.pop());
  CHECK(order == std::vector<int>{0, 500, 600, 1, 601, 2});
  int left = 0;
  while (queue.pop()) ++left;
  CHECK(left == 97);
}

TEST_CASE("the answers of a connection come in the order of its questions, whoever makes them") {
  Daemon daemon(true);
  Later later;
  daemon.gate = std::make_unique<Gate>(*daemon.planner, later.sources());
  const auto link = daemon.connect(1000);
  for (const char* what : {"show a", "ping", "show b", "ping"}) link->says(wire::Query{what, Json::object()});
  REQUIRE(later.asked.size() == 1);
  CHECK(link->sent.empty());
  later.answer(0);
  REQUIRE(later.asked.size() == 2);
  CHECK(replies(*link) == std::vector<std::string>{"show a", "at once"});
  later.answer(1);
  CHECK(replies(*link) == std::vector<std::string>{"show a", "at once", "show b", "at once"});
  const auto other = daemon.connect(1000);
  other->says(wire::Query{"ping", Json::object()});
  CHECK(replies(*other) == std::vector<std::string>{"at once"});
}

TEST_CASE("a question that is refused later ends its connection; one whose connection has gone hurts nobody") {
  Daemon daemon(true);
  Later later;
  daemon.gate = std::make_unique<Gate>(*daemon.planner, later.sources());
  auto link = daemon.connect(1000);
  link->says(wire::Query{"show a", Json::object()});
  later.asked.at(0).done({"", "job 3: there is none", 0});
  CHECK(link->got<wire::Refused>()->reason == "job 3: there is none");
  CHECK(link->closed);
  auto gone = daemon.connect(1000);
  gone->says(wire::Query{"show b", Json::object()});
  gone->says(wire::Query{"show c", Json::object()});
  gone.reset();
  later.answer(1);
  CHECK(later.asked.size() == 2);
  const auto next = daemon.connect(1000);
  next->says(wire::Query{"show d", Json::object()});
  later.answer(2);
  CHECK(replies(*next) == std::vector<std::string>{"show d"});
}

TEST_CASE("a user's questions wait behind each other, not before those of others, and end with the allowance") {
  Daemon daemon(true);
  Later later;
  daemon.gate = std::make_unique<Gate>(*daemon.planner, later.sources());
  std::vector<std::shared_ptr<TestLink>> links;
  for (int i = 0; i < 50; ++i) {
    links.push_back(daemon.connect(1001));
    links.back()->says(wire::Query{"show " + std::to_string(i), Json::object()});
  }
  const std::size_t at_once = later.asked.size();
  CHECK(at_once <= 8);
  const auto other = daemon.connect(1000);
  other->says(wire::Query{"show me", Json::object()});
  later.answer(0, 0.6);
  later.answer(1, 0.6);
  CHECK(later.asked.size() == at_once + 1);  // the other user's; the first one has used up the time
  CHECK(later.asked.back().uid == 1000);
  std::size_t refused = 0;
  for (const auto& link : links) refused += link->got<wire::Refused>().has_value();
  CHECK(refused == 50 - at_once);
  const auto root = daemon.connect(0);
  root->says(wire::Query{"show all", Json::object()});
  CHECK(later.asked.back().uid == 0);
}

TEST_CASE(
    "a hundred thousand questions of a user without allowance are refused one after the other, not inside each other") {
  Later later;
  std::size_t refused = 0;
  QuestionDesk desk(later.sources(), {[](uid_t) { return false; }, [](uid_t) { return std::size_t{0}; },
                                      [&](const wire::ConnectionPtr&, const std::string&) { ++refused; }});
  const auto link = std::make_shared<TestLink>(1001);
  constexpr std::size_t kMany = 100000;
  for (std::size_t i = 0; i < kMany; ++i) desk.ask(QuestionDesk::dialogue(link), {"show", Json::object()}, 100);
  const std::size_t at_once = later.asked.size();
  later.answer(0, 10);
  CHECK(refused == kMany - at_once);
}

TEST_CASE("a long question and many at once on one connection are refused") {
  Daemon daemon(true);
  Later later;
  daemon.gate = std::make_unique<Gate>(*daemon.planner, later.sources());
  const auto link = daemon.connect(1000);
  for (int i = 0; i < 30 && !link->closed; ++i) link->says(wire::Query{"show", Json::object()});
  CHECK(link->got<wire::Refused>()->reason == "query: too many questions at once; wait for the answers");
  const auto fat = daemon.connect(1000);
  wire::Frame frame = wire::to_frame(wire::Query{"show", {{"x", std::string(20000, 'x')}}});
  frame.bytes = wire::encode(frame).size();
  fat->on_frame(frame);
  CHECK(fat->got<wire::Refused>()->reason == "query: longer than any question there is");
}

TEST_CASE("the thread answers from one moment's view and from the store, while the loop goes on writing") {
  Daemon daemon(true);
  const auto launcher = daemon.launcher();
  REQUIRE(daemon.until([&] { return !daemon.store.decisions(10, 1).empty(); }));
  const wire::Config config;
  Answers answers(*daemon.planner, config);
  auto questions =
      std::make_unique<QuestionThread>(daemon.loop, *daemon.planner, answers, daemon.folder.file("test.db"));
  daemon.gate = std::make_unique<Gate>(
      *daemon.planner,
      QuestionDesk::Sources{
          [&](const wire::Query& query, const wire::Peer& peer) { return answers.answer(query, peer); },
          [&](const wire::Query& query, const wire::Peer& peer, QuestionThread::Done done) {
            questions->ask(query, peer, std::move(done));
          },
          ReadAnswers::answers});
  const auto link = daemon.connect(1000);
  // Ten rounds of every question; the store gets rows all the time.
  std::size_t expected = 0;
  for (int round = 0; round < 10; ++round)
    for (const char* what : {"job", "jobs", "decisions", "nodes", "explain", "usage", "profiles"}) {
      const auto json =
          std::string(what) == "nodes" || std::string(what) == "jobs" ? Json::object() : Json{{"job", 10}};
      link->says(wire::Query{what, json});
      ++expected;
      daemon.store.add(wire::Transition{10, 1, "running", "e", "running", 0, 0}, 1000);
      REQUIRE(daemon.until([&] { return link->sent.size() == expected; }));
      REQUIRE(link->sent.back().type == "reply");
    }
  // What a user has changed is in the next answer.
  link->says(wire::Query{"hold", {{"job", 10}}});
  link->says(wire::Query{"job", {{"job", 10}}});
  expected += 2;
  REQUIRE(daemon.until([&] { return link->sent.size() == expected; }));
  CHECK(link->sent.back().body.at("body").at("job").at("held") == true);
  // A question under way when all ends: the thread is waited for, and nobody is called.
  link->says(wire::Query{"explain", {{"job", 10}}});
  questions.reset();
  daemon.pass(20);
  CHECK(link->sent.size() == expected);
}

TEST_CASE("a view does not change, and is made anew when a user has changed something") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  daemon.slurm_says([](SlurmSnapshot&) {});
  const auto before = daemon.planner->view();
  REQUIRE(before->job(10) != nullptr);
  CHECK(before->job(11) == nullptr);
  daemon.planner->hold(10, true);
  CHECK_FALSE(before->job(10)->job.held);
  CHECK(daemon.planner->view()->job(10)->job.held);
}

TEST_CASE("a reader of the store writes nothing, and sees each write that has returned") {
  const Folder folder;
  Store store(folder.file("a.db"));
  StoreReader reader(folder.file("a.db"));
  CHECK(reader.transitions(10, 5).empty());
  store.add(wire::Transition{10, 1, "running", "e", "running", 0, 7}, 1000);
  REQUIRE(reader.transitions(10, 5).size() == 1);
  CHECK(reader.transitions(10, 5).front().decision == 7);
  Database database(folder.file("a.db"), Database::Access::read_only);
  CHECK_THROWS_AS(database.execute("DELETE FROM transitions"), Error);
  CHECK_THROWS_AS(StoreReader(folder.file("none.db")), Error);
}
