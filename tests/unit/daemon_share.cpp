// [share]: who may grow into whose idle GPUs, how much, and who first.
#include <doctest/doctest.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/daemon/account_limits.hpp"
#include "planner/daemon/growth_obstacles.hpp"
#include "planner/daemon/objective_weights.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/share_words.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

using Names = std::vector<std::string>;

// Accounts physics with particle below it, and chemistry.
const char* const kShares =
    "root||\n root|root|1.000000\n chemistry||\n  chemistry|ann|0.25\n physics||\n  physics|bob|0.75\n  particle||\n"
    "   particle|eve|0.5\n   particle|eve|0.625\n";

SlurmSnapshot three_nodes() {
  SlurmSnapshot slurm;
  slurm.time = 1000;
  slurm.cluster.nodes = {node("n1", 4), node("n2", 4), node("n3", 4)};
  slurm.partitions = {{"main", {"n1", "n2", "n3"}}, {"old", {"n3"}}};
  slurm.shares = std::make_shared<const FairShares>(parse_fair_shares(kShares));
  return slurm;
}

SlurmJob of_account(JobId id, const std::string& account, Names gpus_on = {}) {
  std::vector<Holding> holdings;
  for (const std::string& name : gpus_on) holdings.push_back({id, name, {0, 1}});
  SlurmJob job = slurm_job(id, 1000, std::move(holdings));
  job.account = account;
  job.qos = "normal";
  job.partition = "main";
  return job;
}

void extend(SlurmSnapshot& slurm, JobId id, JobId anchor, const std::string& on, std::vector<int> gpus) {
  SlurmJob job = slurm_job(id, 1000, {{id, on, std::move(gpus)}}, "espalier:ext:" + std::to_string(anchor) + ":ab");
  job.partition = "elastic";
  run_job(slurm, job);
}

// Job 10 of account physics has two GPUs of n1 and an extension of one there.
SlurmSnapshot three_nodes_and_a_grown_job() {
  SlurmSnapshot slurm = three_nodes();
  SlurmJob anchor = of_account(10, "physics", {"n1"});
  anchor.fair_share = 0.75;
  run_job(slurm, anchor);
  extend(slurm, 20, 10, "n1", {2});
  return slurm;
}

LiveJob live_job(JobId id, const std::string& on) {
  LiveJob live;
  live.job = job(id, on, {0, 1});
  live.job.uid = 1000;
  live.job.max_gpus = 64;
  live.link = std::make_shared<TestLink>(1000);
  return live;
}

Names closed_to(const SlurmJob& anchor, const SlurmSnapshot& slurm, const ShareRules& share) {
  ExtensionRules rules;
  rules.share = share;
  const NodeNames names = ClosedNodes(slurm, rules).to(anchor);
  return names ? *names : Names{};
}

Decision growth(JobId id, const std::string& on, int gpus) {
  Decision decision;
  decision.kind = DecisionKind::grow;
  decision.job = id;
  decision.acquire = {{on, gpus, 1, 1, 10}};
  return decision;
}

}  // namespace

TEST_CASE("what sshare prints is read: the tree of accounts by its indentation, and each user's factor") {
  const FairShares shares = parse_fair_shares(kShares);
  CHECK(shares.parents ==
        std::map<std::string, std::string>{{"chemistry", "root"}, {"physics", "root"}, {"particle", "physics"}});
  CHECK(shares.factors.at({"chemistry", "ann"}) == 0.25);
  CHECK(shares.factors.at({"particle", "eve"}) == 0.625);  // the best of two partitions
  CHECK(shares.is_within("particle", "physics"));
  CHECK(shares.is_within("particle", "root"));
  CHECK(shares.is_within("physics", "physics"));
  CHECK(!shares.is_within("physics", "particle"));
  CHECK(!shares.is_within("chemistry", "physics"));
}

TEST_CASE("of what sshare prints under priority/basic, or of nonsense, no factor is taken") {
  CHECK(parse_fair_shares("root||\n root|root|0.000000\n a||\n  a|ann|0.000000\n").factors.empty());
  for (const char* text :
       {"", "\n", "|", "||", "root", "a|b", "a|b|", "a|b|x", "a|b|nan", "a|b|2", "a|b|-1", "          a||\n"})
    CHECK_MESSAGE(parse_fair_shares(text).factors.empty(), text);
  // A tree without an end.
  FairShares circle;
  circle.parents = {{"a", "b"}, {"b", "a"}};
  CHECK(!circle.is_within("a", "c"));
}

TEST_CASE("nodes that rules name are closed to the jobs that none of these rules admits") {
  const SlurmSnapshot slurm = three_nodes();
  ShareRules share;
  share.rules = {{"physics' own", "n[1-2]", {}, {"physics"}, {}, {}}, {"old ones", "", {"old"}, {}, {"low"}, {}}};
  CHECK(closed_to(of_account(10, "physics"), slurm, share) == Names{"n3"});
  CHECK(closed_to(of_account(10, "particle"), slurm, share) == Names{"n3"});  // an account below
  CHECK(closed_to(of_account(10, "chemistry"), slurm, share) == Names{"n1", "n2", "n3"});
  SlurmJob low = of_account(10, "chemistry");
  low.qos = "low";
  CHECK(closed_to(low, slurm, share) == Names{"n1", "n2"});
  share.rules.push_back({"all of main", "n2", {}, {}, {}, {"main"}});  // either of two rules is enough
  CHECK(closed_to(of_account(10, "chemistry"), slurm, share) == Names{"n1", "n3"});
  share.rules = {{"both", "n1", {}, {"chemistry"}, {"low"}, {}}};  // all that a rule asks for
  CHECK(closed_to(of_account(10, "chemistry"), slurm, share) == Names{"n1"});
  CHECK(closed_to(low, slurm, share) == Names{});
  // Jobs that a rule tells apart do not share a result.
  ExtensionRules rules;
  rules.share = share;
  ClosedNodes nodes(slurm, rules);
  CHECK(nodes.to(low) == nullptr);
  CHECK(nodes.to(of_account(11, "chemistry")) != nullptr);
}

TEST_CASE("without accounting a rule's accounts are compared by name") {
  SlurmSnapshot slurm = three_nodes();
  slurm.shares.reset();
  ShareRules share;
  share.rules = {{"a", "n1", {}, {"physics"}, {}, {}}};
  CHECK(closed_to(of_account(10, "physics"), slurm, share) == Names{});
  CHECK(closed_to(of_account(10, "particle"), slurm, share) == Names{"n1"});
}

TEST_CASE("a rule whose nodes are no list of nodes is refused") {
  ShareRules share;
  share.rules = {{"a", "n[1-", {}, {"physics"}, {}, {}}};
  CHECK_THROWS_WITH_AS(check_share_rules(share),
                       "share.rules: rule \"a\": nodes: \"n[1-\" is no list of nodes; write it as Slurm does, as in "
                       "\"n[1-4],gpu7\"",
                       Error);
  share.rules[0].nodes = "n[1-2]";
  check_share_rules(share);
}

TEST_CASE("an account's limit counts extensions of its jobs, those of accounts below, and what was promised") {
  SlurmSnapshot slurm = three_nodes();
  run_job(slurm, of_account(10, "physics", {"n1"}));
  run_job(slurm, of_account(11, "particle", {"n2"}));
  run_job(slurm, of_account(12, "chemistry", {"n3"}));
  extend(slurm, 20, 10, "n1", {2});
  extend(slurm, 21, 11, "n2", {2, 3});
  std::map<JobId, LiveJob> jobs;
  for (const auto& [id, on] : std::map<JobId, std::string>{{10, "n1"}, {11, "n2"}, {12, "n3"}})
    jobs[id] = live_job(id, on);
  ShareRules share;
  share.accounts = {{"physics", 5}, {"chemistry", 0}};
  const auto limit = [&](JobId id) {
    return AccountLimits(slurm, jobs, share, "elastic").of(*slurm.alive(id)).value_or(AccountLimit{"", -1, 0});
  };
  CHECK(limit(10).gpus == 5);
  CHECK(limit(10).lent == 3);
  CHECK(limit(11).account == "physics");
  CHECK(limit(11).left() == 2);
  CHECK(limit(12).left() == 0);
  // One GPU is promised on n3; once granted it counts once.
  jobs[10].open = DecisionRecord{};
  jobs[10].open->decision = growth(10, "n3", 1);
  jobs[10].before = {20};
  CHECK(limit(11).left() == 1);
  extend(slurm, 22, 10, "n3", {2});
  CHECK(limit(11).left() == 1);
  // account_gpus is for the jobs of one account by itself, and not for those with a limit of their own.
  share = {};
  share.account_gpus = 4;
  CHECK(limit(11).lent == 2);
  CHECK(limit(12).left() == 4);
  share.accounts = {{"particle", 2}};
  CHECK(limit(11).left() == 0);
  // The tightest of several.
  share.accounts = {{"physics", 7}, {"particle", 8}};
  CHECK(limit(11).account == "physics");
  share = {};
  CHECK(limit(11).gpus == -1);
}

TEST_CASE("decisions of one round keep their account's limit together") {
  SlurmSnapshot slurm = three_nodes();
  run_job(slurm, of_account(10, "physics", {"n1"}));
  run_job(slurm, of_account(11, "particle", {"n2"}));
  ShareRules share;
  share.accounts = {{"physics", 3}};
  AccountLimits limits(slurm, {}, share, "elastic");
  CHECK(limits.take(*slurm.alive(10), growth(10, "n3", 2)));
  CHECK(!limits.take(*slurm.alive(11), growth(11, "n3", 2)));
  CHECK(limits.take(*slurm.alive(11), growth(11, "n3", 1)));
  CHECK(!limits.take(*slurm.alive(10), growth(10, "n3", 1)));
  Decision shrink;
  shrink.kind = DecisionKind::shrink;
  CHECK(limits.take(*slurm.alive(10), shrink));
}

TEST_CASE("the scheduler's input holds the limit, the closed nodes and the fair share") {
  SlurmSnapshot slurm = three_nodes_and_a_grown_job();
  std::map<JobId, LiveJob> jobs;
  jobs[10] = live_job(10, "n1");
  jobs[10].job.extensions = {{20, "n1", {2}}};
  PlanningContext context{64, "elastic", nullptr};
  context.rules.share.accounts = {{"physics", 3}};
  context.rules.share.rules = {{"a", "n3", {}, {"chemistry"}, {}, {}}};
  auto input = make_input(slurm, jobs, Trigger::timer, context);
  REQUIRE(input.jobs.size() == 1);
  CHECK(input.jobs[0].max_gpus == 5);  // two of its own, one lent, two left
  CHECK(*input.closed.at(10) == Names{"n3"});
  CHECK(input.weights.at(10) == 0.75);
  context.rules.share.fair_share = false;
  CHECK(make_input(slurm, jobs, Trigger::timer, context).weights.empty());
  // Who has used far more than its share still counts for something.
  context.rules.share.fair_share = true;
  slurm.jobs.at(10).fair_share = 0;
  CHECK(make_input(slurm, jobs, Trigger::timer, context).weights.at(10) == 0.01);
}

TEST_CASE("[objective] weighs a job by the nearest account that has a weight, and by its QOS") {
  SlurmSnapshot slurm = three_nodes_and_a_grown_job();
  SlurmJob& anchor = slurm.jobs.at(10);
  anchor.account = "theory";
  anchor.qos = "high";
  anchor.fair_share = 0.5;
  auto shares = std::make_shared<FairShares>();
  shares->parents = {{"theory", "physics"}, {"physics", "root"}};
  slurm.shares = shares;
  Objective objective;
  CHECK(objective_weights(anchor, slurm, objective).empty());
  objective.account_weights = {{"root", 7}, {"physics", 2}, {"chemistry", 9}};
  objective.qos_weights = {{"high", 3}};
  const auto weights = objective_weights(anchor, slurm, objective);
  CHECK(weight_reason(weights) == "; account physics weighs 2; QOS high weighs 3");
  std::map<JobId, LiveJob> jobs;
  jobs[10] = live_job(10, "n1");
  PlanningContext context{64, "elastic", nullptr};
  context.objective = objective;
  CHECK(make_input(slurm, jobs, Trigger::timer, context).weights.at(10) == doctest::Approx(0.5 * 2 * 3));
  context.rules.share.fair_share = false;
  CHECK(make_input(slurm, jobs, Trigger::timer, context).weights.at(10) == doctest::Approx(6));
  objective.account_weights["theory"] = 0.1;
  CHECK(objective_weights(anchor, slurm, objective).front().of == "account theory");
  anchor.account.clear();
  anchor.qos.clear();
  CHECK(objective_weights(anchor, slurm, objective).empty());
}

TEST_CASE("explain names the rule and the limit, and a decision says by which rule it got its nodes") {
  SlurmSnapshot slurm = three_nodes_and_a_grown_job();
  std::map<JobId, LiveJob> jobs;
  jobs[10] = live_job(10, "n1");
  PlannerSettings settings;
  settings.partition = "elastic";
  ShareRules& share = settings.rules.share;
  share.accounts = {{"physics", 1}};
  share.rules = {{"chem", "n[2-3]", {}, {"chemistry"}, {"high"}, {}}, {"phys", "n1", {}, {"physics"}, {}, {}}};
  const auto obstacles = growth_obstacles(view_of(jobs[10]), jobs, &slurm, nullptr, settings, 1000);
  const auto has = [&](const std::string& text) {
    return std::find(obstacles.begin(), obstacles.end(), text) != obstacles.end();
  };
  CHECK(has("rule \"chem\" of [share] keeps n[2-3] for accounts chemistry and QOS high"));
  CHECK(has("the jobs of account physics have been lent 1 GPUs; [share] of espalier.toml allows 1"));
  const ShareNodes nodes(slurm, share);
  CHECK(share_reason(growth(10, "n1", 1), *slurm.alive(10), nodes, share) ==
        "; rule \"phys\" lends it n1; fair share 0.75");
  share.fair_share = false;
  CHECK(share_reason(growth(10, "n2", 1), *slurm.alive(10), nodes, share) == "");
  CHECK(describe_rule(share.rules[0]) == "n[2-3] for accounts chemistry and QOS high");
}
