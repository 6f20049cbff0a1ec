// Plays the launcher in tests of the training runtime. The workers, mpirun and the wire protocol
// are real. A script says what happens when.
//   stage_director SCRIPT.json SUMMARY.json -- espalier-train ARGUMENTS
// SCRIPT: play_script.hpp.
// The play ends at a boundary, kEpilogue steps after the last act. A fixed number of steps would
// not do, because the number of steps during a generation's start depends on the machine. A play
// without acts ends with the training. A play fails when it takes longer than
// STAGE_DIRECTOR_SECONDS (an environment variable; default 240 s). STAGE_DIRECTOR_GPUS: how many GPUs a node has; ranks
// are then told which one is theirs, and nodes are called a, b, ... in their order.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "launcher/node/vault.hpp"
#include "planner/core/profile_check.hpp"
#include "planner/wire/capabilities.hpp"
#include "planner/wire/handshake.hpp"
#include "planner/wire/links_field.hpp"
#include "planner/wire/packet_socket.hpp"
#include "planner/wire/progress_field.hpp"
#include "planner/wire/server.hpp"
#include "planner/wire/switch_lists.hpp"
#include "tests/torchrt/director_gpus.hpp"
#include "tests/torchrt/play_script.hpp"
#include "tests/torchrt/process_marks.hpp"
#include "torchrt/handoff/state_address.hpp"
#include "torchrt/recovery/vault_client.hpp"

namespace {

using namespace espalier;
using namespace espalier::test;
using namespace espalier::wire;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kEpilogue = 20;
constexpr int kLimit = 240;

struct Generation {
  int number = -1;
  pid_t mpirun = -1;
  Plan plan;
  GpuJobs jobs;
  ModelShape model;
  std::map<int, ConnectionPtr> ranks;
  std::map<int, pid_t> processes;   // by rank
  std::map<std::string, int> seen;  // how many ranks sent this message
  // Answers to `switch` that are still to come. Answers to a cancelled `switch` arrive late.
  std::size_t unanswered = 0;
  std::int64_t adopted = 0, copied = 0, sent = 0, sent_early = 0;
  std::map<std::string, double> phases_ms;                 // of the load: each phase's longest
  std::set<std::pair<std::int64_t, std::string>> origins;  // steps and sources of the loaded state
  std::size_t size() const { return static_cast<std::size_t>(plan.gpu_count()); }
};

class Director {
 public:
  Director(const Json& script, std::string summary, std::vector<std::string> command)
      : summary_path_(std::move(summary)), command_(std::move(command)) {
    for (const Json& act : script.value("acts", Json::array())) acts_.push_back(act_of(act));
    if (script.value("accuracy", "bitwise") == "relaxed") accuracy_ = Accuracy::relaxed;

    listener_ = listen_tcp(loop_, {{Service::worker}, 0, token_, ::getuid()}, "127.0.0.1", 0,
                           [this](ConnectionPtr connection) { greet(std::move(connection)); });
    start(current_, 0, script.at("first").get<Plan>());
  }

  int run() {
    const char* const seconds = std::getenv("STAGE_DIRECTOR_SECONDS");
    const Watch limit = loop_.after(std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : kLimit),
                                    [this] { fail("the play takes too long"); });
    const Watch children = loop_.on_signal(SIGCHLD, [this] { reap(); });
    loop_.run();
    kill_generation(current_);
    kill_generation(next_);
    summary_["heard"] = heard_.size();
    summary_["progressed"] = progressed_;
    std::ofstream(summary_path_) << summary_.dump(2) << "\n";
    if (!failure_.empty()) std::fprintf(stderr, "stage_director: %s\n", failure_.c_str());
    return failure_.empty() ? 0 : 1;
  }

 private:
  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
    loop_.stop();
  }

  void start(Generation& generation, int number, const Plan& plan) {
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
    // Each mpirun has a folder of its own: an mpirun that ends removes a shared folder while the
    // next one makes it.
    std::string own = (std::filesystem::temp_directory_path() / "generation-XXXXXX").string();
    if (::mkdtemp(own.data()) == nullptr) return fail(own + ": cannot be made");
    generation.mpirun = ::fork();
    if (generation.mpirun != 0) return;
    ::setenv("OMPI_MCA_orte_tmpdir_base", own.c_str(), 1);
    ::setenv("OMPI_MCA_btl_vader_backing_directory", own.c_str(), 1);
    ::setenv("ESPALIER_LAUNCHER", ("127.0.0.1:" + std::to_string(listener_->port())).c_str(), 1);
    ::setenv("ESPALIER_TOKEN", token_.c_str(), 1);
    ::setenv("ESPALIER_VAULT", vault_base().c_str(), 1);
    ::setenv("ESPALIER_HEARTBEAT", "0.1", 1);
    ::setenv("ESPALIER_GENERATION", std::to_string(number).c_str(), 1);
    std::vector<std::string> arguments = {
        "mpirun", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(plan.gpu_count())};
    arguments.insert(arguments.end(), command_.begin(), command_.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execvp("mpirun", pointers.data());
    ::_exit(127);
  }

  std::string vault_base() const { return "espalier-vault-" + token_.substr(0, 8); }

  static void kill_generation(Generation& generation) {
    if (generation.mpirun > 0) ::kill(generation.mpirun, SIGKILL);
    generation.mpirun = -1;
    for (auto& [rank, connection] : generation.ranks) connection->close();
    generation.ranks.clear();
  }

  void reap() {
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

  void greet(ConnectionPtr connection) {
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

  template <class Message>
  static void tell(Generation& generation, const Message& message) {
    for (auto& [rank, connection] : generation.ranks) connection->send(message);
  }

  // True when all ranks of the generation have sent `what`.
  static bool all_said(Generation& generation, const std::string& what) {
    return static_cast<std::size_t>(++generation.seen[what]) == generation.size();
  }

  double milliseconds_since(Clock::time_point start) const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  void hear(int number, int rank, const Frame& frame) {
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
    if (frame.type == Ready::type && all_said(generation, frame.type)) is_next ? on_next_ready() : commit_first();
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
      const Loaded loaded = from_frame<Loaded>(frame);
      generation.adopted += loaded.bytes_adopted;
      generation.copied += loaded.bytes_copied;
      generation.sent += loaded.bytes_sent;
      generation.sent_early += loaded.bytes_sent_early;
      for (const auto& [phase, ms] : loaded.phases_ms)
        generation.phases_ms[phase] = std::max(generation.phases_ms[phase], ms);
      generation.origins.insert({loaded.step, loaded.from});
      if (all_said(generation, frame.type)) on_loaded();
    }
    if (frame.type == Done::type && all_said(generation, frame.type)) finished_ = true;
  }

  void commit_first() {
    summary_["first_ready_ms"] = milliseconds_since(started_);
    summary_["first_listening"] = listening(current_);
    tell(current_, Commit{});
  }

  // How many ranks of a generation accept requests for their state now.
  int listening(const Generation& generation) const {
    std::set<std::string> names;
    for (const auto& [rank, process] : generation.processes)
      names.insert("@" + torchrt::state_address(token_, generation.number, rank));
    std::ifstream sockets("/proc/net/unix");
    int count = 0;
    for (std::string line; std::getline(sockets, line);) {
      std::istringstream fields(line);
      std::string slot, references, protocol, flags, type, state, inode, name;
      fields >> slot >> references >> protocol >> flags >> type >> state >> inode >> name;
      if (flags == "00010000" && names.count(name) != 0) ++count;  // __SO_ACCEPTCON
    }
    return count;
  }

  void on_step(const Step& step) {
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

  void lose() {
    const Act& act = acts_[next_act_];
    recovering_ = true;
    if (act.at_ms >= 0) {
      recovery_ = loop_.after(std::chrono::milliseconds(act.at_ms), [this] { strike(); });
      return;
    }
    if (!catch_moment(act)) return fail("the moment of the loss never comes");
    strike();
  }

  void strike() {
    const Act& act = acts_[next_act_];
    lost_at_ = Clock::now();
    for (const int rank : act.kill) ::kill(current_.processes.at(rank), SIGKILL);
    const std::vector<GpuId> gpus = current_.plan.ranks();
    for (const std::string& node : act.lose) {
      for (std::size_t rank = 0; rank < gpus.size(); ++rank)
        if (gpus[rank].node == node) ::kill(current_.processes.at(static_cast<int>(rank)), SIGKILL);
      vaults_.erase(node);
      gpus_.lose(node);
    }
    // The other ranks go on as far as they can without the lost ones.
    for (const auto& [rank, process] : current_.processes)
      if (!std::count(act.stop.begin(), act.stop.end(), rank)) ::kill(process, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    recover();
  }

  // Stops all ranks. With "torn" the first rank to be killed is then changing a unit's state.
  // Otherwise all ranks stand at one step.
  bool catch_moment(const Act& act) {
    std::map<int, ProcessMarks> marks;
    for (const auto& [rank, process] : current_.processes)
      marks.emplace(rank, ProcessMarks(process, current_.model.layers + 2));
    for (int look = 0; look < 20; ++look) {
      for (auto& [rank, seen] : marks) seen.look();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    for (const auto until = Clock::now() + std::chrono::seconds(30); Clock::now() < until;) {
      if (act.torn && !marks.at(act.kill.front()).look().count(-1)) continue;
      for (const auto& [rank, process] : current_.processes) ::kill(process, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::set<std::int64_t> steps;
      for (auto& [rank, seen] : marks) steps.merge(seen.look());
      if (act.torn ? marks.at(act.kill.front()).look().count(-1) != 0 : steps.size() == 1 && *steps.begin() >= 0)
        return true;
      for (const auto& [rank, process] : current_.processes) ::kill(process, SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(act.torn ? 0 : 7));
    }
    return false;
  }

  void recover() {
    if (acts_[next_act_].stop.empty()) kill_generation(current_);
    silent_.reset();
    if (acts_[next_act_].silent) silent_ = listen_packets(vault_base() + "-silent");  // nobody accepts there
    start(next_, ++last_number_, acts_[next_act_].plan);
  }

  // How many states of units the vaults hold that the lost generation trained on.
  int state_left() const {
    int count = 0;
    for (const auto& [node, vault] : vaults_)
      for (const VaultItem& item :
           torchrt::take_inventory(launcher::vault_name(vault_base(), node), current_.number, next_.number))
        if (item.slot == kVaultState) ++count;
    return count;
  }

  // Checks profiles as the launcher does.
  void on_profile(const Generation& generation, int rank, const Frame& frame) {
    const Profile profile = from_frame<Profiled>(frame).profile;
    const LinkLook links = links_of(frame);
    if (rank != 0) return fail("rank " + std::to_string(rank) + " sends a profile");
    if (const std::string why = unfit(profile, generation.plan, generation.model); !why.empty()) return fail(why);
    if (const std::string why = unfit(links, generation.plan); !why.empty()) return fail(why);
    summary_["profiles"].push_back(
        {{"generation", generation.number}, {"profile", profile}, {"links", json_of(links)}});
  }

  void ask_to_switch(const Plan& plan, int generation, const std::string& lists = "") {
    current_.unanswered += current_.size();
    awaiting_ = true;
    standing_ = 0;
    giving_ = false;
    const GpuJobs jobs = generation == next_.number ? next_.jobs : gpus_.jobs();
    tell(current_, with_lists(to_frame(Switch{plan, generation, jobs}), lists));
  }

  void leave() {
    finished_ = true;
    tell(current_, Exit{});
  }

  void on_next_ready() {
    ready_ms_ = milliseconds_since(started_);
    if (recovering_ && acts_[next_act_].abort == "ready") return try_again();
    if (recovering_) return tell(next_, Load{-1});
    if (acts_[next_act_].restart) return on_loaded();
    if (acts_[next_act_].abort == "ready") return give_up(false);
    late_ = loop_.after(std::chrono::milliseconds(acts_[next_act_].late_ms), [this] { switch_over(next_.number); });
  }

  void switch_over(int generation) {
    switch_sent_ = Clock::now();
    if (acts_[next_act_].abort == "starved") starve(true);
    ask_to_switch(acts_[next_act_].plan, generation, acts_[next_act_].lists);
    if (acts_[next_act_].abort == "switch") give_up(true);  // before any rank can answer
  }

  // At the boundary the old ranks report why they cannot give their state.
  bool expects_to_stay() const {
    return acts_[next_act_].abort == "starved" || acts_[next_act_].abort == "stays" || acts_[next_act_].in_place;
  }

  void starve(bool begin) {
    for (const auto& [rank, process] : current_.processes) {
      rlimit files{};
      ::prlimit(process, RLIMIT_NOFILE, nullptr, &files);
      files.rlim_cur = begin ? 3 : files.rlim_max;
      ::prlimit(process, RLIMIT_NOFILE, &files, nullptr);
    }
  }

  void on_standing() {
    if (acts_[next_act_].serial) return;
    giving_ = true;
    tell(next_, Load{boundary_, true});
    if (acts_[next_act_].abort == "standing") give_up(true);
  }

  void on_switched() {
    switched_ms_ = milliseconds_since(switch_sent_);
    stood_ = Clock::now();
    stand_ms_ = std::chrono::duration<double, std::milli>(stood_ - stepped_).count();
    awaiting_ = false;
    if (acts_[next_act_].restart) return restart();
    if (acts_[next_act_].abort == "switched") return give_up(true);
    if (acts_[next_act_].in_place) return go_on_in_place();
    if (acts_[next_act_].abort == "starved") starve(false);
    if (expects_to_stay()) {
      if (problems_.empty()) return fail("all ranks gave their state, and none reported that it stays");
      const Json problems = std::exchange(problems_, {});
      give_up(true);
      summary_["acts"].back()["problems"] = problems;
      return;
    }
    giving_ ? tell(next_, Given{}) : tell(next_, Load{boundary_});
  }

  // As the launcher does: with the plan if all ranks can, or else with the one before.
  void go_on_in_place() {
    const bool taken = problems_.empty();
    if (taken) {
      current_.plan = acts_[next_act_].plan;
      tell(current_, Resume{current_.plan});
    } else {
      tell(current_, Resume{});
    }
    summary_["acts"].push_back({{"generation", current_.number},
                                {"step", boundary_},
                                {"in_place", taken},
                                {"problems", std::exchange(problems_, {})},
                                {"stand_ms", stand_ms_},
                                {"pause_ms", milliseconds_since(stood_)}});
    ++next_act_;
  }

  // Restarts by checkpoint, as the launcher does.
  void restart() {
    tell(current_, Exit{});
    left_.insert(std::exchange(current_.mpirun, -1));
    start(next_, ++last_number_, acts_[next_act_].plan);
  }

  void on_loaded() {
    if (recovering_) return on_recovered();
    if (acts_[next_act_].abort == "loaded") return give_up(true);
    const int ready_to_be_left = listening(next_);
    summary_["acts"].push_back({{"generation", next_.number},
                                {"step", boundary_},
                                {"listening", ready_to_be_left},
                                {"ready_ms", ready_ms_},
                                {"to_boundary_ms", switched_ms_},
                                {"stand_ms", stand_ms_},
                                {"pause_ms", milliseconds_since(stood_)},
                                {"phases_ms", next_.phases_ms},
                                {"bytes_adopted", next_.adopted},
                                {"bytes_copied", next_.copied},
                                {"bytes_sent", next_.sent},
                                {"bytes_sent_early", next_.sent_early}});
    if (!acts_[next_act_].restart) {
      tell(current_, Exit{});
      left_.insert(current_.mpirun);
    }
    succeed();
  }

  // The new generation becomes the job, as in the launcher. It goes on after step boundary_.
  void succeed() {
    earlier_.insert(earlier_.begin(), {current_.number, current_.plan, false, boundary_});
    for (auto& one : earlier_) one.step = std::min(one.step, boundary_);
    current_ = std::move(next_);
    next_ = Generation();
    recovering_ = false;
    ++next_act_;
    if (next_act_ == acts_.size() || !acts_[next_act_].at_commit) return tell(current_, Commit{});
    recovering_ = true;
    strike();
  }

  // Drops state of older generations once the running one has its own, as the launcher does.
  void keep(bool settled) {
    for (auto& one : earlier_) one.copies_only = true;
    if (settled) earlier_.clear();
    const int copies = earlier_.empty() ? current_.number : earlier_.back().generation;
    for (const auto& [node, vault] : vaults_) vault->keep(current_.number, copies);
  }

  void on_recovered() {
    if (next_.origins.size() != 1) return fail("the ranks do not go on from one step and source");
    const auto [step, from] = *next_.origins.begin();
    int living = 0;
    for (const auto& [rank, process] : current_.processes) living += runs(process) ? 1 : 0;
    kill_generation(current_);
    boundary_ = step;
    summary_["acts"].push_back({{"generation", next_.number},
                                {"step", step},
                                {"from", from},
                                {"state_left", acts_[next_act_].silent ? state_left() : -1},
                                {"living", living},
                                {"lost_ms", milliseconds_since(lost_at_)},
                                {"ready_ms", ready_ms_},
                                {"bytes_adopted", next_.adopted},
                                {"bytes_copied", next_.copied},
                                {"bytes_sent", next_.sent}});
    succeed();
  }

  static bool runs(pid_t process) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.rfind("State:", 0) == 0)
        return line.find('Z') == std::string::npos && line.find('X') == std::string::npos;
    return false;
  }

  bool dying() const { return next_act_ < acts_.size() && acts_[next_act_].dies; }

  void failed(const Failed& failed) {
    give_up(false);
    summary_["acts"].back().update({{"message", failed.message}, {"memory", failed.memory}, {"peer", failed.peer}});
  }

  // The attempt to recover is dropped.
  void try_again() {
    const int left = state_left();
    give_up(false);
    summary_["acts"].back()["state_left"] = left;
    recover();
  }

  // The old generation must train on as if nothing had happened.
  void give_up(bool stands) {
    ::kill(next_.mpirun, SIGKILL);
    ::waitpid(next_.mpirun, nullptr, 0);
    next_ = Generation();
    awaiting_ = false;
    if (stands) tell(current_, Resume{});
    summary_["acts"].push_back({{"aborted", acts_[next_act_].abort}, {"step", boundary_}});
    ++next_act_;
  }

  Loop loop_;
  std::string summary_path_;
  std::vector<std::string> command_;
  std::vector<Act> acts_;
  std::size_t next_act_ = 0;
  std::vector<std::string> problems_;        // why ranks of the old generation stay
  const std::string token_ = fresh_nonce();  // keeps plays on one machine apart
  std::unique_ptr<Listener> listener_;
  std::vector<ConnectionPtr> waiting_;
  Generation current_, next_;
  int last_number_ = 0;
  std::int64_t told_step_ = 0;           // the last one
  std::set<std::int64_t> progressed_;    // told steps after which a worker told that it gets on with other work
  std::set<std::pair<int, int>> heard_;  // generations and ranks that sent a heartbeat
  std::set<pid_t> left_;
  bool finished_ = false;
  bool awaiting_ = false;  // waits for answers to a switch
  std::size_t standing_ = 0;
  bool giving_ = false;   // the next generation loads meanwhile
  bool leaving_ = false;  // the switch ends the play
  bool recovering_ = false;
  std::vector<Assign::Source::Earlier> earlier_;
  DirectorGpus gpus_;
  Accuracy accuracy_ = Accuracy::bitwise;
  std::map<std::string, std::unique_ptr<launcher::Vault>> vaults_;  // by node name, as in plans
  Descriptor silent_;  // where a vault seems to listen that does not answer
  Watch recovery_, late_;
  std::int64_t boundary_ = 0;
  Clock::time_point started_, stepped_, switch_sent_, stood_, lost_at_;
  double ready_ms_ = 0, switched_ms_ = 0, stand_ms_ = 0;
  Json summary_ = {{"acts", Json::array()}, {"profiles", Json::array()}};
  std::string failure_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || std::string(argv[3]) != "--") {
    std::fprintf(stderr, "usage: stage_director SCRIPT.json SUMMARY.json -- PROGRAM ARGUMENTS\n");
    return 2;
  }
  try {
    std::ifstream script(argv[1]);
    return Director(Json::parse(script), argv[2], {argv + 4, argv + argc}).run();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "stage_director: %s\n", problem.what());
    return 1;
  }
}
