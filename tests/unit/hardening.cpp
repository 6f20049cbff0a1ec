// What one user may cost: rows, bytes, time, unread answers; texts nested without end; who sees whose jobs.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

#include "planner/core/text_limits.hpp"
#include "planner/daemon/answers.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/strangers.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

Plan wide_plan(int gpus) {
  Plan plan = *job(10, "n1", {0, 1}).plan;
  const int layers = [&] {
    int sum = 0;
    for (const Stage& stage : plan.stages) sum += stage.layers;
    return sum;
  }();
  Stage stage;
  stage.layers = layers;
  stage.tp = 1;
  plan.global_batch = gpus * plan.micro_batches;
  for (int i = 0; i < gpus; ++i) stage.replicas.push_back({1, {{"n" + std::to_string(1000 + i / 8), i % 8}}});
  plan.stages = {stage};
  return plan;
}

DecisionRecord record_of(std::uint32_t uid, JobId id) {
  DecisionRecord record;
  record.uid = uid;
  record.decision.job = id;
  record.decision.kind = DecisionKind::grow;
  record.decision.plan = *job(id, "n1", {0, 1}).plan;
  record.decision.reason = std::string(1000, 'r');
  return record;
}

wire::Outcome own_act(int gpus = 0) {
  Decision own;
  own.job = 10;
  own.kind = DecisionKind::shrink;
  own.plan = gpus == 0 ? *job(10, "n1", {0, 1}).plan : wide_plan(gpus);
  return outcome_of(own, "committed");
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

}  // namespace

TEST_CASE("a plan of more GPUs than Slurm confirms or the site allows is refused, of an outcome and of a status") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  const std::size_t before = daemon.store.decisions(10, 1000).size();
  SUBCASE("an outcome") { link->says(own_act(9)); }  // the cluster has 8
  SUBCASE("a status") {
    ElasticJob fat = job(10, "n1", {0, 1});
    fat.plan = wide_plan(500);
    fat.model.layers = 0;
    link->says(wire::Status{fat});
  }
  SUBCASE("lists of holdings without end") {
    ElasticJob fat = job(10, "n1", {0, 1});
    for (JobId id = 100; id < 200; ++id) fat.extensions.push_back({id, "n1", {}});
    link->says(wire::Status{fat});
  }
  CHECK(link->closed);
  CHECK(link->got<wire::Refused>()->reason.starts_with("job 10: reported with "));
  CHECK(daemon.store.decisions(10, 1000).size() == before);
}

TEST_CASE("bye and a new registration give no new allowance for records") {
  Daemon daemon(true);
  for (int round = 0; round < 4; ++round) {
    const auto link = daemon.launcher();
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    for (int i = 0; i < 20; ++i) link->says(own_act());
    for (int i = 0; i < 115; ++i) link->says(wire::Transition{10, 1, "running", "e", "running", 0, 0});
    link->says(wire::Bye{10, 0});
    REQUIRE_FALSE(link->got<wire::Refused>());
  }
  std::size_t own = 0;
  for (const auto& record : daemon.store.decisions(10, 1000)) own += record.decision.kind == DecisionKind::shrink;
  CHECK(own >= 30);
  CHECK(own <= 36);
  CHECK(daemon.store.transitions(10, 10000).size() >= 400);
  CHECK(daemon.store.transitions(10, 10000).size() <= 450);
}

TEST_CASE("the store keeps its size, and who fills it loses the own oldest rows first") {
  const Folder folder;
  Store store(folder.file("a.db"));
  StoreLimits limits;
  limits.bytes = 100000;
  store.limit(limits);
  for (int i = 0; i < 10; ++i) store.add(record_of(1001, 20));
  for (int i = 0; i < 500; ++i) store.add(record_of(1000, 10));
  for (int i = 0; i < 5000; ++i) store.add(wire::Transition{10, 1, "running", "e", "running", 0, i}, 1000);
  CHECK(store.used() <= limits.bytes);
  CHECK(store.decisions(20, 100).size() == 10);
  const auto left = store.decisions(10, 1000);
  CHECK(left.size() < 100);
  if (!left.empty()) CHECK(left.front().decision.id == 510);
  CHECK(store.transitions(10, 1).front().decision == 4999);
}

TEST_CASE("the number of rows is kept, too, and at the cost of the same user") {
  const Folder folder;
  Store store(folder.file("a.db"));
  for (int i = 0; i < 10; ++i) store.add(record_of(1001, 20));
  for (int i = 0; i < 50; ++i) store.add(record_of(1000, 10));
  store.prune(30, 10);
  CHECK(store.decisions(20, 100).size() == 10);
  CHECK(store.decisions(10, 100).size() == 20);
  Store again(folder.file("a.db"));
  CHECK(again.used() == store.used());
}

TEST_CASE("the store and its logs are for their owner alone, also those that were for all") {
  const Folder folder;
  const std::string path = folder.file("a.db");
  { Store(path).add(record_of(1000, 10)); }
  CHECK(mode_of(path) == 0600);
  ::chmod(path.c_str(), 0644);
  Store store(path);
  store.add(record_of(1000, 10));
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(path + "-wal") == 0600);
}

TEST_CASE("decisions come in pages that leave none out") {
  Daemon daemon(true);
  REQUIRE(daemon.until([&] { return daemon.planner->last_snapshot() != nullptr; }));
  for (int i = 0; i < 700; ++i) daemon.store.add(record_of(1000, 10));
  const wire::Config config;
  Json arguments{{"limit", 1000}};
  std::size_t got = 0;
  for (int pages = 1;; ++pages) {
    const Json reply = test::ask(daemon, config, {"decisions", arguments}, 1000);
    CHECK(reply.dump().size() < 512u << 10);
    got += reply.at("decisions").size();
    if (!reply.contains("next")) break;
    arguments["page"] = reply["next"];
    REQUIRE(pages < 20);
  }
  CHECK(got == 700);
}

TEST_CASE("with PrivateData=jobs an ordinary user sees nothing of the jobs of others") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return !daemon.store.decisions(10, 1).empty(); }));
  const wire::Config config;
  const auto ask = [&](uid_t uid, const std::string& what, const Json& arguments = Json::object()) {
    return test::ask(daemon, config, {what, arguments}, uid);
  };
  CHECK(ask(1001, "jobs").at("jobs").size() == 1);
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.private_jobs = true; });
  CHECK(ask(1001, "jobs").at("jobs").empty());
  CHECK(ask(1001, "decisions").at("decisions").empty());
  CHECK_THROWS_AS(ask(1001, "job", {{"job", 10}}), Error);
  CHECK_THROWS_AS(ask(1001, "explain", {{"job", 10}}), Error);
  CHECK_THROWS_AS(ask(1001, "decision", {{"decision", 1}}), Error);
  CHECK(ask(1001, "nodes").at("nodes").at(0).at("gpu_owner").at(0) == kUnknownOwner);
  for (const uid_t uid : {1000u, 0u, 64030u}) {
    CHECK(ask(uid, "jobs").at("jobs").size() == 1);
    CHECK(ask(uid, "explain", {{"job", 10}}).at("decisions").size() == 1);
    CHECK(ask(uid, "nodes").at("nodes").at(0).at("gpu_owner").at(0) == 10);
  }
}

TEST_CASE("a user who has used up the daemon's time is asked to wait; a ping is answered, and so are others") {
  Daemon daemon(true);
  daemon.gate = std::make_unique<Gate>(*daemon.planner, [](const wire::Query& query, const wire::Peer&) {
    if (query.what == "slow")
      for (const std::clock_t until = std::clock() + CLOCKS_PER_SEC / 5; std::clock() < until;) {
      }
    return Json::object();
  });
  int answered = 0;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 40; ++i) {
    const auto link = daemon.connect(1001);
    link->says(wire::Query{"slow", Json::object()});
    answered += link->got<wire::Reply>().has_value();
  }
  CHECK(answered >= 4);
  // A second of the daemon's time at once, then a tenth of the time that passes; each question takes a fifth of a
  // second.
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
  CHECK(answered <= 1 / 0.2 + 0.1 * passed.count() / 0.2 + 1);
  const auto ping = daemon.connect(1001);
  ping->says(wire::Query{"ping", Json::object()});
  CHECK(ping->got<wire::Reply>());
  for (const uid_t uid : {1000u, 0u}) {
    const auto other = daemon.connect(uid);
    other->says(wire::Query{"slow", Json::object()});
    CHECK(other->got<wire::Reply>());
  }
}

TEST_CASE(
    "an extension of another user's job, or of a job that is no elastic one, is a stray; so is one beyond the limit") {
  SlurmSnapshot slurm;
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0, 1}}}));
  run_job(slurm, slurm_job(20, 1001, {{20, "n1", {2}}}, "espalier:ext:10:0123abcd"));
  run_job(slurm, slurm_job(21, 1000, {{21, "n1", {3}}}, "espalier:ext:10:0123abcd"));
  const auto named = [&](Strays& strays, const std::map<JobId, LiveJob>& jobs, double after, int max_gpus) {
    slurm.time = 1000;
    CHECK(strays.look(slurm, jobs, max_gpus).empty());
    slurm.time = 1000 + after;
    std::vector<JobId> ids;
    for (const auto& stray : strays.look(slurm, jobs, max_gpus)) ids.push_back(stray.extension);
    return ids;
  };
  Strays first("elastic"), second("elastic"), third("elastic");
  CHECK(named(first, {}, 11, 64) == std::vector<JobId>{20});
  CHECK(named(second, {}, 121, 64) == std::vector<JobId>{20});  // this espalierd has seen no launcher at all
  std::map<JobId, LiveJob> jobs;
  jobs[99].link = std::make_shared<TestLink>(1000);
  Strays later("elastic");
  CHECK(named(later, jobs, 121, 64) == std::vector<JobId>{20, 21});
  jobs.clear();
  jobs[10].job = job(10, "n1", {0, 1});
  jobs[10].job.phase = JobPhase::running;
  jobs[10].job.extensions = {{21, "n1", {3}}};
  jobs[10].link = std::make_shared<TestLink>(1000);
  CHECK(named(third, jobs, 31, 64) == std::vector<JobId>{20});
  Strays fourth("elastic");
  CHECK(named(fourth, jobs, 31, 2) == std::vector<JobId>{20, 21});
}

TEST_CASE("texts that are nested without end never reach a parser") {
  const std::string deep(100000, '[');
  CHECK_THROWS_AS(parse_json(deep), Error);
  CHECK(try_json("{\"a\":" + deep).is_discarded());
  CHECK(parse_json("[\"" + deep + "\", \"\\\"" + deep + "\"]").size() == 2);
  CHECK_THROWS_AS(check_toml("a = " + deep), Error);
  CHECK_THROWS_AS(check_toml("a = [\"]\", " + std::string(65, '[')), Error);
  std::string dotted = "a";
  for (int i = 0; i < 1000; ++i) dotted += " .a";
  CHECK_THROWS_AS(check_toml(dotted + " = 1"), Error);
  CHECK_THROWS_AS(check_toml("[" + dotted + "]"), Error);
  CHECK_THROWS_AS(check_toml("x = [\"\"\"a\"\"\"\", " + deep), Error);
  check_toml("x = \"" + deep + "\" # " + deep + "\ny = '''" + deep + "\n" + deep + "'''\n");
  std::string floats = "x = [";
  for (int i = 0; i < 1000; ++i) floats += "0.5, ";
  check_toml(floats + "]");
}

TEST_CASE("TOML that is no UTF-8 never reaches its parser, and the line is named") {
  CHECK_THROWS_WITH_AS(check_toml("a = 1\nb = \"caf\xe9\"\n"), "line 2 is no UTF-8", Error);
  CHECK_THROWS_WITH_AS(check_toml("a = '''\n\xff\n'''"), "line 2 is no UTF-8", Error);
  CHECK_THROWS_WITH_AS(check_toml("# \xc0\x80"), "line 1 is no UTF-8", Error);
  check_toml("a = \"caf\xc3\xa9 \xf0\x9f\x8c\xb3\"\n");
}

TEST_CASE("a plan whose numbers have no sum is refused in words") {
  Plan plan;
  plan.global_batch = plan.micro_batches = 1;
  Stage stage;
  stage.layers = std::numeric_limits<int>::max();
  stage.replicas = {{std::numeric_limits<int>::max(), {{"n1", 0}}}, {std::numeric_limits<int>::max(), {{"n1", 1}}}};
  plan.stages = {stage, stage};
  CHECK(plan.total_layers() == std::numeric_limits<int>::max());
  plan.chunks = {{0, std::numeric_limits<int>::max()}, {0, std::numeric_limits<int>::max()}, {1, 1}};
  const auto broken = validate(plan, 8);
  const auto tells = [&](const std::string& what) {
    return std::any_of(broken.begin(), broken.end(),
                       [&](const std::string& one) { return one.find(what) != one.npos; });
  };
  CHECK(tells("has shares that sum to 4294967294"));
  CHECK(tells("its chunks hold 4294967294"));
}

TEST_CASE("texts with values without end never reach a parser") {
  CHECK(json_size("").values == 1);
  CHECK(json_size(R"({"a":[1,2,",,,"],"b":{}})").values >= 5);
  std::string many = "[[]";  // three bytes a value, some 40 in memory
  for (std::size_t i = 0; i < kMaxFrameValues; ++i) many += ",[]";
  const auto decoded = [](const std::string& body) {
    std::string bytes = wire::encode({"x", Json::object()}).substr(0, 4);
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((body.size() >> shift) & 0xff);
    wire::Frame frame;
    wire::decode(bytes + body, frame);
    return frame.body;
  };
  CHECK_THROWS_WITH_AS(decoded(R"({"type":"x","a":)" + many + "]}"), "stream: a message holds too many values", Error);
  CHECK(decoded(R"({"type":"x","a":[[],[]]})").at("a").size() == 2);
}
