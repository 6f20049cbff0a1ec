#include "tests/torchrt/director.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

#include "planner/core/profile_check.hpp"
#include "planner/wire/capabilities.hpp"
#include "planner/wire/links_field.hpp"
#include "planner/wire/progress_field.hpp"

namespace espalier::test {

using namespace wire;

namespace {

constexpr std::int64_t kEpilogue = 20;
constexpr int kLimit = 240;

}  // namespace

Director::Director(const Json& script, std::string summary, std::vector<std::string> command)
    : summary_path_(std::move(summary)), command_(std::move(command)) {
  for (const Json& act : script.value("acts", Json::array())) acts_.push_back(act_of(act));
  if (script.value("accuracy", "bitwise") == "relaxed") accuracy_ = Accuracy::relaxed;

  listener_ = listen_tcp(loop_, {{Service::worker}, 0, token_, ::getuid()}, "127.0.0.1", 0,
                         [this](ConnectionPtr connection) { greet(std::move(connection)); });
  start(current_, 0, script.at("first").get<Plan>());
}

int Director::run() {
  const char* const seconds = std::getenv("STAGE_DIRECTOR_SECONDS");
  const Watch limit = loop_.after(std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : kLimit),
                                  [this] { fail("the play takes too long"); });
  const Watch children = loop_.on_signal(SIGCHLD, [this] { reap(); });
  loop_.run();
  current_.kill();
  next_.kill();
  summary_["heard"] = heard_.size();
  summary_["progressed"] = progressed_;
  std::ofstream(summary_path_) << summary_.dump(2) << "\n";
  if (!failure_.empty()) std::fprintf(stderr, "stage_director: %s\n", failure_.c_str());
  return failure_.empty() ? 0 : 1;
}

void Director::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  loop_.stop();
}

void Director::start(Generation& generation, int number, const Plan& plan) {
  generation = Generation();
  generation.number = number;
  generation.plan = plan;
  started_ = Clock::now();
  for (const GpuId& gpu : plan.ranks()) {
    gpus_.take(gpu.node);
    if (std::unique_ptr<launcher::Vault>& vault = vaults_[gpu.node]; !vault)
      vault = std::make_unique<launcher::Vault>(launcher::vault_name(vault_base(), gpu.node));
  }
  generation.jobs = gpus_.jobs();
  const std::string why =
      generation.launch(command_, {{"ESPALIER_LAUNCHER", "127.0.0.1:" + std::to_string(listener_->port())},
                                   {"ESPALIER_TOKEN", token_},
                                   {"ESPALIER_VAULT", vault_base()}});
  if (!why.empty()) fail(why);
}

void Director::reap() {
  for (int status = 0;;) {
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    if (pid == current_.mpirun) {
      current_.mpirun = -1;
      if (recovering_) continue;
      if (dying()) {
        recovering_ = true;
        lost_at_ = Clock::now();
        recover();
        continue;
      }
      if (finished_ && status == 0) return loop_.stop();
      fail("the running generation ended with status " + std::to_string(status));
    } else if (pid == next_.mpirun) {
      next_.mpirun = -1;
      fail("the next generation ended with status " + std::to_string(status));
    } else if (const bool well = WIFEXITED(status) && WEXITSTATUS(status) <= 1;  // 1: left early
               left_.erase(pid) != 0 && !well) {
      fail("a replaced generation ended with status " + std::to_string(status));
    }
  }
}

void Director::greet(ConnectionPtr connection) {
  const std::weak_ptr<Connection> weak = connection;
  waiting_.push_back(connection);
  connection->on_frame = [this, weak](const Frame& frame) {
    const ConnectionPtr self = weak.lock();
    if (!self || frame.type != Hello::type) return fail("the first message is " + frame.type);
    const Hello hello = read_hello(frame).hello;
    Generation& generation = hello.generation == current_.number ? current_ : next_;
    if (hello.generation != generation.number) return fail("a foreign hello");
    generation.ranks[hello.rank] = self;
    generation.processes[hello.rank] = hello.pid;
    generation.model = hello.model;
    const int number = generation.number, rank = hello.rank;
    self->on_frame = [this, number, rank](const Frame& next) {
      try {
        hear(number, rank, next);
        // Otherwise only the rank's connection would end, and the play would wait.
      } catch (const std::exception& problem) {
        fail(problem.what());
      }
    };
    self->on_closed = [](const std::string&) {};
    std::erase(waiting_, self);
    Assign assign;
    assign.device = gpus_.place(generation.plan.ranks().at(static_cast<std::size_t>(hello.rank)));
    assign.jobs = generation.jobs;
    assign.plan = generation.plan;
    assign.accuracy = accuracy_;
    if (&generation == &next_ && !acts_[next_act_].restart)
      assign.source = Assign::Source{current_.number, current_.plan, recovering_, acts_[next_act_].early, earlier_};
    self->send(assign);
  };
  connection->on_closed = [](const std::string&) {};
}

double Director::milliseconds_since(Clock::time_point start) const {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void Director::hear(int number, int rank, const Frame& frame) {
  const bool is_next = number == next_.number;
  if (!is_next && number != current_.number) return;
  Generation& generation = is_next ? next_ : current_;
  if (frame.type == Heartbeat::type) heard_.insert({number, rank});
  if (frame.type == Heartbeat::type && tells_progress(frame)) progressed_.insert(told_step_);
  if (recovering_ && !is_next) return;
  if (frame.type == Failed::type && is_next && acts_[next_act_].abort == "fails")
    return failed(from_frame<Failed>(frame));
  // The others hear of it before the ranks' end does.
  if (frame.type == Failed::type && !is_next && dying() && from_frame<Failed>(frame).peer) return;
  if (frame.type == Failed::type)
    return fail("rank " + std::to_string(rank) + ": " + from_frame<Failed>(frame).message);
  if (frame.type == Ready::type)
    gpus_.heard(generation.plan.ranks().at(static_cast<std::size_t>(rank)), from_frame<Ready>(frame));
  if (frame.type == Ready::type && generation.all_said(frame.type)) is_next ? on_next_ready() : commit_first();
  if (frame.type == Profiled::type) on_profile(generation, rank, frame);
  if (frame.type == Step::type) on_step(from_frame<Step>(frame));
  if (frame.type == Standing::type) {
    boundary_ = from_frame<Standing>(frame).step;
    if (awaiting_ && !leaving_ && ++standing_ == generation.size()) on_standing();
  }
  if (frame.type == Switched::type) {
    const Switched switched = from_frame<Switched>(frame);
    if (!switched.problem.empty() && (leaving_ || !expects_to_stay()))
      return fail("rank " + std::to_string(rank) + ": " + switched.problem);
    if (!switched.problem.empty()) problems_.push_back(switched.problem);
    boundary_ = switched.step;
    if (--generation.unanswered == 0 && awaiting_) leaving_ ? leave() : on_switched();
  }
  if (frame.type == Loaded::type) {
    generation.take(from_frame<Loaded>(frame));
    if (generation.all_said(frame.type)) on_loaded();
  }
  if (frame.type == Done::type && generation.all_said(frame.type)) finished_ = true;
}

void Director::commit_first() {
  summary_["first_ready_ms"] = milliseconds_since(started_);
  summary_["first_listening"] = current_.listening(token_);
  current_.tell(Commit{});
}

void Director::on_step(const Step& step) {
  keep(step.settled);
  stepped_ = Clock::now();
  told_step_ = step.step;
  if (next_act_ < acts_.size()) {
    const Act& act = acts_[next_act_];
    if (next_.mpirun >= 0 || awaiting_ || step.step < act.after) return;
    if (act.dies) return;
    if (act.recovers()) lose();
    else if (act.restart) switch_over(last_number_ + 1);
    else if (act.in_place) switch_over(current_.number);
    else start(next_, ++last_number_, act.plan);
  } else if (!acts_.empty() && step.step >= boundary_ + kEpilogue && !leaving_) {
    leaving_ = true;
    ask_to_switch(current_.plan, current_.number);
  }
}

// Checks profiles as the launcher does.
void Director::on_profile(const Generation& generation, int rank, const Frame& frame) {
  const Profile profile = from_frame<Profiled>(frame).profile;
  const LinkLook links = links_of(frame);
  if (rank != 0) return fail("rank " + std::to_string(rank) + " sends a profile");
  if (const std::string why = unfit(profile, generation.plan, generation.model); !why.empty()) return fail(why);
  if (const std::string why = unfit(links, generation.plan); !why.empty()) return fail(why);
  summary_["profiles"].push_back({{"generation", generation.number}, {"profile", profile}, {"links", json_of(links)}});
}

}  // namespace espalier::test
