// What `espalier show job --json` prints is what `espalier simulate` and `espalier schedule` read.
#include <doctest/doctest.h>

#include <fstream>

#include "planner/cli/schedule_job.hpp"
#include "planner/cli/simulate_model_table.hpp"
#include "tests/unit/daemon_cases.hpp"
#include "tests/unit/model_profiles.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;

TEST_CASE("a measured job's record, as it is shown, is a kind of jobs for simulate and a pipeline for schedule") {
  test::Daemon daemon;
  const ClusterView cluster{{test::node("n1", 4), test::node("n2", 4)}, {}, {}};
  const auto site = std::make_shared<const Site>(site_from_view(cluster, {}).site);
  auto known = model_cases::known_job({});
  known.gpu.resize(1);
  ElasticJob job = test::job(10, "n1", {0, 1});
  job.model = model_cases::kShape;
  job.model.micro_batches = 4;
  job.plan = uniform_plan(2, 1, 12, 16, 4, {{"n1", 0}, {"n1", 1}});
  daemon.planner->hold(10, true);
  const auto link = daemon.connect(1000);
  link->says(wire::Register{job, "n1", 1});
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  Profile profile = model_cases::profile_of({site->hardware, site->topology}, known, *job.plan);
  profile.shape = job.model;
  profile.steps = 8;
  profile.step = 9;
  for (ReplicaProfile& one : profile.replicas) one.spread = 0.01;
  job.profile = profile;
  link->says(wire::Status{job});
  const auto measured = daemon.planner->jobs().at(10).profiles.coefficients(*site);
  REQUIRE(measured);

  const Json shown = test::ask(daemon, {}, {"job", {{"job", 10}}}, 1000);
  const plan_files::Folder folder;
  const std::string file = folder.write("job.json", shown.dump());
  std::vector<std::string> notes;
  const auto kinds = cli::read_model_table(
      folder.write("jobs.toml", "[[jobs]]\nmodel = \"mine\"\nmeasured = \"job.json\"\n"), *site, cluster, notes);
  REQUIRE(kinds.size() == 1);
  CHECK(kinds[0].coefficients == *measured);
  CHECK(kinds[0].shape.layers == job.model.layers);
  CHECK(kinds[0].pp == 2);

  cli::ScheduleArguments arguments;
  arguments.profile = file;
  CHECK(cli::take_job(arguments).find(file + ": 2 stages, 4 micro-batches") == 0);
  CHECK(arguments.ranks == 2);
  CHECK(arguments.micro_batches == 4);
  CHECK(arguments.forward.size() == 2);
}
