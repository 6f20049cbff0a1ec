// Jobs that wait are measured stage by stage: what profile jobs ask and may report, and what becomes of it.
#include <doctest/doctest.h>

#include "planner/core/schedule/stages_to_profile.hpp"
#include "planner/daemon/answers.hpp"
#include "planner/daemon/foresight.hpp"
#include "planner/daemon/queue_profiles.hpp"
#include "planner/wire/stage_queries.hpp"
#include "tests/unit/queue_cases.hpp"
#include "tests/unit/stage_profiles.hpp"

using namespace espalier;
using namespace espalier::test;
using namespace espalier::queue_cases;

namespace {

const ModelShape kModel = [] {
  ModelShape shape{"gpt2", 8, 64, 8, 16, 500, 8, 4};
  shape.setting = {"train 1.0", "torch 2.11.0", "float32", "1f1b", false, false};
  return shape;
}();

struct Queue : Daemon {
  wire::Config config;
  std::unique_ptr<Answers> answers;
  explicit Queue(ProfilingRules rules = {}, bool shares = false) {
    slurm_state->change([](SlurmSnapshot& slurm) { slurm = queue(); });
    PlannerSettings settings;
    settings.partition = "elastic";
    settings.poll_seconds = 0.1;
    settings.scheduler.cooldown_seconds = 0;
    settings.profiling = rules;
    settings.max_gpus = 8;
    settings.share_profiles = shares;
    planner->configure(settings);
    answers = std::make_unique<Answers>(*planner, config);
    REQUIRE(until([&] { return planner->last_snapshot() && planner->last_snapshot()->alive(30) && planner->site(); }));
  }
  Json asks(const std::string& what, Json arguments = Json::object(), uid_t uid = 1000) {
    if (!arguments.contains("job")) arguments["job"] = 30;
    if (ReadAnswers::answers(what)) return test::ask(*this, config, {what, arguments}, uid);
    return answers->answer(wire::Query{what, arguments}, wire::Peer{uid, uid, "test"});
  }
  std::string refuses(const std::string& what, const Json& arguments = Json::object(), uid_t uid = 1000) {
    return refusal([&] { asks(what, arguments, uid); });
  }
  void profile_job_runs(JobId id = 31, const std::string& node = "n2", int gpu = 0, const std::string& type = "a100") {
    slurm_says([&](SlurmSnapshot& slurm) { run_job(slurm, profile_job(id, 1000, 30, type, {{id, node, {gpu}}})); });
  }
  static Json description() {
    wire::Description told;
    told.model = kModel;
    told.total_steps = 100;
    return wire::to_frame(told).body;
  }
  static Json of_job(JobId id = 31) { return {{"profile_job", id}, {"description", description()}, {"max", 6}}; }
  static Json measured(const Plan& plan, const Json& stages, double slower = 1) {
    Json list = Json::array();
    for (const Json& one : stages) {
      StageProfile stage = model_cases::stage_profile(plan, one.at("stage"), one.at("replica"));
      stage.shape = kModel;
      const double share =
          plan.stages[one.at("stage").get<std::size_t>()].replicas[one.at("replica").get<std::size_t>()].share;
      for (UnitProfile& unit : stage.units)
        for (double* ms : {&unit.forward, &unit.backward, &unit.weight_gradient}) *ms *= share * slower;
      list.push_back(stage_profile_json(stage));
    }
    return list;
  }
  // Reports all plans that the profile job is asked for. Returns the last reply.
  Json measures(JobId id, double slower) {
    Json last;
    const Json reply = asks("stage_plans", of_job(id));
    for (const Json& one : reply.at("plans")) {
      Json all = of_job(id);
      all["profiles"] = measured(one.at("plan").get<Plan>(), one.at("stages"), slower);
      last = asks("stage_report", all);
    }
    return last;
  }
};

}  // namespace

TEST_CASE("if a waiting job started, whoever holds its GPUs would have ended, and its profile jobs too") {
  SlurmSnapshot slurm = queue();
  run_job(slurm, profile_job(31, 1000, 30, "h100", {{31, "n1", {3}}}));
  const auto then = if_it_started(slurm, 30, "h100");
  REQUIRE(then);
  CHECK(then->own == std::vector<Holding>{{30, "n1", {0, 1, 2}}});
  CHECK(then->slurm.alive(30)->state == SlurmJobState::running);
  CHECK(then->slurm.alive(10) == nullptr);
  CHECK(then->slurm.alive(31) == nullptr);
  CHECK(then->slurm.cluster.find("n1")->gpu_owner == std::vector<JobId>{30, 30, 30, 0});
  CHECK(then->slurm.cluster.waiting.empty());
  CHECK_FALSE(if_it_started(slurm, 30, "a100"));  // it asks for n1
  CHECK_FALSE(if_it_started(slurm, 30, "v100"));
  CHECK_FALSE(if_it_started(slurm, 99, "h100"));
  slurm.cluster.waiting.front().only_nodes = {};
  CHECK(if_it_started(slurm, 30, "a100")->own == std::vector<Holding>{{30, "n2", {0, 1, 2}}});
  slurm.jobs[30].wanted_gpus = 6;
  CHECK_FALSE(if_it_started(slurm, 30, "a100"));
}

TEST_CASE("only the job's own user learns of it, and only while it waits") {
  Queue daemon;
  CHECK(daemon.asks("stage_wait") == Json{{"waits", true}});
  CHECK(daemon.asks("stage_wait", {}, 1001) == Json{{"waits", false}});
  CHECK(daemon.asks("stage_places", {}, 1001) == Json{{"again", true}});
  CHECK(daemon.asks("stage_places", {{"job", 77}}) == Json{{"again", true}});
  CHECK(daemon.asks("stage_places").at("places").size() == 2);
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs[30].state = SlurmJobState::running; });
  CHECK(daemon.asks("stage_wait") == Json{{"waits", false}});
  CHECK(daemon.refuses("stage_places") == "job 30: it does not wait any more");
  CHECK(daemon.refuses("stage_other") == "job 30: it does not wait any more");
}

TEST_CASE("profile jobs of one job and type are submitted a few times only") {
  Queue daemon({100, 100, 10});
  for (int i = 0; i < wire::kMostStageTries; ++i)
    CHECK(daemon.asks("stage_places", {{"type", "a100"}}).at("places").size() == 1);
  CHECK(daemon.refuses("stage_places", {{"type", "a100"}}).find("submitted 4 times") != std::string::npos);
  CHECK(daemon.asks("stage_places").at("places").size() == 1);  // h100
}

TEST_CASE("a job of more GPUs than any job may grow to gets no profile job: it could not start wider") {
  Queue daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs[30].wanted_gpus = 9; });
  CHECK(daemon.refuses("stage_places") ==
        "job 30: asks for 9 GPUs, and extensions.max_gpus allows 8 for a job: it could not start wider");
}

TEST_CASE("a job that asks Slurm for no GPUs, and a site that has switched it off, get no profile job") {
  Queue daemon(ProfilingRules{0, 0, 10});
  CHECK(daemon.refuses("stage_places").find("profiling.gpus or profiling.per_user is 0") != std::string::npos);
  Queue other;
  other.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs[30].wanted_gpus = 0; });
  CHECK(other.refuses("stage_places").find("asks Slurm for no GPUs") != std::string::npos);
}

TEST_CASE("only a profile job of the waiting job asks for plans, and it has one GPU") {
  Queue daemon;
  CHECK(daemon.asks("stage_plans", Queue::of_job(31)) == Json{{"again", true}});
  CHECK(daemon.refuses("stage_plans", Queue::of_job(10)) == "job 10: is no profile job of job 30");
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    run_job(slurm, profile_job(31, 1000, 30, "a100", {{31, "n2", {0, 1}}}));
    run_job(slurm, profile_job(32, 1007, 30, "a100", {{32, "n2", {2}}}));
    run_job(slurm, profile_job(33, 1000, 34, "a100", {{33, "n2", {3}}}));
  });
  CHECK(daemon.refuses("stage_plans", Queue::of_job(31)).find("has one GPU, this one has 2") != std::string::npos);
  CHECK(daemon.refuses("stage_plans", Queue::of_job(32)) == "job 32: is no profile job of job 30");
  CHECK(daemon.refuses("stage_plans", Queue::of_job(33)) == "job 33: is no profile job of job 30");
}

TEST_CASE("each wrong part of a question is named") {
  Queue daemon;
  daemon.profile_job_runs();
  const auto complaint = [&](const std::function<void(Json&)>& change) {
    Json question = Queue::of_job();
    change(question);
    return daemon.refuses("stage_plans", question);
  };
  CHECK(complaint([](Json&) {}) == "");
  CHECK(complaint([](Json& q) { q.erase("description"); }) == "query: description is missing");
  CHECK(complaint([](Json& q) { q["description"] = 3; }) != "");
  CHECK(complaint([](Json& q) { q["description"]["model"]["layers"] = 0; }) != "");
  CHECK(complaint([](Json& q) { q["description"]["model"]["layers"] = 1 << 30; }) != "");
  CHECK(complaint([](Json& q) { q["accuracy"] = "good"; }) != "");
  CHECK(complaint([](Json& q) { q["accuracy"] = 3; }) == "query: accuracy must be a text");
  CHECK(complaint([](Json& q) { q["max"] = -1; }) == "max: must be a number");
  CHECK(complaint([](Json& q) { q.erase("profile_job"); }) == "profile_job: must be a number");
}

TEST_CASE("what a profile job reports becomes its user's knowledge of the GPU type that it ran on") {
  Queue daemon;
  daemon.profile_job_runs();
  const Json asked = daemon.asks("stage_plans", Queue::of_job());
  CHECK(asked.at("type") == "a100");
  REQUIRE(asked.at("plans").size() >= 2);
  daemon.measures(31, 2);
  const auto rows = daemon.store.newest_knowledge(10);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].uid == 1000);
  CHECK(rows[0].gpus == "a100");
  REQUIRE(rows[0].profiled);
  CHECK(rows[0].profiled->job == 30);
  CHECK(rows[0].profiled->plans.size() == asked.at("plans").size());
  CHECK(rows[0].speed.count == static_cast<int>(asked.at("plans").size()));
  CHECK(rows[0].speed.mean == doctest::Approx(2 * model_cases::kBlock.forward).epsilon(0.3));
  CHECK(rows[0].profiled->foreseen.empty());  // it starts on h100, which nobody has measured
  CHECK(daemon.asks("stage_plans", Queue::of_job()).at("plans").empty());

  daemon.profile_job_runs(32, "n1", 2, "h100");
  const Json last = daemon.measures(32, 1);
  REQUIRE(last.at("foreseen").size() == 1);
  CHECK(last.at("foreseen")[0].get<std::string>().find("@h100") != std::string::npos);
  CHECK(daemon.store.newest_knowledge(10).size() == 2);
  const Json shown = daemon.asks("profiles").at("profiles");
  CHECK(shown[0].at("profiled").at("job") == 30);
  const auto profile = daemon.asks("profile", {{"profile", shown[0].at("id")}}).at("profile");
  CHECK(profile.at("profiled").at("foreseen").size() == 1);
}

TEST_CASE("no plan is asked for whose report would be refused as one too many") {
  Queue daemon;
  daemon.profile_job_runs();
  const auto offered = [&] { return daemon.asks("stage_plans", Queue::of_job()).at("plans"); };
  const auto report = [&](const Json& one) {
    Json all = Queue::of_job();
    all["profiles"] = Queue::measured(one.at("plan").get<Plan>(), one.at("stages"));
    daemon.asks("stage_report", all);
  };
  REQUIRE(offered().size() >= 2);
  report(offered()[0]);
  Knowledge row = daemon.store.newest_knowledge(10).at(0);
  row.profiled->plans.assign(7, "of an earlier job like it");
  daemon.store.save(row);
  REQUIRE(offered().size() == 1);
  report(offered()[0]);
  CHECK(offered().empty());
}

TEST_CASE("a report that came twice counts once") {
  Queue daemon;
  daemon.profile_job_runs();
  const Json one = daemon.asks("stage_plans", Queue::of_job()).at("plans")[0];
  Json all = Queue::of_job();
  all["profiles"] = Queue::measured(one.at("plan").get<Plan>(), one.at("stages"));
  daemon.asks("stage_report", all);
  daemon.asks("stage_report", all);
  CHECK(daemon.store.newest_knowledge(10).at(0).speed.count == 1);
}

TEST_CASE("a report of another model, of GPUs of another type, or with impossible figures is refused and not kept") {
  Queue daemon;
  daemon.profile_job_runs();
  const Json one = daemon.asks("stage_plans", Queue::of_job()).at("plans")[0];
  const auto complaint = [&](const std::function<void(Json&)>& change) {
    Json all = Queue::of_job();
    all["profiles"] = Queue::measured(one.at("plan").get<Plan>(), one.at("stages"));
    change(all["profiles"]);
    const std::string why = daemon.refuses("stage_report", all);
    CHECK(daemon.store.newest_knowledge(10).empty());
    return why;
  };
  CHECK(complaint([](Json& list) { list = Json::array(); }).starts_with("query: profiles must be a list"));
  CHECK(complaint([](Json& list) { list = 3; }).starts_with("query: profiles must be a list"));
  CHECK(complaint([](Json& list) {
          for (Json& profile : list) profile["shape"]["hidden"] = 128;
        }) == "profile: it is of another model than the job's");
  CHECK(complaint([](Json& list) { list[0]["units"][1]["forward_ms"] = -1; }) != "");
  CHECK(complaint([](Json& list) {
          for (Json& profile : list)
            for (Json& unit : profile["units"])
              for (const char* part : {"forward_ms", "backward_ms", "weight_gradient_ms"}) unit[part] = 0;
        }) != "");
  CHECK(complaint([](Json& list) {
          for (Json& profile : list)
            for (Json& stage : profile["plan"]["stages"])
              for (Json& replica : stage["replicas"])
                for (Json& gpu : replica["gpus"])
                  gpu = "n1/" + gpu.get<std::string>().substr(gpu.get<std::string>().find('/') + 1);
        }).find("is not of type a100") != std::string::npos);
}

TEST_CASE("a start's reason tells of the stages, and whether the plan is the foreseen one") {
  Queue daemon;
  const Site& site = *daemon.planner->site();
  const Plan plan = uniform_plan(2, 1, 8, 8, 4, {{"n1", 0}, {"n1", 1}});
  Knowledge row;
  row.uid = 1000;
  row.job = "{}";
  row.gpus = "h100";
  daemon.store.save(row);
  CHECK(told_by_stages(daemon.store, {row.id}, 30, plan, site) == "");
  row.profiled = StageProfiling{30, 3, 1.5, {"a plan"}, {plan_form(plan, site)}};
  daemon.store.save(row);
  CHECK(told_by_stages(daemon.store, {row.id}, 30, plan, site) ==
        "; 3 stages were profiled while it waited, and this is the plan that was foreseen");
  Plan other = plan;
  other.stages[0].layers = 5;
  other.stages[1].layers = 3;
  CHECK(told_by_stages(daemon.store, {row.id}, 30, other, site)
            .starts_with("; 3 stages were profiled while it waited; foreseen for other GPUs was: "));
  CHECK(told_by_stages(daemon.store, {row.id}, 31, plan, site) ==
        "; 3 stages were profiled while an earlier job like it waited");
}
