// What jobs teach the planner: for the next job like them, and for itself after a restart.
#include <doctest/doctest.h>

#include "planner/core/coefficients_json.hpp"
#include "planner/core/model/roofline.hpp"
#include "planner/daemon/answers.hpp"
#include "planner/daemon/kept_coefficients.hpp"
#include "planner/daemon/sqlite.hpp"
#include "tests/unit/daemon_cases.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

const ModelShape kTrained = [] {
  ModelShape shape = model_cases::kShape;
  shape.setting = {"train 1.0", "torch 2.11.0", "float32", "1f1b", false, false};
  return shape;
}();

Site site_of(const std::string& type = "h100") {
  return site_from_view(ClusterView{{node("n1", 4, "leaf1", type), node("n2", 4, "leaf1", type)}, {}}, {}).site;
}

JobCoefficients known_coefficients() {
  auto known = model_cases::known_job({});
  known.gpu.resize(1);
  return known;
}

// A job of kTrained on two GPUs of a node.
ElasticJob training(JobId id, const std::string& on = "n1") {
  auto result = job(id, on, {0, 1});
  result.model = kTrained;
  result.plan = uniform_plan(2, 1, 12, 16, 4, {{on, 0}, {on, 1}});
  return result;
}

Profile calm_profile(const ElasticJob& of, std::int64_t step, double slower = 1) {
  const Site site = site_of();
  Profile profile = model_cases::profile_of({site.hardware, site.topology}, known_coefficients(), *of.plan);
  profile.shape = kTrained;
  profile.steps = 8;
  profile.step = step;
  for (ReplicaProfile& one : profile.replicas) {
    one.spread = 0.01;
    for (double* time : {&one.fwd, &one.bwd, &one.comm_fwd}) *time *= slower;
  }
  return profile;
}

// The daemon's tests, with a second node's job 11 of another user or the same.
struct Learning : Daemon {
  void run_second(uid_t uid) {
    slurm_says([&](SlurmSnapshot& slurm) { run_job(slurm, slurm_job(11, uid, {{11, "n2", {0, 1}}})); });
  }
  std::shared_ptr<TestLink> registers(const ElasticJob& job, uid_t uid) {
    auto link = connect(uid);
    link->says(wire::Register{job, "n1", static_cast<int>(job.id)});
    REQUIRE(until([&] { return link->got<wire::Registered>().has_value(); }));
    return link;
  }
  std::shared_ptr<TestLink> teaches() {
    planner->hold(10, true);
    auto link = registers(training(10), 1000);
    auto told = training(10);
    told.profile = calm_profile(told, 9);
    link->says(wire::Status{told});
    return link;
  }
  const ProfileBook& book(JobId id) const { return planner->jobs().at(id).profiles; }
  std::optional<JobCoefficients> coefficients(JobId id) const { return book(id).coefficients(site_of()); }

  wire::Config config;
  Json asks(uid_t uid, const std::string& what, const Json& arguments = Json::object()) {
    return test::ask(*this, config, {what, arguments}, uid);
  }
};

}  // namespace

TEST_CASE("a mean of few values is exact, one of many follows the newest") {
  Estimate estimate;
  CHECK(estimate.spread() == 0);
  estimate.add(1);
  CHECK(estimate.spread() == 0);
  estimate.add(3);
  CHECK(estimate.count == 2);
  CHECK(estimate.mean == doctest::Approx(2));
  CHECK(estimate.spread() == doctest::Approx(0.5));
  for (int i = 0; i < 500; ++i) estimate.add(10);
  CHECK(estimate.mean == doctest::Approx(10));
  CHECK(estimate.spread() < 0.001);
}

TEST_CASE("jobs are alike when model, batch, accuracy and setting are; the user's micro-batches do not matter") {
  const ElasticJob one = training(10);
  const auto differs = [&](auto change) {
    ElasticJob other = training(11, "n2");
    change(other);
    return description(other) != description(one);
  };
  CHECK_FALSE(differs([](ElasticJob&) {}));
  CHECK_FALSE(differs([](ElasticJob& job) { job.model.micro_batches = 8; }));
  CHECK(differs([](ElasticJob& job) { job.model.hidden = 128; }));
  CHECK(differs([](ElasticJob& job) { job.model.global_batch = 32; }));
  CHECK(differs([](ElasticJob& job) { job.accuracy = Accuracy::relaxed; }));
  CHECK(differs([](ElasticJob& job) { job.model.setting->precision = "bfloat16"; }));
  CHECK(differs([](ElasticJob& job) { job.model.setting->runtime = "torch 2.12.0"; }));
  CHECK(differs([](ElasticJob& job) { job.model.setting->zero1 = true; }));
  CHECK(differs([](ElasticJob& job) { job.model.keeps_scores = true; }));
  CHECK(description(job(10, "n1", {0})).find("\"program\":\"\"") != std::string::npos);  // tells no setting
  ElasticJob unknown = one;
  unknown.model = {};
  CHECK(description(unknown).empty());
}

TEST_CASE("what two generations measured becomes a mean with a spread") {
  const Site site = site_of();
  Knowledge row;
  row.gpus = gpu_types(site, {{"n1", 0}, {"n2", 3}});
  CHECK(row.gpus == "h100");
  auto first = known_coefficients(), second = first;
  second.gpu[0].comp *= 1.2;
  learn(row, first, 0.01, site);
  CHECK(row.speed.count == 1);
  CHECK(row.doubt() == 0.01);
  CHECK(*stored_coefficients(row.coefficients, site.hardware) == first);
  learn(row, second, 0.02, site);
  CHECK(row.speed.count == 2);
  CHECK(row.doubt() == doctest::Approx(0.1 / 1.1));
  CHECK(recalled({row}, "h100", site)->gpu[0].comp == doctest::Approx(1.1 * first.gpu[0].comp));
  CHECK_FALSE(recalled({row}, "a100", site));
}

TEST_CASE("a type that has joined the cluster is scaled from one that was measured, and assumed") {
  const Json stored = coefficients_json(known_coefficients(), site_of().hardware);
  const Site mixed = site_from_view(ClusterView{{node("n1", 4), node("n2", 4, "leaf1", "a100")}, {}}, {}).site;
  const auto found = stored_coefficients(stored, mixed.hardware);
  REQUIRE(found);
  const auto h100 = static_cast<std::size_t>(mixed.hardware.type_index("h100"));
  const auto a100 = static_cast<std::size_t>(mixed.hardware.type_index("a100"));
  CHECK_FALSE(found->gpu[h100].assumed_comp);
  CHECK(found->gpu[a100].assumed_comp);
  CHECK(
      found->gpu[a100].comp / found->gpu[h100].comp ==
      doctest::Approx(times_as_fast(mixed.hardware.types[h100], mixed.hardware.types[a100], found->traffic_per_flop)));
  CHECK_FALSE(stored_coefficients(stored, site_of("v100").hardware));
  CHECK_FALSE(stored_coefficients(Json{{"gpu", {{"h100", 5}}}}, site_of().hardware));
  CHECK_FALSE(stored_coefficients(nullptr, site_of().hardware));
}

TEST_CASE("how fast links are is learnt from other kinds of jobs, where they measured it") {
  const Site site = site_of();
  const auto row_with = [&](std::optional<double> rail) {
    ElasticJob of = training(10);
    of.model.hidden *= 2;  // another kind of job
    of.model.setting->program = "other 1.0";
    Knowledge row;
    row.job = description(of);
    row.gpus = "h100";
    auto measured = known_coefficients();
    measured.assumed_rail = !rail;
    measured.rail_ms_per_byte = rail.value_or(0);
    learn(row, measured, 0.01, site);
    return row;
  };
  const std::string job = description(training(11));
  CHECK(usual_rail({}, job) == 0);
  CHECK(usual_rail({row_with({})}, job) == 0);
  // The lower of two figures counts, so that one job's trouble is not the next one's.
  CHECK(usual_rail({row_with(3e-5), row_with(1e-5), row_with(2e-5), row_with({})}, job) == 2e-5);
  CHECK(usual_rail({row_with(3e-5), row_with(1e-5)}, job) == 1e-5);
  CHECK(usual_rail({row_with(1e-5)}, row_with(1e-5).job) == 0);  // it recalls this row
  Knowledge broken = row_with(1e-5);
  broken.coefficients["rail_ms_per_byte"] = "fast";
  CHECK(usual_rail({broken}, job) == 0);
}

TEST_CASE("a second job like the first is planned with the first one's coefficients from its registration") {
  Learning daemon;
  const auto first = daemon.teaches();
  const auto taught = daemon.coefficients(10);
  REQUIRE(taught);
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  CHECK(daemon.book(11).recalled());
  CHECK(*daemon.coefficients(11) == *taught);
  const Json shown = daemon.asks(1000, "job", {{"job", 11}}).at("job");
  CHECK(shown.at("coefficients_settled") == true);
  CHECK(shown.at("coefficients_source").at("kind") == "profiles of earlier jobs");
  CHECK(shown.at("coefficients_source").at("profiles").size() == 1);
  CHECK(shown.at("coefficients_measured").at("computation.h100") == true);
  CHECK(shown.at("coefficients_measured").at("overlap.h100") == false);

  auto told = training(11, "n2");
  told.profile = calm_profile(told, 9, 1.5);
  second->says(wire::Status{told});
  CHECK_FALSE(daemon.book(11).recalled());
  CHECK(daemon.coefficients(11)->gpu[0].comp == doctest::Approx(1.5 * taught->gpu[0].comp));
  const auto rows = daemon.store.newest_knowledge(10);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].speed.count == 2);
  CHECK(rows[0].doubt() == doctest::Approx(0.2));
}

TEST_CASE("one user's jobs teach nothing about another user's, unless the site says so") {
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    Learning daemon;
    PlannerSettings settings = daemon.planner->settings();
    settings.share_profiles = shared;
    daemon.planner->configure(settings);
    const auto first = daemon.teaches();
    daemon.run_second(1001);
    daemon.planner->hold(11, true);
    const auto second = daemon.registers(training(11, "n2"), 1001);
    CHECK(daemon.coefficients(11).has_value() == shared);
  }
}

TEST_CASE("a job of another setting gets nothing") {
  Learning daemon;
  const auto first = daemon.teaches();
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  auto other = training(11, "n2");
  other.model.setting->precision = "bfloat16";
  const auto second = daemon.registers(other, 1000);
  CHECK_FALSE(daemon.coefficients(11));
}

TEST_CASE("a restarted planner plans a known job with the same coefficients, without a new profile") {
  Learning daemon;
  auto first = daemon.teaches();
  const auto before = daemon.coefficients(10);
  REQUIRE(before);
  daemon.start();
  auto known = training(10);
  known.profile = calm_profile(known, 9, 3);  // a launcher repeats its newest profile
  first = daemon.registers(known, 1000);
  CHECK(daemon.book(10).settled());
  CHECK_FALSE(daemon.book(10).recalled());
  CHECK(*daemon.coefficients(10) == *before);
  CHECK(daemon.store.newest_knowledge(10).at(0).speed.count == 1);
}

TEST_CASE("a restarted planner knows again how fast the links are by other jobs, and so does a recalled job") {
  Learning daemon;
  auto first = daemon.teaches();
  ElasticJob of = training(12);
  of.model.hidden *= 2;  // another kind of job
  Knowledge row;
  row.uid = 1000;
  row.job = description(of);
  row.gpus = "h100";
  auto measured = known_coefficients();
  measured.assumed_rail = false;
  measured.rail_ms_per_byte = 3e-5;
  learn(row, measured, 0.01, site_of());
  daemon.store.save(row);
  CHECK(daemon.coefficients(10)->rail_ms_per_byte == 0);
  daemon.start();
  auto known = training(10);
  known.profile = calm_profile(known, 9);
  first = daemon.registers(known, 1000);
  CHECK(daemon.coefficients(10)->rail_ms_per_byte == 3e-5);
  CHECK(daemon.coefficients(10)->assumed_rail);
  known.profile = calm_profile(known, 19);
  first->says(wire::Status{known});
  CHECK(daemon.coefficients(10)->rail_ms_per_byte == 3e-5);
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  REQUIRE(daemon.book(11).recalled());
  CHECK(daemon.coefficients(11)->rail_ms_per_byte == 3e-5);
  CHECK(daemon.coefficients(11)->assumed_rail);
}

TEST_CASE("the overlap counts as assumed once other bandwidths are configured, and assumed speeds follow the types") {
  const Site mixed = site_from_view(ClusterView{{node("n1", 4), node("n2", 4, "leaf1", "a100")}, {}}, {}).site;
  const auto h100 = static_cast<std::size_t>(mixed.hardware.type_index("h100"));
  const auto a100 = static_cast<std::size_t>(mixed.hardware.type_index("a100"));
  JobCoefficients job = known_coefficients();
  job.gpu.resize(2, job.gpu.front());
  job.gpu[h100].assumed_comp = job.gpu[h100].assumed_optim = job.gpu[h100].assumed_overlap = false;
  job.gpu[a100].assumed_comp = true;
  Knowledge row;
  row.gpus = "h100";
  learn(row, job, 0.01, mixed);
  CHECK_FALSE(stored_coefficients(row.coefficients, mixed.hardware)->gpu[h100].assumed_overlap);
  HardwareOverrides figures;
  figures.nic_gb_s = 5;
  figures.gpus["a100"].tflops = 100;
  const Site now = site_from_view(ClusterView{{node("n1", 4), node("n2", 4, "leaf1", "a100")}, {}}, {}, figures).site;
  const auto found = stored_coefficients(row.coefficients, now.hardware);
  REQUIRE(found);
  CHECK(found->gpu[h100].assumed_overlap);
  CHECK_FALSE(found->gpu[h100].assumed_comp);
  CHECK(found->gpu[h100].comp == job.gpu[h100].comp);
  CHECK(found->gpu[a100].comp ==
        doctest::Approx(job.gpu[h100].comp *
                        times_as_fast(now.hardware.types[h100], now.hardware.types[a100], job.traffic_per_flop)));
}

TEST_CASE("what jobs under another driver taught does not count") {
  const auto row = [](std::int64_t id, const std::string& driver, double updated) {
    Knowledge made;
    made.id = id;
    made.driver = driver;
    made.updated = updated;
    return made;
  };
  const auto kept = [&](const std::string& driver) {
    std::vector<Knowledge> rows{row(1, "550", 10), row(2, "535", 20), row(3, "", 5)};
    keep_one_driver(rows, driver);
    std::vector<std::int64_t> ids;
    for (const Knowledge& one : rows) ids.push_back(one.id);
    return ids;
  };
  CHECK(kept("550") == std::vector<std::int64_t>{1, 3});
  CHECK(kept("") == std::vector<std::int64_t>{2, 3});  // the newest one's

  Learning daemon;
  daemon.planner->hold(10, true);
  const auto first = daemon.registers(training(10), 1000);
  auto told = training(10);
  told.profile = calm_profile(told, 9);
  told.profile->driver = "535";
  first->says(wire::Status{told});
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  REQUIRE(daemon.book(11).recalled());
  told = training(11, "n2");
  told.profile = calm_profile(told, 9);
  told.profile->driver = "550";
  for (ReplicaProfile& one : told.profile->replicas) one.spread = 0.5;  // none of its own counts yet
  second->says(wire::Status{told});
  CHECK_FALSE(daemon.book(11).recalled());
  CHECK_FALSE(daemon.coefficients(11));
}

TEST_CASE("coefficients of an earlier job with the same id are not restored") {
  Learning daemon;
  auto first = daemon.teaches();
  daemon.start();
  auto other = training(10);
  other.model.hidden = 128;
  first = daemon.registers(other, 1000);
  CHECK_FALSE(daemon.coefficients(10));
}

TEST_CASE("pauses and starts are learnt too, recoveries are not") {
  Learning daemon;
  const auto link = daemon.teaches();
  wire::Outcome own;
  own.job = 10;
  own.kind = DecisionKind::shrink;
  own.result = "committed";
  own.pause_ms = 250;
  own.phases_ms = {{"start", 1500}};
  own.plan = *training(10).plan;
  link->says(own);
  own.kind = DecisionKind::recover;
  own.pause_ms = 9000;
  link->says(own);
  const auto row = daemon.store.newest_knowledge(10).at(0);
  CHECK(row.pause.count == 1);
  CHECK(row.pause.mean == doctest::Approx(0.25));
  CHECK(row.start.mean == doctest::Approx(1.5));
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  CHECK(*daemon.planner->jobs().at(11).pause_seconds == doctest::Approx(0.25));
  CHECK(*daemon.planner->jobs().at(11).start_seconds == doctest::Approx(1.5));
}

TEST_CASE("the owner and administrators make the planner forget, nobody else does") {
  Learning daemon;
  const auto first = daemon.teaches();
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  const auto second = daemon.registers(training(11, "n2"), 1000);
  const Json shown = daemon.asks(1001, "profiles").at("profiles");
  REQUIRE(shown.size() == 1);
  const Json id = shown[0].at("id");
  CHECK(shown[0].at("measurements") == 1);
  CHECK(shown[0].at("job").at("program") == "train 1.0");
  CHECK_FALSE(shown[0].contains("coefficients"));
  CHECK(daemon.asks(1001, "profile", {{"profile", id}}).at("profile").at("coefficients").is_object());
  CHECK_THROWS_WITH_AS(daemon.asks(1001, "forget", {{"profile", id}}),
                       doctest::Contains("only its owner, root and SlurmUser may forget it"), Error);
  CHECK(daemon.asks(1001, "forget", {{"all", true}}).at("forgotten").empty());
  CHECK(daemon.asks(1000, "forget", {{"profile", id}}).at("forgotten").size() == 1);
  CHECK_FALSE(daemon.coefficients(11));  // it relied on what is forgotten
  CHECK(daemon.coefficients(10));        // it has measured that itself
  CHECK_THROWS_AS(daemon.asks(1000, "forget", {{"profile", id}}), Error);
  CHECK_THROWS_AS(daemon.asks(1000, "profile", {{"profile", id}}), Error);
}

TEST_CASE("forgetting reaches a job that has measured a part of its own, and after a restart too") {
  for (const bool restarted : {false, true}) {
    CAPTURE(restarted);
    Learning daemon;
    auto first = daemon.teaches();
    auto row = daemon.store.newest_knowledge(10).at(0);
    row.coefficients["gpu"]["h100"]["overlap"] = 7.0;
    row.coefficients["gpu"]["h100"]["assumed_overlap"] = false;
    daemon.store.save(row);
    daemon.run_second(1000);
    daemon.planner->hold(11, true);
    auto second = daemon.registers(training(11, "n2"), 1000);
    auto told = training(11, "n2");
    told.profile = calm_profile(told, 9);
    second->says(wire::Status{told});
    REQUIRE_FALSE(daemon.book(11).recalled());
    CHECK_FALSE(daemon.coefficients(11)->gpu[0].assumed_overlap);  // as the first job had it
    if (restarted) {
      daemon.start();
      second = daemon.registers(training(11, "n2"), 1000);
      REQUIRE(daemon.coefficients(11));
      CHECK_FALSE(daemon.coefficients(11)->gpu[0].assumed_overlap);
    }
    const auto comp = daemon.coefficients(11)->gpu[0].comp;
    daemon.asks(1000, "forget", {{"profile", row.id}});
    REQUIRE(daemon.coefficients(11));
    CHECK(daemon.coefficients(11)->gpu[0].comp == doctest::Approx(comp));
    CHECK(daemon.coefficients(11)->gpu[0].assumed_overlap);
  }
}

// Its record was emptied first, and the new one was not written where the user's launchers had written much.
TEST_CASE("forgetting keeps a job's own figures, however much its launcher has had written") {
  Learning daemon;
  auto first = daemon.teaches();
  const auto row = daemon.store.newest_knowledge(10).at(0);
  daemon.run_second(1000);
  daemon.planner->hold(11, true);
  auto second = daemon.registers(training(11, "n2"), 1000);
  auto told = training(11, "n2");
  told.profile = calm_profile(told, 9);
  second->says(wire::Status{told});
  REQUIRE_FALSE(daemon.book(11).recalled());
  REQUIRE_FALSE(daemon.planner->jobs().at(11).recalled_rows.empty());
  told.profile.reset();
  bool written = true;  // a new generation is, until the user's launchers have had too much written
  for (int i = 1; i < 100000 && written; ++i) {
    const double before = daemon.planner->jobs().at(11).saved;
    told.generation = i;
    daemon.planner->status(11, told);
    written = daemon.planner->jobs().at(11).saved != before;
  }
  REQUIRE_FALSE(written);
  // A long record, as soon as one may be written again, overdraws what the user may have written for a while.
  wire::Outcome act;
  act.job = 11;
  act.kind = DecisionKind::recover;
  act.result = "committed";
  act.plan = *told.plan;
  act.candidates.assign(16, {std::string(1000, 'x'), 2, 1, 0, std::string(1000, 'x')});
  for (int i = 0; i < 20; ++i) {
    daemon.planner->outcome(act);
    daemon.pass(1);
  }
  daemon.planner->forget(row.id);
  REQUIRE(daemon.coefficients(11));
  const auto kept = daemon.store.coefficients(11);
  REQUIRE(kept);
  CHECK(kept->value("rows", std::vector<std::int64_t>{1}).empty());
  daemon.start();
  second = daemon.registers(training(11, "n2"), 1000);
  CHECK(daemon.coefficients(11));
}

TEST_CASE("a user forgets all rows of his own at once, and nobody else's are read") {
  Learning daemon;
  const auto first = daemon.teaches();
  Knowledge others = daemon.store.newest_knowledge(10).at(0);
  others.uid = 1001;
  daemon.store.save(others);
  // To read what this one tells throws.
  Database(daemon.folder.file("test.db")).execute("UPDATE knowledge SET record='no JSON' WHERE uid=1001");
  CHECK(daemon.asks(1000, "forget", {{"all", true}}).at("forgotten").size() == 1);
  CHECK(daemon.store.knowledge_ids(std::nullopt, 10) == std::vector<std::int64_t>{others.id});
}

TEST_CASE("an administrator forgets everything at once") {
  Learning daemon;
  const auto first = daemon.teaches();
  CHECK(daemon.asks(64030, "forget", {{"all", true}}).at("forgotten").size() == 1);
  CHECK(daemon.store.newest_knowledge(10).empty());
}
