#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "launcher/world/served_ranks.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/messages.hpp"
#include "planner/wire/thread_time.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

const ServerId kOwn{"n1", 10}, kBeside{"n1", 11}, kOther{"n2", 12};

// Four ranks on three servers, two of which are on one node; what the servers are sent, and what the launcher hears.
struct Play {
  wire::Loop loop;
  std::map<ServerId, std::vector<wire::Frame>> sent;
  std::map<int, int> codes;
  std::vector<int> lost, aborted;
  std::string why;
  int over = -1;
  ServedRanks ranks;

  explicit Play(bool first, std::chrono::seconds start = std::chrono::seconds(60), AwakeLooks looks = {})
      : ranks(loop, request(first), start,
              {[this](const ServerId& id, const std::string& bytes) { wire::decode(bytes, sent[id].emplace_back()); },
               [] {}},
              {[this](int rank, int code) { codes[rank] = code; },
               [this](const std::vector<int>& gone, const std::string& reason) {
                 lost.insert(lost.end(), gone.begin(), gone.end());
                 why = reason;
               },
               [this](int code) { over = code; }, [this](int rank) { aborted.push_back(rank); }},
              looks) {}

  static WorldRequest request(bool first) {
    WorldRequest r;
    r.generation = 3;
    r.holdings = {{10, "n1", {0, 1}}, {11, "n1", {2}}, {12, "n2", {0}}};
    r.gpus = {{"n1", 0}, {"n1", 2}, {"n2", 0}, {"n1", 1}};
    r.program = {"train"};
    r.first = first;
    return r;
  }
  void all_come() {
    for (const ServerId& id : {kOwn, kBeside, kOther}) ranks.came(id);
    meets();
  }
  void meets(const ServerId& id = kOwn, int port = 12345) {
    ranks.handle(id, wire::to_frame(wire::Rendezvous{3, "10.0.0.1", port}));
  }
  void ends(const ServerId& id, int rank, int code, bool finalized = true) {
    ranks.handle(id, wire::to_frame(wire::RankEnded{3, rank, code, finalized}));
  }
  void enters(const ServerId& id, std::int64_t number, const std::string& data) {
    ranks.handle(id, wire::to_frame(wire::FenceEntered{3, number, data}));
  }
  template <class Message>
  std::vector<Message> told(const ServerId& id) {
    std::vector<Message> list;
    for (const wire::Frame& frame : sent[id])
      if (frame.type == Message::type) list.push_back(wire::from_frame<Message>(frame));
    return list;
  }
};

}  // namespace

TEST_CASE("each server is asked once for its own ranks, as soon as it is there") {
  Play play(false);
  play.ranks.came(kOwn);
  play.meets();
  play.ranks.came(kOther);
  CHECK(play.sent[kBeside].empty());
  play.ranks.came(kOther);
  const auto asked = play.told<wire::RunRanks>(kOther);
  REQUIRE(asked.size() == 1);
  const wire::RunRanks& request = asked.front();
  CHECK(request.places.size() == 3);
  CHECK(request.places[static_cast<std::size_t>(request.here)].ranks == std::vector<int>{2});
  CHECK(request.places[0].ranks == std::vector<int>{0, 3});
  CHECK(request.places[0].server != request.places[1].server);  // one node, two servers
  play.ranks.came(kOwn);
  CHECK(play.told<wire::RunRanks>(kOwn).front().name == request.name);
  CHECK(request.name.size() >= 32);  // nobody guesses it
  CHECK(Play(false).ranks.running());
}

TEST_CASE("ranks start when the server of rank 0 has said where they meet") {
  Play play(false);
  play.ranks.came(kOther);
  CHECK(play.sent[kOther].empty());
  play.ranks.came(kOwn);
  CHECK(play.told<wire::RunRanks>(kOwn).front().port == 0);
  play.meets(kOther);  // no business of that server's
  play.meets(kOwn, 0);
  play.meets(kOwn, 65536);
  CHECK(play.sent[kOther].empty());
  play.meets();
  play.meets(kOwn, 11111);  // once is for all
  play.ranks.came(kBeside);
  for (const ServerId& id : {kOther, kBeside}) {
    REQUIRE(play.told<wire::RunRanks>(id).size() == 1);
    CHECK(play.told<wire::RunRanks>(id).front().address == "10.0.0.1");
    CHECK(play.told<wire::RunRanks>(id).front().port == 12345);
  }
  CHECK(play.told<wire::RunRanks>(kOwn).front().places[0].devices == std::vector<int>{0, 1});
}

TEST_CASE("a fence is done when all servers have entered it, with what each of them sent in a fixed order") {
  Play play(false);
  play.all_come();
  play.enters(kOther, 0, "c");
  play.enters(kOwn, 0, "a");
  CHECK(play.told<wire::FenceDone>(kOwn).empty());
  play.enters(kOwn, 1, "x");  // the next fence has begun here
  play.enters(kBeside, 0, "b");
  for (const ServerId& id : {kOwn, kBeside, kOther}) {
    const auto done = play.told<wire::FenceDone>(id);
    REQUIRE(done.size() == 1);
    CHECK(done[0].number == 0);
    CHECK(done[0].complete);
    CHECK(done[0].data == "abc");
  }
}

TEST_CASE("what a fence carries is in base64 for the servers that read it, and as before for older ones") {
  Play play(false);
  play.ranks.came(kOwn, true);
  play.ranks.came(kBeside);  // of an older release
  play.ranks.came(kOther, true);
  play.meets();
  for (const ServerId& id : {kOwn, kOther}) CHECK(play.told<wire::RunRanks>(id).front().base64);
  const std::string own("a\0\xff", 3), beside("\x01z", 2);
  play.ranks.handle(kOwn, wire::to_frame(wire::with_bytes(wire::FenceEntered{3, 0}, own, true)));
  play.ranks.handle(kBeside, wire::to_frame(wire::with_bytes(wire::FenceEntered{3, 0}, beside, false)));
  play.ranks.handle(kOther, wire::to_frame(wire::with_bytes(wire::FenceEntered{3, 0}, "", true)));
  for (const ServerId& id : {kOwn, kBeside, kOther}) {
    const auto done = play.told<wire::FenceDone>(id);
    REQUIRE(done.size() == 1);
    CHECK(wire::bytes_of(done[0]) == own + beside);
    CHECK(done[0].data.empty() == (id != kBeside));
    CHECK(done[0].base64.empty() == (id == kBeside));
  }
}

TEST_CASE("a fence with more than a message holds fails all ranks in words, and no server is lost") {
  Play play(false);
  play.all_come();
  const std::string much(3u << 20, 'x');
  for (const ServerId& id : {kOwn, kBeside, kOther}) play.enters(id, 0, much);
  CHECK(play.lost == std::vector<int>{0, 1, 2, 3});
  CHECK(play.why.find("the 4 ranks have published 9 MiB for one another") == 0);
  CHECK(play.over == 137);
  for (const ServerId& id : {kOwn, kBeside, kOther}) {
    CHECK(play.told<wire::FenceDone>(id).empty());
    REQUIRE(play.told<wire::SignalRanks>(id).size() == 1);
    CHECK(play.told<wire::SignalRanks>(id)[0].number == SIGKILL);
  }
  play.ends(kOwn, 0, 137);  // known already
  CHECK(play.codes.empty());
}

TEST_CASE("a lost server breaks the fences under way and those to come, and its ranks are told of") {
  Play play(false);
  play.all_come();
  play.enters(kOwn, 0, "a");
  play.ranks.gone(kOther, "n2 is away");
  CHECK(play.lost == std::vector<int>{2});
  CHECK(play.why == "n2 is away");
  REQUIRE(play.told<wire::FenceDone>(kOwn).size() == 1);
  CHECK(!play.told<wire::FenceDone>(kOwn)[0].complete);
  play.enters(kOwn, 1, "a");
  REQUIRE(play.told<wire::FenceDone>(kOwn).size() == 2);
  CHECK(!play.told<wire::FenceDone>(kOwn)[1].complete);
  play.ranks.gone(kOther, "again");
  CHECK(play.lost.size() == 1);
  play.ends(kOwn, 0, 0);
  play.ends(kOwn, 3, 0);
  CHECK(play.over == -1);
  play.ends(kBeside, 1, 0);
  CHECK(play.over == 137);
  CHECK(!play.ranks.running());
}

TEST_CASE("questions go to the server of the rank that is asked for, and answers to the asker") {
  Play play(false);
  play.all_come();
  play.ranks.handle(kOwn, wire::to_frame(wire::ModexWanted{3, 2, 77}));
  play.ranks.handle(kBeside, wire::to_frame(wire::ModexWanted{3, 2, 77}));
  const auto asked = play.told<wire::ModexWanted>(kOther);
  REQUIRE(asked.size() == 2);
  play.ranks.handle(kOther, wire::to_frame(wire::ModexFound{3, asked[1].ticket, true, "second"}));
  play.ranks.handle(kOther, wire::to_frame(wire::ModexFound{3, asked[0].ticket, true, "first"}));
  REQUIRE(play.told<wire::ModexFound>(kOwn).size() == 1);
  CHECK(play.told<wire::ModexFound>(kOwn)[0].ticket == 77);
  CHECK(play.told<wire::ModexFound>(kOwn)[0].data == "first");
  CHECK(play.told<wire::ModexFound>(kBeside)[0].data == "second");
  play.ranks.handle(kOther, wire::to_frame(wire::ModexFound{3, asked[0].ticket, true, "again"}));
  CHECK(play.told<wire::ModexFound>(kOwn).size() == 1);
  play.ranks.handle(kOwn, wire::to_frame(wire::ModexWanted{3, 9, 78}));  // there is no such rank
  CHECK(!play.told<wire::ModexFound>(kOwn)[1].found);
}

TEST_CASE("in the first generation the others end with the first rank that fails, and its code is the world's") {
  Play play(true);
  play.ranks.came(kOwn);
  play.meets();
  play.ranks.came(kBeside);
  play.ends(kOwn, 3, 7);
  CHECK(play.codes.at(3) == 7);
  REQUIRE(play.told<wire::SignalRanks>(kBeside).size() == 1);
  CHECK(play.told<wire::SignalRanks>(kBeside)[0].number == SIGTERM);
  play.ranks.came(kOther);  // too late: its rank is not started
  CHECK(play.told<wire::RunRanks>(kOther).empty());
  play.ends(kOwn, 0, 143);
  play.ends(kBeside, 1, 143);
  CHECK(play.over == 7);
}

TEST_CASE("a later generation goes on without the rank that failed: what becomes of it is the launcher's to say") {
  Play play(false);
  play.all_come();
  play.ends(kOwn, 3, 7);
  CHECK(play.told<wire::SignalRanks>(kBeside).empty());
  CHECK(play.over == -1);
}

TEST_CASE("a rank that leaves MPI without MPI_Finalize has failed; MPI_Abort ends all ranks with its code") {
  Play play(false);
  play.all_come();
  play.ends(kOwn, 0, 0, false);
  CHECK(play.codes.at(0) == 1);
  Play abort(false);
  abort.all_come();
  abort.ranks.handle(kOther, wire::to_frame(wire::RankAborted{3, 2, 9}));
  CHECK(abort.aborted == std::vector<int>{2});
  CHECK(abort.told<wire::SignalRanks>(kOwn).empty());  // the news that another rank has died may be on its way
  abort.ranks.handle(kBeside, wire::to_frame(wire::RankAborted{3, 1, 8}));
  const auto look = abort.loop.every(std::chrono::milliseconds(10), [&] {
    if (!abort.told<wire::SignalRanks>(kOwn).empty()) abort.loop.stop();
  });
  const auto limit = abort.loop.after(std::chrono::seconds(20), [&] { abort.loop.stop(); });
  abort.loop.run();
  REQUIRE(abort.told<wire::SignalRanks>(kOwn).size() == 1);
  CHECK(abort.told<wire::SignalRanks>(kOwn).at(0).number == SIGKILL);
  for (const int rank : {0, 3}) abort.ends(kOwn, rank, 137);
  abort.ends(kBeside, 1, 137);
  abort.ends(kOther, 2, 137);
  CHECK(abort.over == 9);
}

TEST_CASE("MPI_Abort ends a generation of which some servers have not come") {
  for (const bool first : {true, false}) {
    Play play(first);
    play.ranks.came(kOwn);
    play.meets();
    play.ranks.handle(kOwn, wire::to_frame(wire::RankAborted{3, 0, 9}));
    play.ranks.came(kOther);  // too late: its rank is not started
    CHECK(play.told<wire::RunRanks>(kOther).empty());
    play.ends(kOwn, 0, 9);
    CHECK(play.over == -1);
    play.ends(kOwn, 3, 137);
    CHECK(play.over == 9);
    CHECK(!play.ranks.running());
  }
}

TEST_CASE("MPI_Abort of the last ranks that were started ends the generation at once") {
  Play play(false);
  play.ranks.came(kOwn);
  play.meets();
  for (const int rank : {0, 3}) play.ends(kOwn, rank, 9);
  CHECK(play.over == -1);
  play.ranks.handle(kOwn, wire::to_frame(wire::RankAborted{3, 0, 9}));
  CHECK(play.over == 9);
}

TEST_CASE("a server speaks for its own ranks only, and not of what is no rank") {
  Play play(false);
  play.all_come();
  play.ends(kOther, 0, 5);
  play.ends(kOther, -1, 5);
  play.ends(kOther, 4, 5);
  play.ranks.handle(kOther, wire::to_frame(wire::RankAborted{3, 0, 9}));
  CHECK(play.codes.empty());
  CHECK(play.told<wire::SignalRanks>(kOwn).empty());
  play.ends(kOther, 2, 5);
  play.ends(kOther, 2, 6);
  CHECK(play.codes == std::map<int, int>{{2, 5}});
}

TEST_CASE("a server that cannot start its ranks, or does not come in time, is lost with them") {
  Play refused(false);
  refused.all_come();
  refused.ranks.handle(kOther, wire::to_frame(wire::RanksRefused{3, "train: cannot be started: No such file"}));
  CHECK(refused.lost == std::vector<int>{2});
  CHECK(refused.why == "n2: train: cannot be started: No such file");
  Play late(false, std::chrono::seconds(0));
  late.ranks.came(kOwn);
  late.ranks.came(kBeside);
  const auto stop = late.loop.after(wire::Loop::Milliseconds(100), [&] { late.loop.stop(); });
  late.loop.run();
  CHECK(late.lost == std::vector<int>{2});
  CHECK(late.why == "the rank server of job 12 on n2 has not come within 0 s");
}

TEST_CASE("a server has its time to come, without that in which Slurm had the job suspended") {
  Play play(false, std::chrono::seconds(1), {std::chrono::milliseconds(10), std::chrono::milliseconds(200)});
  const auto stands = play.loop.after(std::chrono::milliseconds(50),
                                      [] { std::this_thread::sleep_for(std::chrono::milliseconds(1500)); });
  const auto resumed = play.loop.after(std::chrono::milliseconds(1600), [&] { play.loop.stop(); });
  play.loop.run();
  CHECK(play.lost.empty());
}

namespace {

// 2,048 servers with eight ranks each. Of what they are sent the lengths are kept, and all of it for a few of them.
struct ManyServers {
  static constexpr int kServers = 2048;
  wire::Loop loop;
  std::size_t bytes = 0;
  std::map<std::string, int> frames;  // by node
  std::map<std::string, std::vector<wire::Frame>> kept;
  ServedRanks ranks{loop,
                    request(),
                    std::chrono::seconds(60),
                    {[this](const ServerId& id, const std::string& frame) { take(id, frame); }, [] {}},
                    {[](int, int) {}, [](const std::vector<int>&, const std::string&) {}, [](int) {}, [](int) {}}};

  static std::string node(int server) { return "node" + std::to_string(server); }
  static WorldRequest request() {
    WorldRequest r;
    r.generation = 3;
    r.program = {"train"};
    for (int server = 0; server < kServers; ++server) {
      r.holdings.push_back({10, node(server), {0, 1, 2, 3, 4, 5, 6, 7}});
      for (int gpu = 0; gpu < 8; ++gpu) r.gpus.push_back({node(server), gpu});
    }
    return r;
  }
  void take(const ServerId& id, const std::string& frame) {
    bytes += frame.size();
    ++frames[id.node];
    if (id.node == node(0) || id.node == node(1000) || id.node == node(2047))
      wire::decode(frame, kept[id.node].emplace_back());
  }
  // Whether each server has been sent so many messages.
  bool has_sent(int count) const {
    for (int server = 0; server < kServers; ++server)
      if (const auto at = frames.find(node(server)); at == frames.end() || at->second < count) return false;
    return true;
  }
};

}  // namespace

TEST_CASE("thousands of servers start and pass a fence within seconds, and the launcher does other work meanwhile") {
  ManyServers many;
  for (int server = 0; server < many.kServers; ++server) many.ranks.came({many.node(server), 10});
  // Of this thread's own work: other processes may have the cores.
  const double start = wire::thread_seconds();
  double longest = 0, looked = start;  // longest: for which the loop did nothing else
  const auto look = many.loop.every(std::chrono::milliseconds(1), [&] {
    const double now = wire::thread_seconds();
    longest = std::max(longest, now - std::exchange(looked, now));
    if (many.has_sent(2)) many.loop.stop();
  });
  many.loop.defer([&] {
    many.ranks.handle({many.node(0), 10}, wire::to_frame(wire::Rendezvous{3, "10.0.0.1", 12345}));
    for (int server = 0; server < many.kServers; ++server)
      many.ranks.handle({many.node(server), 10}, wire::to_frame(wire::FenceEntered{
                                                     3, 0, std::string(100, static_cast<char>('a' + server % 26))}));
  });
  const auto limit = many.loop.after(std::chrono::seconds(60), [&] { many.loop.stop(); });
  many.loop.run();
  CHECK(wire::thread_seconds() - start < 5);
  CHECK(longest < 2);
  CHECK(many.has_sent(2));
  CHECK(many.bytes > 100u << 20);
  for (const int server : {0, 1000, 2047}) {
    const auto& told = many.kept.at(many.node(server));
    REQUIRE(told.size() == 2);
    const auto asked = wire::from_frame<wire::RunRanks>(told[0]);
    REQUIRE(asked.places.size() == many.kServers);
    CHECK(asked.places[static_cast<std::size_t>(asked.here)].server == many.node(server) + ".10");
    CHECK(asked.port == (server == 0 ? 0 : 12345));
    const auto done = wire::from_frame<wire::FenceDone>(told[1]);
    CHECK(done.complete);
    CHECK(done.data.size() == 100u * many.kServers);
  }
}

TEST_CASE("bytes of any value travel in a message's text") {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  CHECK(wire::text_to_bytes(wire::bytes_to_text(bytes)) == bytes);
  const wire::Frame frame = wire::to_frame(wire::RankOutput{true, wire::bytes_to_text(bytes)});
  wire::Frame back;
  const std::string encoded = wire::encode(frame);
  REQUIRE(wire::decode(encoded, back) == encoded.size());
  CHECK(wire::text_to_bytes(wire::from_frame<wire::RankOutput>(back).text) == bytes);
  CHECK_THROWS_AS(wire::text_to_bytes("\xe2\x82\xac"), Error);  // the euro sign is no byte
}
