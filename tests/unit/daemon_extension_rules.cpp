// Where the site's rules let jobs have extensions, and what is given back for its limits.
#include <doctest/doctest.h>

#include <chrono>

#include "planner/daemon/growth_obstacles.hpp"
#include "planner/daemon/limit_waits.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/wire/thread_time.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

using Names = std::vector<std::string>;

Names closed(const SlurmJob& anchor, const SlurmSnapshot& slurm, const ExtensionRules& rules = {}) {
  const NodeNames names = ClosedNodes(slurm, rules).to(anchor);
  return names ? *names : Names{};
}

SlurmSnapshot three_nodes() {
  SlurmSnapshot slurm;
  slurm.time = 1000;
  slurm.cluster.nodes = {node("n1", 4), node("n2", 4), node("n3", 4)};
  slurm.features = {{"n1", {"a100", "ib"}}, {"n2", {"a100"}}};
  return slurm;
}

SlurmJob waiting_for(LimitOf limit) {
  SlurmJob job = slurm_job(30, 1000, {});
  job.state = SlurmJobState::pending;
  job.limit = limit;
  job.account = "physics";
  job.qos = job.limit_qos = "normal";
  job.wanted_gpus = 2;
  return job;
}

SlurmJob extension(JobId id, JobId anchor, const std::string& node, std::vector<int> gpus) {
  SlurmJob job = slurm_job(id, 1000, {{id, node, std::move(gpus)}}, "espalier:ext:" + std::to_string(anchor) + ":ab");
  job.account = "physics";
  job.qos = "normal";
  return job;
}

}  // namespace

TEST_CASE("a movable job's extensions are on its types, and its constraint does not bind them") {
  SlurmSnapshot slurm = three_nodes();
  slurm.cluster.nodes[1].gpu_type = "a100";
  SlurmJob submitted = slurm_job(10, 1000, {});
  submitted.features = "ib";
  ClosedNodes nodes(slurm, {});
  const auto closed_to = [&](const NodeChoice& choice) {
    const NodeNames names = nodes.to(submitted, choice);
    return names ? *names : Names{};
  };
  CHECK(closed_to({}) == Names{"n2", "n3"});
  CHECK(closed_to({"", {}, true}).empty());
  CHECK(closed_to({"", {"h100"}, true}) == Names{"n2"});
  CHECK(closed_to({"", {"a100", "v100"}, true}) == Names{"n1", "n3"});
  CHECK(closed_to({"h100", {"a100"}, true}) == Names{"n1", "n2", "n3"});
}

TEST_CASE("a bit-identical training on GPUs gets extensions of its own GPU type only, and says so") {
  SlurmSnapshot slurm = three_nodes();
  slurm.cluster.nodes[0].gpu_type = slurm.cluster.nodes[2].gpu_type = "h100";
  slurm.cluster.nodes[1].gpu_type = "a100";
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0}}}));
  std::map<JobId, LiveJob> jobs;
  LiveJob& live = jobs[10];
  live.link = std::make_shared<TestLink>(1000);
  live.job = job(10, "n1", {0});
  const auto closed_to = [&] {
    const auto input = make_input(slurm, jobs, Trigger::timer, {});
    const auto at = input.closed.find(10);
    return at == input.closed.end() || !at->second ? Names{} : *at->second;
  };
  live.job.accuracy = Accuracy::bitwise;
  live.job.model.setting = TrainingSetting{"espalier-train-cuda 0.1.0", "", "", "", false, false};
  CHECK(closed_to() == Names{"n2"});
  const std::string words = "accuracy=bitwise keeps it on GPUs of type h100, as others may round differently";
  auto reasons = growth_obstacles(view_of(live), jobs, &slurm, nullptr, {}, 1000);
  CHECK(std::find(reasons.begin(), reasons.end(), words) != reasons.end());
  live.job.accuracy = Accuracy::relaxed;
  CHECK(closed_to().empty());
  reasons = growth_obstacles(view_of(live), jobs, &slurm, nullptr, {}, 1000);
  CHECK(std::find(reasons.begin(), reasons.end(), words) == reasons.end());
}

TEST_CASE("nodes without what a job asked for, or outside its reservation, are closed to its extensions") {
  SlurmSnapshot slurm = three_nodes();
  slurm.reservations = {{"course", {{"n1", "n3"}, 0, 1e9}}};
  SlurmJob anchor = slurm_job(10, 1000, {{10, "n1", {0}}});
  CHECK(closed(anchor, slurm) == Names{"n1", "n3"});  // the reservation of others
  anchor.reservation = "course";
  CHECK(closed(anchor, slurm) == Names{"n2"});
  anchor.features = "a100";
  CHECK(closed(anchor, slurm) == Names{"n2", "n3"});
  CHECK(closed(anchor, slurm, {"ib", "", "", ""}) == Names{"n2", "n3"});  // the site's
  slurm.reservations.clear();                                             // newer than what is known
  CHECK(closed(anchor, slurm) == Names{"n3"});
  run_job(slurm, anchor);
  std::map<JobId, LiveJob> jobs;
  jobs[10].job = job(10, "n1", {0});
  jobs[10].job.uid = 1000;
  jobs[10].link = std::make_shared<TestLink>(1000);
  const auto input = make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr});
  REQUIRE(input.jobs.size() == 1);
  REQUIRE(input.closed.contains(10));
  CHECK(*input.closed.at(10) == Names{"n3"});
}

TEST_CASE("a reservation of others closes its whole nodes while a lease could overlap it") {
  SlurmSnapshot slurm = three_nodes();
  const SlurmJob anchor = slurm_job(10, 1000, {{10, "n1", {0}}});
  const auto with = [&](double start, double end, bool whole) {
    slurm.reservations = {{"maintenance", {{"n2"}, start, end, whole}}};
    return closed(anchor, slurm, {"", "", "", "", 10});
  };
  CHECK(with(900, 2000, true) == Names{"n2"});
  CHECK(with(1599, 3000, true) == Names{"n2"});  // within ten minutes
  CHECK(with(1700, 3000, true).empty());
  CHECK(with(100, 900, true).empty());
  CHECK(with(900, 2000, false).empty());
}

TEST_CASE("a node that Slurm keeps for one user is closed to the extensions of all others") {
  SlurmSnapshot slurm = three_nodes();
  ClosedNodes open(slurm, {});
  CHECK(open.to(slurm_job(10, 1000, {})) == nullptr);
  slurm.owners = {{"n1", {1001}}};
  ClosedNodes nodes(slurm, {});
  const auto closed_to = [&](uid_t uid) {
    const NodeNames names = nodes.to(slurm_job(10, uid, {}));
    return names ? *names : Names{};
  };
  CHECK(closed_to(1000) == Names{"n1"});
  CHECK(closed_to(1001).empty());
  // ExclusiveUser=YES of the partition of extensions: two users who share a node keep each other from it.
  slurm.owners = {{"n1", {1001}}, {"n3", {1000, 1001}}};
  CHECK(closed(slurm_job(10, 1000, {}), slurm) == Names{"n1", "n3"});
  CHECK(closed(slurm_job(11, 1001, {}), slurm) == Names{"n3"});
  LiveJob live;
  live.job = job(10, "n2", {0});
  run_job(slurm, slurm_job(10, 1000, {{10, "n2", {0}}}));
  const auto reasons = growth_obstacles(view_of(live), {}, &slurm, nullptr, {}, 1000);
  CHECK(std::any_of(reasons.begin(), reasons.end(), [](const std::string& one) {
    return one ==
           "its extensions cannot be on n[1,3]: these lack its constraint, a reservation is in the way, or Slurm keeps "
           "them for another user's jobs";
  }));
}

TEST_CASE("jobs with the same constraint share the list of closed nodes") {
  SlurmSnapshot slurm = three_nodes();
  SlurmJob one = slurm_job(10, 1000, {}), other = slurm_job(11, 1001, {});
  one.features = other.features = "ib";
  ClosedNodes nodes(slurm, {});
  CHECK(nodes.to(one).get() == nodes.to(other).get());
  other.features.clear();
  CHECK(nodes.to(other) == nullptr);
}

TEST_CASE("preemption by QOS: nodes that a job of another QOS waits for are kept for it") {
  SlurmSnapshot slurm = three_nodes();
  const SlurmJob anchor = slurm_job(10, 1000, {{10, "n1", {0}}});
  slurm.preemption.by = PreemptionRule::By::qos;
  slurm.preemption.takers = {"normal"};
  const auto waits = [&](const std::string& qos, Names nodes) {
    slurm.jobs[30] = waiting_for(LimitOf::none);
    slurm.jobs[30].qos = qos;
    slurm.cluster.waiting = {{30, 2, 1, std::move(nodes), {}}};
    return closed(anchor, slurm);
  };
  CHECK(waits("normal", {}).empty());
  CHECK(waits("low", {}) == Names{"n1", "n2", "n3"});
  CHECK(waits("low", {"n2"}) == Names{"n2"});
  LiveJob live;
  live.job = job(10, "n1", {0});
  run_job(slurm, anchor);
  const auto reasons = growth_obstacles(view_of(live), {}, &slurm, nullptr, {}, 1000);
  CHECK(std::any_of(reasons.begin(), reasons.end(), [](const std::string& one) {
    return one == "its extensions cannot be on n2: a job of QOS low, which may not preempt extensions, waits for these";
  }));
  slurm.preemption.by = PreemptionRule::By::partition;
  CHECK(waits("low", {}).empty());
}

TEST_CASE("nothing grows where Slurm could not take it back") {
  SlurmSnapshot slurm = three_nodes();
  const SlurmJob anchor = slurm_job(10, 1000, {{10, "n1", {0}}});
  CHECK(barred(anchor, slurm, {}).empty());
  slurm.preemption.lends = false;
  slurm.preemption.missing = {"no QOS"};
  CHECK(barred(anchor, slurm, {}) == "no QOS");
  run_job(slurm, anchor);
  std::map<JobId, LiveJob> jobs;
  jobs[10].job = job(10, "n1", {0});
  jobs[10].job.uid = 1000;
  jobs[10].link = std::make_shared<TestLink>(1000);
  CHECK(make_input(slurm, jobs, Trigger::timer, {64, "elastic", nullptr}).jobs.at(0).held);
}

TEST_CASE("which jobs count against the limit that another waits for") {
  const auto counts = [](LimitOf limit, uid_t uid, const char* account, const char* qos, const Accounts& all = {}) {
    SlurmSnapshot slurm;
    slurm.jobs[30] = waiting_for(limit);
    slurm.limited = {30};
    slurm.accounts = all;
    return WaitedLimits(slurm).first(uid, account, qos) != nullptr;
  };
  CHECK(counts(LimitOf::qos, 7, "any", "normal"));
  CHECK_FALSE(counts(LimitOf::qos, 1000, "physics", "lent"));
  CHECK(counts(LimitOf::user_in_qos, 1000, "any", "normal"));
  CHECK_FALSE(counts(LimitOf::user_in_qos, 7, "physics", "normal"));
  CHECK(counts(LimitOf::account_in_qos, 7, "physics", "normal"));
  CHECK_FALSE(counts(LimitOf::account_in_qos, 1000, "chemistry", "normal"));
  CHECK(counts(LimitOf::user_in_account, 1000, "physics", "lent"));
  CHECK_FALSE(counts(LimitOf::user_in_account, 7, "physics", "normal"));
  CHECK_FALSE(counts(LimitOf::none, 1000, "physics", "normal"));
  // Without associations the account alone is known.
  CHECK(counts(LimitOf::account, 7, "physics", "lent"));
  CHECK_FALSE(counts(LimitOf::account, 1000, "chemistry", "lent"));
  // science limits both of its accounts.
  const Accounts limited{{"root", {"", false}},
                         {"science", {"root", true}},
                         {"physics", {"science", false}},
                         {"chemistry", {"science", false}},
                         {"arts", {"root", false}}};
  CHECK(counts(LimitOf::account, 7, "chemistry", "lent", limited));
  CHECK_FALSE(counts(LimitOf::account, 1000, "arts", "lent", limited));
  // No account is limited, so it is the user's association.
  const Accounts free{{"root", {"", false}}, {"physics", {"root", false}}};
  CHECK(counts(LimitOf::account, 1000, "physics", "lent", free));
  CHECK_FALSE(counts(LimitOf::account, 7, "physics", "lent", free));
  const Accounts circle{{"physics", {"chemistry", false}}, {"chemistry", {"physics", false}}};
  CHECK(counts(LimitOf::account, 1000, "physics", "lent", circle));
}

TEST_CASE("the QOS that a limit is in, where the job's partition has a QOS of its own") {
  const QosLimits limits{{"normal", {LimitOf::user_in_qos}},
                         {"pool", {LimitOf::qos, LimitOf::user_in_qos}},
                         {"free", {}},
                         {"team", {LimitOf::account_in_qos}}};
  const auto in = [&](LimitOf limit, const char* partition) {
    return qos_of_limit(waiting_for(limit), partition, limits);
  };
  CHECK(in(LimitOf::qos, "") == "normal");
  CHECK(in(LimitOf::qos, "normal") == "normal");
  CHECK(in(LimitOf::qos, "pool") == "pool");
  CHECK(in(LimitOf::account_in_qos, "team") == "team");
  CHECK(in(LimitOf::user_in_qos, "free") == "normal");
  CHECK(in(LimitOf::user_in_qos, "pool") == "");  // both have limits of users
  CHECK(in(LimitOf::qos, "free") == "");          // neither has, by what was read last
  CHECK(in(LimitOf::qos, "unknown") == "");
}

TEST_CASE("extensions count in the QOS of their partition as in their own") {
  SlurmSnapshot slurm = three_nodes();
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0}}}));
  run_job(slurm, extension(20, 10, "n1", {1, 2}));
  slurm.jobs[30] = waiting_for(LimitOf::qos);
  slurm.jobs[30].limit_qos = "pool";
  slurm.limited = {30};
  CHECK(LimitWaits().look(slurm, "elastic").empty());
  CHECK(WaitedLimits(slurm).against(slurm.jobs[10], {"", "", "normal", ""}) == nullptr);
  slurm.extensions_qos = "pool";
  CHECK(LimitWaits().look(slurm, "elastic").size() == 1);
  CHECK(WaitedLimits(slurm).against(slurm.jobs[10], {"", "", "normal", ""}) == &slurm.jobs[30]);
  CHECK(describe_limit(slurm.jobs[30]) == "a limit of QOS pool");
}

TEST_CASE("what a limit needs is asked back once, and again when Slurm had its time") {
  SlurmSnapshot slurm = three_nodes();
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0}}}));
  run_job(slurm, extension(20, 10, "n1", {1, 2}));
  run_job(slurm, extension(21, 10, "n2", {0, 1}));
  run_job(slurm, extension(22, 10, "n3", {0}));
  slurm.jobs[22].qos = "other";
  slurm.jobs[30] = waiting_for(LimitOf::qos);
  slurm.limited = {30};
  LimitWaits waits;
  auto found = waits.look(slurm, "elastic");
  REQUIRE(found.size() == 1);
  CHECK(found[0].job.id == 30);
  CHECK(found[0].job.gpus == 2);
  CHECK(found[0].counted == std::vector<JobId>{20, 21});
  CHECK(WaitedLimits(slurm).against(slurm.jobs[10], {"", "", "normal", ""}) == &slurm.jobs[30]);
  CHECK(WaitedLimits(slurm).against(slurm.jobs[10], {"", "", "lent", ""}) == nullptr);
  slurm.jobs[10].qos = "normal";
  CHECK(barred(slurm.jobs[10], slurm, {}) ==
        "job 30 waits for a limit of QOS normal, and extensions of this job would count against it");
  slurm.jobs.erase(20);  // given back; Slurm has not looked yet
  slurm.time += 10;
  CHECK(waits.look(slurm, "elastic").empty());
  slurm.time += 100;  // it has, and the job still waits
  found = waits.look(slurm, "elastic");
  REQUIRE(found.size() == 1);
  CHECK(found[0].counted == std::vector<JobId>{21});
  // A second job that waits for the same limit has its turn when the first has started.
  slurm.jobs[31] = waiting_for(LimitOf::qos);
  slurm.jobs[31].id = 31;
  slurm.limited = {30, 31};
  CHECK(waits.look(slurm, "elastic").size() == 1);
  slurm.limited = {31};
  found = waits.look(slurm, "elastic");
  REQUIRE(found.size() == 1);
  CHECK(found[0].job.id == 31);
  slurm.limited.clear();
  CHECK(waits.look(slurm, "elastic").empty());
}

TEST_CASE("of several jobs that wait for limits the first counts, and a job does not wait for itself") {
  SlurmSnapshot slurm;
  for (const JobId id : {30, 31, 32}) {
    slurm.jobs[id] = waiting_for(id == 31 ? LimitOf::user_in_account : LimitOf::qos);
    slurm.jobs[id].id = id;
  }
  slurm.limited = {31, 32, 30};
  const WaitedLimits limits(slurm);
  CHECK(limits.first(1000, "physics", "normal")->id == 31);
  CHECK(limits.first(1000, "physics", "normal", 31)->id == 32);
  CHECK(limits.first(7, "physics", "normal")->id == 32);
  CHECK(limits.first(7, "physics", "normal", 32)->id == 30);
  CHECK(limits.first(7, "physics", "lent") == nullptr);
  CHECK(limits.against(slurm.jobs[31], {"", "", "", ""})->id == 32);
}

TEST_CASE("thousands of elastic jobs and hundreds of jobs that wait for limits cost a decision little") {
  constexpr JobId kAnchors = 5000, kWaiting = 300, kAccounts = 1000;
  SlurmSnapshot slurm = three_nodes();
  slurm.accounts["root"];
  const auto account = [](JobId number) { return "research-group-" + std::to_string(number % kAccounts); };
  for (JobId i = 0; i < kAccounts; ++i)  // a chain of ten below each faculty, of which the third is limited
    slurm.accounts[account(i)] = {i % 10 == 0 ? "root" : account(i - 1), i % 10 == 2};
  for (JobId i = 0; i < kWaiting; ++i) {
    SlurmJob one = waiting_for(i % 3 == 0 ? LimitOf::user_in_account : LimitOf::account);
    one.id = 100 + i;
    one.uid = 1000 + i % 50;
    one.account = account(3 * i);
    slurm.limited.push_back(one.id);
    slurm.jobs[one.id] = std::move(one);
  }
  for (JobId i = 0; i < kAnchors; ++i) {
    SlurmJob one = slurm_job(1000 + i, 1000 + i % 50, {});
    one.account = account(i);
    one.qos = "normal";
    slurm.jobs[one.id] = one;
    one.id += kAnchors;
    one.partition = "elastic";
    one.comment = "espalier:ext:" + std::to_string(1000 + i) + ":ab";
    slurm.jobs[one.id] = one;
  }
  const double begin = wire::thread_seconds();
  const WaitedLimits limits(slurm);
  std::map<JobId, JobId> waits;  // by anchor
  for (JobId i = 0; i < kAnchors; ++i)
    if (const SlurmJob* const one = limits.against(slurm.jobs.at(1000 + i), {})) waits[1000 + i] = one->id;
  LimitWaits extensions;
  const auto found = extensions.look(slurm, "elastic");
  const double seconds = wire::thread_seconds() - begin;
  MESSAGE("5,000 elastic jobs, 300 jobs that wait for limits: ", seconds, " s");
  CHECK(seconds < 1);
  // The same, looked up one by one for some of them.
  const auto group = [](JobId number) { return number % kAccounts / 10; };
  const auto limited = [](JobId number) { return number % 10 >= 2; };
  for (JobId i = 0; i < kAnchors; i += 37) {
    JobId expected = 0;
    for (JobId w = 0; w < kWaiting && expected == 0; ++w) {
      const JobId in = 3 * w;
      const bool same = i % 50 == w % 50 && account(i) == account(in);
      const bool shared = limited(i) && limited(in) && group(i) == group(in);
      if (w % 3 == 0 ? same : limited(in) ? shared : same) expected = 100 + w;
    }
    CAPTURE(i);
    CHECK((waits.contains(1000 + i) ? waits.at(1000 + i) : 0) == expected);
  }
  CHECK(!waits.empty());
  std::size_t counted = 0;
  for (const LimitWaits::Wait& one : found)
    for (const JobId extension : one.counted) {
      ++counted;
      CHECK(waits.at(extension - kAnchors) == one.job.id);
    }
  CHECK(counted == waits.size());
}
