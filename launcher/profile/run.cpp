// What a profile job runs on its GPU.
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "launcher/process/description.hpp"
#include "launcher/profile/profile_questions.hpp"
#include "launcher/profile/stage_run.hpp"
#include "launcher/profile/stages_to_measure.hpp"
#include "launcher/profile/wait_watch.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/stage_queries.hpp"

namespace espalier::launcher {
namespace {

constexpr wire::Loop::Milliseconds kDescribe{60'000}, kAgain{1000};
constexpr int kTries = 60;  // until Slurm has told espalierd of this job
constexpr int kTriesToComeBack = 5;
constexpr int kComeBack = 5;  // seconds; before Slurm may start the next one: those it gave way to come first

class ProfileRun {
 public:
  explicit ProfileRun(const ProfileRequest& request) : questions_(request) {}

  int run() {
    must_profile_stages(questions_.request().program);
    terminated_ = loop_.on_signal(SIGTERM, [this] { come_back(); });
    watch_.emplace(
        loop_, questions_,
        WaitWatch::Callbacks{[this] { come_back(); }, [this](int code, const std::string& why) { end(code, why); }});
    description_ =
        std::make_unique<ProgramDescription>(loop_, questions_.request().program, clean_environment({}), kDescribe,
                                             [this](std::optional<wire::Description> told) {
                                               loop_.defer([this, told = std::move(told)] { described(told); });
                                             });
    loop_.run();
    stage_.reset();
    description_.reset();
    return code_;
  }

 private:
  void end(int code, const std::string& why) {
    std::fprintf(stderr, "espalier: profile: job %u: %s\n", questions_.request().job, why.c_str());
    code_ = code;
    loop_.stop();
  }

  void described(const std::optional<wire::Description>& told) {
    description_.reset();
    if (!told) return end(1, "the program does not tell with --describe what it trains");
    questions_.described(*told);
    ask_plans();
  }

  void ask_plans() {
    try {
      const Json reply = questions_.plans();
      if (reply.value("again", false)) {
        if (++tries_ >= kTries) return end(1, "Slurm does not tell espalierd of this profile job");
        again_ = loop_.after(kAgain, [this] { ask_plans(); });
        return;
      }
      type_ = reply.at("type").get<std::string>();
      if (reply.at("known").get<bool>()) return end(0, "such jobs have been measured on " + type_ + " already");
      stages_.take(reply.at("plans"));
      if (stages_.empty()) return end(0, "there is nothing left to measure on " + type_);
      next_stage();
    } catch (const std::exception& error) {
      end(1, error.what());
    }
  }

  void next_stage() {
    if (stages_.all_measured()) return report();
    const StagesToMeasure::Stage& stage = stages_.next();
    const ProfileRequest& request = questions_.request();
    try {
      std::fprintf(stderr, "espalier: profile: job %u: measuring stage %d of a plan of %zu stages on %s\n", request.job,
                   stage.stage, stages_.plan().at("stages").size(), type_.c_str());
      stage_ = std::make_unique<StageRun>(loop_, request.program, stages_.plan().dump(), stage.stage, stage.replica,
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
    stages_.measured(*profile);
    next_stage();
  }

  void report() {
    try {
      const Json reply = questions_.report(stages_.profiles());
      if (reply.value("again", false)) {  // espalierd has just started
        if (++tries_ >= kTries) return end(1, "espalierd does not take the report");
        again_ = loop_.after(kAgain, [this] { report(); });
        return;
      }
      tries_ = 0;
      if (reply.contains("foreseen"))
        for (const Json& one : reply["foreseen"])
          std::fprintf(stderr, "espalier: profile: job %u: foreseen for its start: %s\n", questions_.request().job,
                       one.get<std::string>().c_str());
    } catch (const std::exception& error) {
      return end(1, error.what());
    }
    stages_.next_plan();
    if (stages_.empty()) return end(0, "measured on " + type_);
    next_stage();
  }

  // Slurm takes the GPU for another job, or somebody has cancelled this one.
  void come_back() {
    if (std::exchange(leaving_, true)) return;
    stage_.reset();
    description_.reset();
    try {
      const auto own = load_job(questions_.own());
      if (own && !own->preempted) return end(1, "its profile job was told to end");
      const std::string type = own ? wire::profiled_type(own->comment) : type_;
      Json reply;
      for (int i = 0; i < kTriesToComeBack; ++i) {  // espalierd may have just started
        reply = questions_.places(type);
        if (!reply.value("again", false)) break;
        std::this_thread::sleep_for(kAgain);
      }
      if (reply.value("again", false) || reply.at("places").empty())
        return end(0, "its profile job gives way and does not come back");
      const JobId next = questions_.submit_next(reply.at("places").front(), kComeBack);
      end(0, "its profile job gives way; profile job " + std::to_string(next) + " takes its place");
    } catch (const std::exception& error) {
      end(0, std::string("its profile job gives way and does not come back: ") + error.what());
    }
  }

  ProfileQuestions questions_;
  wire::Loop loop_;
  StagesToMeasure stages_;
  std::string type_;  // of this job's GPU
  std::unique_ptr<ProgramDescription> description_;
  std::unique_ptr<StageRun> stage_;
  std::optional<WaitWatch> watch_;
  wire::Watch terminated_, again_;
  int tries_ = 0, code_ = 1;
  bool leaving_ = false;
};

}  // namespace

int run_profile_job(const ProfileRequest& request) { return ProfileRun(request).run(); }

}  // namespace espalier::launcher
