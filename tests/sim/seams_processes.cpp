// What the launcher starts and where it writes: rank servers, the program that describes itself, and the scratch
// directory. They replace launcher/{process/child,process/child_output,process/description,node/directory,
// world/rank_servers}.cpp.
#include <csignal>

#include "launcher/node/directory.hpp"
#include "launcher/process/child.hpp"
#include "launcher/process/description.hpp"
#include "launcher/world/rank_servers.hpp"
#include "planner/core/error.hpp"
#include "tests/sim/event_base.hpp"
#include "tests/sim/generation.hpp"
#include "tests/sim/history.hpp"

namespace espalier::launcher {

using sim::history;

// ---- rank servers: the model runs a generation's ranks, and the product has a handle of them here

std::vector<std::string> clean_environment(const std::vector<std::string>& extra) { return extra; }
Child::~Child() = default;

namespace {
class SimRanks final : public Ranks {
 public:
  explicit SimRanks(std::shared_ptr<sim::Generation> generation) : generation_(std::move(generation)) {}
  ~SimRanks() override {
    generation_->abandon();
    generation_->signal(SIGKILL);
  }
  SimRanks(const SimRanks&) = delete;
  SimRanks& operator=(const SimRanks&) = delete;
  bool running() const override { return generation_->running(); }
  void signal(int number) const override { generation_->signal(number); }

 private:
  std::shared_ptr<sim::Generation> generation_;
};
}  // namespace

RankServers::RankServers(wire::Loop& loop, RankServersSettings settings, std::function<void(JobId)>)
    : loop_(loop), settings_(std::move(settings)), output_(loop) {}
RankServers::~RankServers() = default;
void RankServers::start() {}
void RankServers::adopt(const wire::ConnectionPtr&, const wire::RankServerHello&) {}
// The server starts as a step, and is tried again where that fails.
void RankServers::serve(const ServerId& id, int gpus) {
  if (!history().movable) return;
  const auto party = loop_.base()->party;
  history().call_slurm(
      party->node, [this, party, id, gpus, submitted = settings_.anchor, place = sim::place_in(settings_.environment)] {
        if (!party->alive) return;
        if (!history().slurm_fails && history().slurm->runs_steps(id.job, id.node))
          return history().holders->served(party, submitted, id.job, id.node, place);
        const sim::SimJob* job = history().slurm->find(id.job);
        if (job == nullptr || job->state == SlurmJobState::ended) return;
        auto& timeline = history().timeline;
        timeline.at(timeline.now() + 1, party, [this, id, gpus] { serve(id, gpus); });
      });
}
void RankServers::withdraw(JobId, const std::set<std::string>&) {}
void RankServers::forget(JobId job) {
  if (history().movable) history().holders->forget(loop_.base()->party, job);
}
std::unique_ptr<Ranks> RankServers::run(const WorldRequest& request, RanksCallbacks callbacks) {
  if (history().disk_full) throw Error("ranks: cannot be started");
  return std::make_unique<SimRanks>(
      history().training->start(loop_.base()->party, settings_.anchor, request, std::move(callbacks)));
}
void RankServers::keep_spares(const std::vector<std::string>&, const std::vector<std::string>&) {}
void RankServers::leave() {}
bool RankServers::left() const { return true; }
void RankServers::finish_output(std::chrono::milliseconds) {}

// ---- the program's description

// A history's programs describe themselves or not; a description may come late or not at all.
bool describes_itself(const std::vector<std::string>& program) { return program.front() == "describes itself"; }
ProgramDescription::ProgramDescription(wire::Loop& loop, std::vector<std::string> program,
                                       const std::vector<std::string>& environment, wire::Loop::Milliseconds limit,
                                       std::function<void(std::optional<wire::Description>)> told)
    : told_(std::move(told)),
      child_(std::make_unique<ChildOutput>(loop, program, environment, Child::Traits{}, 0, limit,
                                           [this](const std::optional<std::string>& text, int) { ended(text); })) {}
ProgramDescription::~ProgramDescription() = default;
void ProgramDescription::ended(const std::optional<std::string>& text) {
  std::optional<wire::Description> description;
  if (text) description = history().training->description();
  std::exchange(told_, nullptr)(std::move(description));
}
ChildOutput::ChildOutput(wire::Loop& loop, const std::vector<std::string>&, const std::vector<std::string>&,
                         Child::Traits, std::size_t most, wire::Loop::Milliseconds limit, Done done)
    : loop_(loop), most_(most), done_(std::move(done)) {
  auto& random = history().random;
  const bool fails = random.chance(0.1);
  const auto takes = fails ? limit : wire::Loop::Milliseconds(random.below(static_cast<int>(limit.count())));
  limit_ = loop.after(takes, [this, fails] {
    std::exchange(done_, nullptr)(fails ? std::nullopt : std::optional<std::string>(""), 0);
  });
}
ChildOutput::~ChildOutput() = default;

// ---- the scratch directory

std::filesystem::path work_directory(const wire::Config&) { return "/sim"; }
Directory::Directory(const std::filesystem::path& base, JobId job, unsigned) : path_(base / std::to_string(job)) {}
void Directory::claim_job(int) {}
Directory::~Directory() = default;
std::filesystem::path Directory::generation(int number) const {
  if (history().disk_full) throw Error("the disk is full");
  return path_ / ("g" + std::to_string(number));
}
void Directory::remove_generation(int) const {}

}  // namespace espalier::launcher
