// From profiles of a running job to plans made with them.
#include <doctest/doctest.h>

#include <array>

#include "planner/core/json.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "tests/unit/daemon_cases.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

using News = ProfileBook::News;

// The two nodes of the daemon's tests, and a job of model_cases::kShape on two GPUs of the first.
struct Measured {
  Site site = site_from_view(ClusterView{{node("n1", 4), node("n2", 4)}, {}, {}}, {}).site;
  Plan plan = uniform_plan(2, 1, 12, 16, 4, {{"n1", 0}, {"n1", 1}});
  JobCoefficients known = [] {
    auto result = model_cases::known_job({});
    result.gpu.resize(1);
    return result;
  }();

  // The profile number `count`. Its times are off by `noise`, up and down.
  Profile profile(int count, double noise) const {
    Profile result = model_cases::profile_of({site.hardware, site.topology}, known, plan);
    const double factor = count % 2 == 0 ? 1 + noise : 1 - noise;
    for (ReplicaProfile& one : result.replicas) one.fwd *= factor, one.bwd *= factor, one.comm_fwd *= factor;
    result.step = 10 * count;
    return result;
  }

  ElasticJob reporting(std::optional<Profile> profile) const {
    auto result = job(10, "n1", {0, 1});
    result.model = model_cases::kShape;
    result.plan = plan;
    result.profile = std::move(profile);
    return result;
  }

  // One that tells its statistics.
  Profile told(int count, double spread, int steps = 8) const {
    Profile result = profile(count, 0);
    result.steps = steps;
    for (ReplicaProfile& one : result.replicas) one.spread = spread;
    return result;
  }

  // The planner's prediction for job 10 after the job has reported `profiles`.
  double predicted(const std::vector<Profile>& profiles) const {
    Daemon daemon;
    daemon.planner->hold(10, true);
    const auto link = daemon.connect(1000);
    link->says(wire::Register{reporting({}), "n1", 1});
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    for (const Profile& one : profiles) link->says(wire::Status{reporting(one)});
    CHECK_FALSE(link->closed);
    CHECK_FALSE(daemon.planner->jobs().at(10).job.profile);  // used, but not stored with the job
    daemon.planner->hold(10, false);
    REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
    return link->got<wire::Propose>()->decision.predicted_step_seconds;
  }

  std::vector<Profile> profiles(int count, double noise) const {
    std::vector<Profile> result;
    for (int i = 1; i <= count; ++i) result.push_back(profile(i, noise));
    return result;
  }
};

}  // namespace

TEST_CASE("one profile that is calm by its own statistics makes a job's coefficients known") {
  const Measured job;
  ProfileBook book;
  CHECK(book.add(job.site, job.told(1, 0.03), 0) == News::taken);
  CHECK(book.add(job.site, job.told(2, 0.01, 3), 0) == News::taken);  // too few steps
  CHECK_FALSE(book.coefficients(job.site));
  CHECK(book.add(job.site, job.told(3, 0.01, 4), 0) == News::ready);
  CHECK(book.settled());
  CHECK(book.spread() == 0.01);
  CHECK(book.steps() == 4);
  CHECK(book.coefficients(job.site)->gpu[0].comp == doctest::Approx(job.known.gpu[0].comp).epsilon(0.01));
  CHECK(book.add(job.site, job.told(4, 0.01), 0) == News::taken);
  CHECK(book.add(job.site, job.told(5, 0.5), 0) == News::taken);  // a disturbance
  CHECK(book.spread() == 0.01);
  CHECK(book.add(job.site, job.told(6, 0.01), 1) == News::ready);  // of the next generation
}

TEST_CASE("eight profiles that say that they are not calm, and agree, count together") {
  const Measured job;
  ProfileBook book;
  for (int i = 1; i <= 7; ++i) CHECK(book.add(job.site, job.told(i, 0.03, 16), 0) == News::taken);
  CHECK_FALSE(book.coefficients(job.site));
  CHECK(book.latest(job.site));
  CHECK(book.add(job.site, job.told(8, 0.03, 16), 0) == News::ready);
  CHECK(book.coefficients(job.site)->gpu[0].comp == doctest::Approx(job.known.gpu[0].comp).epsilon(0.01));
  CHECK(book.spread() == 0.03);
}

TEST_CASE("recalled coefficients count until the job has its own, and are forgotten without a trace") {
  const Measured job;
  ProfileBook book;
  JobCoefficients earlier = job.known;
  earlier.gpu[0].comp *= 2;
  book.recall(job.site, earlier);
  CHECK(book.recalled());
  CHECK_FALSE(book.settled());
  CHECK(book.coefficients(job.site)->gpu[0].comp == earlier.gpu[0].comp);
  CHECK(book.add(job.site, job.told(1, 0.5), 0) == News::taken);
  CHECK(book.coefficients(job.site)->gpu[0].comp == earlier.gpu[0].comp);
  CHECK(book.add(job.site, job.told(2, 0), 0) == News::ready);
  CHECK_FALSE(book.recalled());
  CHECK(book.coefficients(job.site)->gpu[0].comp == doctest::Approx(job.known.gpu[0].comp));
  // Without replicas it shows no overlap: the earlier job's stays.
  CHECK(book.coefficients(job.site)->gpu[0].overlap == job.known.gpu[0].overlap);
  book.forget_recalled();
  CHECK(book.coefficients(job.site));
  ProfileBook other;
  other.recall(job.site, earlier);
  other.forget_recalled();
  CHECK_FALSE(other.coefficients(job.site));
}

TEST_CASE("links that the job has not seen are taken to be as other jobs measured them") {
  const Measured job;
  ProfileBook book;
  book.expect_rail(2e-5);
  CHECK(book.add(job.site, job.told(1, 0), 0) == News::ready);
  CHECK(book.coefficients(job.site)->rail_ms_per_byte == 2e-5);
  CHECK(book.coefficients(job.site)->assumed_rail);
  ProfileBook alone;
  CHECK(alone.add(job.site, job.told(1, 0), 0) == News::ready);
  CHECK(alone.coefficients(job.site)->rail_ms_per_byte == 0);
  CHECK(alone.coefficients(job.site)->assumed_rail);
}

TEST_CASE("restored coefficients are the job's own, and the profile that they came from is no news") {
  const Measured job;
  ProfileBook book;
  book.restore(job.site, job.known, 3, 20, 0.01);
  CHECK(book.settled());
  CHECK(*book.coefficients(job.site) == job.known);
  CHECK(book.add(job.site, job.told(2, 0.5), 3) == News::none);
  CHECK(*book.coefficients(job.site) == job.known);
  CHECK(book.add(job.site, job.told(3, 0.5), 3) == News::taken);
  CHECK(*book.coefficients(job.site) == job.known);
  CHECK(book.add(job.site, job.told(5, 0.01), 3) == News::taken);  // the generation was measured before
  CHECK(book.add(job.site, job.told(4, 0.01), 4) == News::ready);
}

TEST_CASE("eight calm profiles make a job's coefficients known") {
  const Measured job;
  ProfileBook book;
  for (int i = 1; i < 8; ++i) CHECK(book.add(job.site, job.profile(i, 0.002), 0) == News::taken);
  CHECK_FALSE(book.coefficients(job.site));
  CHECK(book.add(job.site, job.profile(8, 0.002), 0) == News::ready);
  const auto found = book.coefficients(job.site);
  REQUIRE(found);
  CHECK(found->gpu[0].comp == doctest::Approx(job.known.gpu[0].comp).epsilon(0.01));
  CHECK(found->gpu[0].backward == doctest::Approx(job.known.gpu[0].backward).epsilon(0.01));
  CHECK(found->tp_degrees == std::vector<int>{1, 2, 4, 8});  // what divides the 8 heads
  CHECK(book.add(job.site, job.profile(9, 0.002), 0) == News::taken);
}

TEST_CASE("profiles that differ by more than the window allows do not") {
  const Measured job;
  ProfileBook book;
  for (int i = 1; i <= 30; ++i) CHECK(book.add(job.site, job.profile(i, 0.05), 0) == News::taken);
  CHECK_FALSE(book.coefficients(job.site));
}

TEST_CASE("a synchronization of which now all, now nothing is hidden is no obstacle while it is short") {
  const auto settles = [](double gradients) {
    Measured job;
    job.plan = uniform_plan(1, 2, 12, 16, 4, {{"n1", 0}, {"n1", 1}});
    job.known.param_bytes *= gradients;
    ProfileBook book;
    std::array<double, 2> ms{};
    for (int i = 1; i <= 8; ++i) {
      job.known.gpu[0].overlap = i % 2 == 0 ? 1 : 64;
      ms[i % 2] = evaluate_plan(job.site.hardware, job.site.topology, job.known, job.plan).exact_ms;
      book.add(job.site, job.profile(i, 0), 0);
    }
    return std::pair(book.settled(), ms[0] / ms[1] - 1);
  };
  const auto [short_one, little] = settles(30);
  CHECK(little > 0.01);
  CHECK(little < 0.02);
  CHECK(short_one);
  const auto [long_one, much] = settles(60);
  CHECK(much > 0.02);
  CHECK_FALSE(long_one);
}

TEST_CASE("a profile that is told twice counts once") {
  const Measured job;
  ProfileBook book;
  CHECK(book.add(job.site, job.profile(1, 0), 0) == News::taken);
  for (int i = 0; i < 10; ++i) CHECK(book.add(job.site, job.profile(1, 0), 0) == News::none);
  CHECK_FALSE(book.coefficients(job.site));
}

TEST_CASE("another generation fills a window of its own, and what was known stays known") {
  const Measured job;
  ProfileBook book;
  for (int i = 1; i <= 4; ++i) book.add(job.site, job.profile(i, 0), 0);
  for (int i = 5; i <= 11; ++i) CHECK(book.add(job.site, job.profile(i, 0), 1) == News::taken);
  CHECK(book.add(job.site, job.profile(12, 0), 1) == News::ready);
  CHECK(book.add(job.site, job.profile(13, 0), 2) == News::taken);
  CHECK(book.coefficients(job.site));
}

TEST_CASE("another plan of the same generation fills a window of its own") {
  Measured job;
  ProfileBook book;
  for (int i = 1; i <= 4; ++i) book.add(job.site, job.profile(i, 0), 0);
  job.plan = uniform_plan(2, 1, 12, 16, 8, {{"n1", 0}, {"n1", 1}});
  for (int i = 5; i <= 11; ++i) CHECK(book.add(job.site, job.profile(i, 0), 0) == News::taken);
  CHECK(book.add(job.site, job.profile(12, 0), 0) == News::ready);
}

TEST_CASE("coefficients are of the hardware on which they were measured") {
  const Measured job;
  ProfileBook book;
  for (int i = 1; i <= 8; ++i) book.add(job.site, job.profile(i, 0), 0);
  const Site other = site_from_view(ClusterView{{node("n1", 4), node("n2", 4, "leaf1", "a100")}, {}, {}}, {}).site;
  CHECK_FALSE(book.coefficients(other));
  CHECK(book.add(other, job.profile(9, 0), 0) == News::taken);
  CHECK_FALSE(book.coefficients(job.site));
}

TEST_CASE("a profile that cannot be used says why, and harms nothing") {
  const Measured job;
  ProfileBook book;
  Profile wrong = job.profile(1, 0);
  wrong.plan.stages[1].replicas[0].gpus[0].node = "n9";
  CHECK(book.add(job.site, wrong, 0) == News::unusable);
  CHECK(book.trouble().find("its node is unknown") != std::string::npos);
  wrong = job.profile(2, 0);
  for (ReplicaProfile& one : wrong.replicas) one.bwd = one.fwd = 1e308, one.comm_fwd = 0;
  CHECK(book.add(job.site, wrong, 0) == News::unusable);
  for (int i = 3; i <= 10; ++i) book.add(job.site, job.profile(i, 0), 0);
  CHECK(book.coefficients(job.site));
}

TEST_CASE("a job that reports eight calm profiles is planned with them, one that does not is planned without") {
  const Measured job;
  const double assumed = job.predicted({});
  CHECK(job.predicted(job.profiles(7, 0.002)) == assumed);
  CHECK(job.predicted(job.profiles(20, 0.05)) == assumed);
  const double measured = job.predicted(job.profiles(8, 0.002));
  CHECK(std::abs(measured / assumed - 1) > 0.001);
}

TEST_CASE("a job that reports one profile that is calm is planned with it") {
  const Measured job;
  const double assumed = job.predicted({});
  CHECK(job.predicted({job.told(1, 0.1)}) == assumed);
  CHECK(std::abs(job.predicted({job.told(1, 0.1), job.told(2, 0.01)}) / assumed - 1) > 0.001);
}

TEST_CASE("profiles of another plan than the one that runs are not taken") {
  const Measured job;
  auto profiles = job.profiles(8, 0.002);
  const double assumed = job.predicted({});
  for (Profile& one : profiles) one.plan.stages[1].replicas[0].gpus[0].index = 2;
  CHECK(job.predicted(profiles) == assumed);
}

TEST_CASE("profiles that no job of this kind can have measured are refused, and the launcher stays") {
  const Measured job;
  auto profiles = job.profiles(8, 0.002);
  const double assumed = job.predicted({});
  for (Profile& one : profiles) one.replicas.push_back(one.replicas[0]);
  CHECK(job.predicted(profiles) == assumed);
  profiles = job.profiles(8, 0.002);
  for (Profile& one : profiles) one.shape.hidden *= 2;
  CHECK(job.predicted(profiles) == assumed);
}

TEST_CASE("a profile goes both ways through JSON, strictly") {
  const Measured job;
  auto profile = job.profile(3, 0);
  profile.replicas[0].sync = 0;
  const auto sent = job.reporting(profile);
  Json json = sent;
  CHECK(Json(Json::parse(json.dump()).get<ElasticJob>()) == json);
  CHECK(Json::parse(json.dump()).get<ElasticJob>().profile->replicas[0].sync == 0.0);
  CHECK(Json::parse(json.dump()).get<ElasticJob>().profile->step == 30);
  const auto refuses = [&](auto change) {
    Json broken = json;
    change(broken["profile"]);
    CHECK_THROWS_AS(broken.get<ElasticJob>(), Error);
  };
  refuses([](Json& p) { p["more"] = 1; });
  refuses([](Json& p) { p.erase("zero1"); });
  refuses([](Json& p) { p["replicas"][0].erase("fwd"); });
  refuses([](Json& p) { p["replicas"][0]["fwd"] = nullptr; });
  refuses([](Json& p) { p["replicas"][0]["bwd"] = -1; });
  refuses([](Json& p) { p["replicas"] = 5; });
  refuses([](Json& p) { p["steps"] = "many"; });
  refuses([](Json& p) { p["replicas"][0]["spread"] = -0.1; });
  const Json old = json["profile"];  // as programs without statistics send it
  CHECK_FALSE(old.contains("steps"));
  CHECK_FALSE(old["replicas"][0].contains("spread"));
  profile = job.told(3, 0.01);
  profile.driver = "570.86.15";
  profile.shape.setting = {"espalier-train 0.1.0", "torch 2.11.0", "bfloat16", "1f1b", true, false};
  profile.shape.key_value_heads = 4;
  const Profile back = Json::parse(Json(profile).dump()).get<Profile>();
  CHECK(back.steps == 8);
  CHECK(back.driver == "570.86.15");
  CHECK(back.replicas[0].spread == 0.01);
  CHECK(back.shape == profile.shape);
  json["profile"] = nullptr;
  CHECK_FALSE(json.get<ElasticJob>().profile);
  json.erase("profile");
  CHECK_FALSE(json.get<ElasticJob>().profile);
}
