// What a profile job runs on its GPU.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>
#include <utility>

#include "launcher/process/description.hpp"
#include "launcher/profile/profile_job.hpp"
#include "launcher/profile/stage_run.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/stage_queries.hpp"

namespace espalier::launcher {
namespace {

constexpr wire::Loop::Milliseconds kDescribe{60'000}, kLook{1000}, kAgain{1000};
constexpr int kLooksPerQuestion = 5;  // of the looks at this job, one asks espalierd, too
constexpr int kTries = 60;            // until Slurm has told espalierd of this job
constexpr int kTriesToComeBack = 5;
constexpr int kComeBack = 5;        // seconds; before Slurm may start the next one: those it gave way to come first
constexpr int kLostQuestions = 30;  // in a row, before it gives up

class ProfileRun {
 public:
  explicit ProfileRun(const ProfileRequest& request)
      : request_(request), config_(wire::load_config()), site_(load_site(config_.extension_qos)) {
    const char* id = std::getenv("SLURM_JOB_ID");
    if (id == nullptr) throw Error("profile: --inside is for profile jobs; leave it out");
    own_ = static_cast<JobId>(std::strtoul(id, nullptr, 10));
  }

  int run() {
    must_profile_stages(request_.program);
    terminated_ = loop_.on_signal(SIGTERM, [this] { come_back(); });
    look_ = loop_.every(kLook, [this] { look(); });
    description_ = std::make_unique<ProgramDescription>(
        loop_, request_.program, clean_environment({}), kDescribe, [this](std::optional<wire::Description> told) {
          loop_.defer([this, told = std::move(told)] { described(told); });
        });
    loop_.run();
    stage_.reset();
    description_.reset();
    return code_;
  }

 private:
  struct Stage {
    int stage = 0, replica = 0;
  };
  struct OnePlan {
    Json plan;
    std::vector<Stage> stages;
  };

  void end(int code, const std::string& why) {
    std::fprintf(stderr, "espalier: profile: job %u: %s\n", request_.job, why.c_str());
    code_ = code;
    loop_.stop();
  }

  Json ask(const std::string& what, Json arguments) {
    return ask_planner(config_, site_.planner_uids, what, arguments);
  }
  Json arguments() const {
    Json all = arguments_of(request_);
    all["profile_job"] = own_;
    all["description"] = told_;
    return all;
  }

  // Slurm signals the steps of a job that it preempts, but not its batch script, which this process is.
  void look() {
    try {
      if (const auto own = load_job(own_); own && own->preempted) return come_back();
      if (looks_++ % kLooksPerQuestion != 0) return;
      if (!ask("stage_wait", {{"job", request_.job}}).at("waits").get<bool>())
        return end(0, "it waits no longer; its profile job ends");
      lost_ = 0;
    } catch (const std::exception& error) {
      if (++lost_ >= kLostQuestions) end(1, error.what());
    }
  }

  void described(const std::optional<wire::Description>& told) {
    description_.reset();
    if (!told) return end(1, "the program does not tell with --describe what it trains");
    told_ = wire::to_frame(*told).body;
    ask_plans();
  }

  void ask_plans() {
    try {
      const Json reply = ask("stage_plans", arguments());
      if (reply.value("again", false)) {
        if (++tries_ >= kTries) return end(1, "Slurm does not tell espalierd of this profile job");
        again_ = loop_.after(kAgain, [this] { ask_plans(); });
        return;
      }
      type_ = reply.at("type").get<std::string>();
      if (reply.at("known").get<bool>()) return end(0, "such jobs have been measured on " + type_ + " already");
      for (const Json& one : reply.at("plans")) {
        OnePlan plan{one.at("plan"), {}};
        for (const Json& stage : one.at("stages"))
          plan.stages.push_back({stage.at("stage").get<int>(), stage.at("replica").get<int>()});
        plans_.push_back(std::move(plan));
      }
      if (plans_.empty()) return end(0, "there is nothing left to measure on " + type_);
      begin_plan();
    } catch (const std::exception& error) {
      end(1, error.what());
    }
  }

  void begin_plan() {
    measured_ = Json::array();
    next_stage();
  }

  void next_stage() {
    const OnePlan& plan = plans_.front();
    if (measured_.size() == plan.stages.size()) return report();
    const Stage& stage = plan.stages[measured_.size()];
    try {
      std::fprintf(stderr, "espalier: profile: job %u: measuring stage %d of a plan of %zu stages on %s\n",
                   request_.job, stage.stage, plan.plan.at("stages").size(), type_.c_str());
      stage_ = std::make_unique<StageRun>(loop_, request_.program, plan.plan.dump(), stage.stage, stage.replica,
                                          [this](std::optional<Json> profile) {
                                            loop_.defer([this, profile = std::move(profile)] { took(profile); });
                                          });
    } catch (const Error& error) {
      end(1, error.what());
    }
  }

  void took(const std::optional<Json>& profile) {
    stage_.reset();
    if (leaving_) return;
    if (!profile) return end(1, "this stage cannot be profiled");
    measured_.push_back(*profile);
    next_stage();
  }

  void report() {
    try {
      Json all = arguments();
      all["profiles"] = measured_;
      const Json reply = ask("stage_report", std::move(all));
      if (reply.value("again", false)) {  // espalierd has just started
        if (++tries_ >= kTries) return end(1, "espalierd does not take the report");
        again_ = loop_.after(kAgain, [this] { report(); });
        return;
      }
      tries_ = 0;
      if (reply.contains("foreseen"))
        for (const Json& one : reply["foreseen"])
          std::fprintf(stderr, "espalier: profile: job %u: foreseen for its start: %s\n", request_.job,
                       one.get<std::string>().c_str());
    } catch (const std::exception& error) {
      return end(1, error.what());
    }
    plans_.pop_front();
    if (plans_.empty()) return end(0, "measured on " + type_);
    begin_plan();
  }

  // Slurm takes the GPU for another job, or somebody has cancelled this one.
  void come_back() {
    if (std::exchange(leaving_, true)) return;
    stage_.reset();
    description_.reset();
    try {
      const auto own = load_job(own_);
      if (own && !own->preempted) return end(1, "its profile job was told to end");
      const std::string type = own ? wire::profiled_type(own->comment) : type_;
      Json reply;
      for (int i = 0; i < kTriesToComeBack; ++i) {  // espalierd may have just started
        reply = ask("stage_places", {{"job", request_.job}, {"profile_job", own_}, {"type", type}});
        if (!reply.value("again", false)) break;
        std::this_thread::sleep_for(kAgain);
      }
      if (reply.value("again", false) || reply.at("places").empty())
        return end(0, "its profile job gives way and does not come back");
      const JobId next = submit_profile_job(config_, request_, reply.at("places").front(), kComeBack);
      end(0, "its profile job gives way; profile job " + std::to_string(next) + " takes its place");
    } catch (const std::exception& error) {
      end(0, std::string("its profile job gives way and does not come back: ") + error.what());
    }
  }

  const ProfileRequest request_;
  const wire::Config config_;
  const SlurmSite site_;
  JobId own_ = 0;
  wire::Loop loop_;
  Json told_, measured_ = Json::array();
  std::string type_;
  std::deque<OnePlan> plans_;
  std::unique_ptr<ProgramDescription> description_;
  std::unique_ptr<StageRun> stage_;
  wire::Watch terminated_, look_, again_;
  int tries_ = 0, lost_ = 0, looks_ = 0, code_ = 1;
  bool leaving_ = false;
};

}  // namespace

int run_profile_job(const ProfileRequest& request) { return ProfileRun(request).run(); }

}  // namespace espalier::launcher
