#include "launcher/conform/generation.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "launcher/process/child.hpp"
#include "planner/core/flat_profile.hpp"
#include "planner/core/profile_check.hpp"

namespace espalier::launcher::conform {
namespace {

constexpr const char* kNode = "stage";
constexpr const char* kOtherNode = "wings";

std::string of_rank(int rank) { return "rank " + std::to_string(rank); }

// The program with so many steps: in the place of those that its arguments give, or after all arguments.
std::vector<std::string> with_steps(const Settings& settings, int steps) {
  std::vector<std::string> program = settings.program;
  if (steps == 0) return program;
  const auto option = std::find(program.begin(), program.end(), settings.steps_option);
  if (option == program.end()) program.insert(program.end(), {settings.steps_option, std::to_string(steps)});
  else if (option + 1 != program.end()) option[1] = std::to_string(steps);
  return program;
}

bool is_crash(int code) {
  const int number = code - 128;
  return number == SIGSEGV || number == SIGABRT || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

}  // namespace

Generation::Generation(Stage& stage, int replicas, Start start)
    : stage_(stage),
      number_(stage.fresh_number()),
      start_(std::move(start)),
      unit_(start_.unit > 0 ? start_.unit : stage.units().front()) {
  for (int gpu = 0; gpu < replicas * unit_; ++gpu) gpus_.push_back({kNode, gpu});
  Stage::Callbacks workers;
  workers.adopt = [this](std::unique_ptr<Line> line, const wire::WorkerHello& worker) {
    adopt(std::move(line), worker);
  };
  workers.came = [this] { note_all(); };
  workers.broken = [this](const std::string& why) { broken_ = why; };
  stage_.enter(number_, start_.greeting, std::move(workers));
  RanksCallbacks on;
  on.ended = [this](int rank, int code) { codes_[rank] = code; };
  on.lost = [this](const std::vector<int>& ranks, const std::string& why) {
    for (const int rank : ranks) codes_[rank] = 255;
    broken_ = lost_ = why;
  };
  on.all_ended = [](int) {};
  ranks_ = stage_.run(number_, gpus_, with_steps(stage_.settings(), start_.steps), start_.variables, std::move(on));
}

Generation::~Generation() { stage_.leave(number_); }

Line& Generation::line(int rank) {
  const auto at = lines_.find(rank);
  if (at == lines_.end()) throw Failure(of_rank(rank) + " has not said hello");
  return *at->second;
}

void Generation::adopt(std::unique_ptr<Line> line, const wire::WorkerHello& worker) {
  const int rank = worker.hello.rank;
  if (rank < 0 || rank >= size()) throw Error("hello.rank: is not of a world of " + std::to_string(size()));
  if (lines_.contains(rank)) throw Error("hello: " + of_rank(rank) + " says it twice");
  // The suite kills workers by this number: -1 and 0 mean many processes.
  if (worker.hello.pid <= 1 || worker.hello.pid == ::getpid()) throw Error("hello.pid: is no process of a worker");
  lines_[rank] = std::move(line);
  processes_[rank] = worker.hello.pid;
  if (!hello_) hello_ = worker;
  note(rank);
}

std::string Generation::words() const {
  std::string text = failed_.empty() ? "" : " (it said `failed`: " + failed_ + ")";
  for (const auto& [rank, line] : lines_)
    if (!line->nonsense().empty()) text += " (" + of_rank(rank) + " broke the protocol: " + line->nonsense() + ")";
  return text;
}

// ---- from the start to the first step

void Generation::say_hello() {
  const auto all = [this] { return static_cast<int>(lines_.size()) == size(); };
  stage_.until([&] { return all() || !codes_.empty() || !broken_.empty(); }, stage_.patience());
  if (!broken_.empty()) throw Failure(broken_);
  if (!codes_.empty() && !all())
    throw Failure(of_rank(codes_.begin()->first) + " ended with code " + std::to_string(codes_.begin()->second) +
                  " before it said hello" + words());
  if (!all()) throw Failure("not all ranks have said hello in time");
  stage_.learn(*hello_);
}

wire::Assign Generation::assignment(const std::optional<wire::Assign::Source>& source) {
  if (!hello_) say_hello();
  std::vector<GpuId> named = gpus_;
  if (spread_)
    for (std::size_t gpu = named.size() - static_cast<std::size_t>(unit_); gpu < named.size(); ++gpu)
      named[gpu].node = kOtherNode;
  const ModelShape& model = hello_->hello.model;
  const int replicas = size() / unit_;
  try {
    if (hello_->can.data_only) {
      plan_ = uniform_plan(1, replicas, 1, hello_->can.global_batch, 1, named, unit_);
    } else {
      const ParallelLimits& own = hello_->hello.parallel;
      const int tp = std::max(1, own.tp), micro_batches = std::max(1, model.micro_batches);
      // Pipelines and replicas in turn, as far as the model has layers and samples for them.
      const bool deep = own.pp == 0 && own.dp == 0 && model.layers >= replicas &&
                        (number_ % 2 == 0 || model.global_batch / micro_batches < replicas);
      const int pp = deep ? replicas : std::max(1, own.pp), dp = deep ? 1 : replicas;
      plan_ = uniform_plan(pp, dp, model.layers, model.global_batch, micro_batches, named, tp);
    }
  } catch (const Error& error) {
    throw Skip(std::string("no plan of this size for the program: ") + error.what());
  }
  wire::Assign assign;
  assign.plan = plan_;
  assign.source = source;
  assign.accuracy = hello_->can.data_only ? Accuracy::relaxed : Accuracy::bitwise;
  return assign;
}

void Generation::ready() {
  for (int rank = 0; rank < size(); ++rank) expect(rank, wire::Ready::type, stage_.start_limit());
}

void Generation::live() {
  say_hello();
  assign();
  ready();
  tell(wire::Commit{});
  stage_.until([this] { return step_ > 0 || ended(); }, stage_.patience());
  trains_past(step_ + 1);
}

wire::Assign::Source Generation::as_source(bool recovery) const {
  return wire::Assign::Source{number_, plan_, recovery, 0, {}};
}

// ---- messages

void Generation::tell(const wire::Frame& frame) {
  for (const auto& [rank, line] : lines_)
    if (!codes_.contains(rank)) line->send(frame);
}

void Generation::note_all() {
  for (const auto& [rank, line] : lines_) note(rank);
}

void Generation::note(int rank) {
  std::deque<wire::Frame>& frames = lines_.at(rank)->frames;
  for (; !frames.empty(); frames.pop_front()) {
    const wire::Frame& frame = frames.front();
    const auto only_of_first = [&] {
      if (rank != 0) throw Error("`" + frame.type + "` is for rank 0 to send");
    };
    try {
      if (frame.type == wire::Heartbeat::type) {
        ++heartbeats_[rank];
      } else if (frame.type == wire::Step::type) {
        only_of_first();
        const auto step = wire::from_frame<wire::Step>(frame);
        if (step_ >= 0 && step.step != step_ + 1)
          throw Error("step " + std::to_string(step.step) + " comes after step " + std::to_string(step_));
        if (!(step.seconds > 0) || !std::isfinite(step.seconds)) throw Error("step.seconds: must be above 0");
        step_ = step.step;
      } else if (frame.type == wire::Profiled::type) {
        only_of_first();
        const auto flat = frame.body.find("flat");
        const Profile profile = flat == frame.body.end()
                                    ? wire::from_frame<wire::Profiled>(frame).profile
                                    : profile_of(flat->get<FlatProfile>(), plan_, hello_->hello.model);
        if (const std::string why = unfit(profile, plan_, hello_->hello.model); !why.empty()) throw Error(why);
        ++profiles_;
      } else if (frame.type == wire::Failed::type) {
        failed_ = wire::from_frame<wire::Failed>(frame).message;
      } else if (frame.type != wire::Notice::type) {
        inbox_[rank].push_back(frame);
      }
    } catch (const Error& error) {
      if (broken_.empty()) broken_ = of_rank(rank) + ": " + error.what();
    }
  }
}

wire::Frame Generation::expect(int rank, const std::string& type, double seconds) {
  std::deque<wire::Frame>& inbox = inbox_[rank];
  const double limit = seconds > 0 ? seconds : stage_.patience();
  stage_.until([&] { return !inbox.empty() || codes_.contains(rank) || !broken_.empty(); }, limit);
  if (!broken_.empty()) throw Failure(broken_ + words());
  if (inbox.empty() && codes_.contains(rank))
    throw Failure(of_rank(rank) + " ended with code " + std::to_string(codes_.at(rank)) + " instead of saying `" +
                  type + "`" + words());
  if (inbox.empty())
    throw Failure(of_rank(rank) + " did not say `" + type + "` within " + std::to_string(static_cast<int>(limit)) +
                  " s" + words());
  wire::Frame frame = inbox.front();
  if (frame.type != type)
    throw Failure(of_rank(rank) + " said `" + frame.type + "` instead of `" + type + "`" + words());
  inbox.pop_front();
  return frame;
}

std::int64_t Generation::stands() {
  std::set<std::int64_t> boundaries;
  std::string problem;
  for (int rank = 0; rank < size(); ++rank) {
    stage_.until([&] { return !inbox_[rank].empty() || codes_.contains(rank); }, stage_.patience());
    if (!inbox_[rank].empty() && inbox_[rank].front().type == wire::Standing::type)
      boundaries.insert(wire::from_frame<wire::Standing>(expect(rank, wire::Standing::type)).step);
    const auto switched = wire::from_frame<wire::Switched>(expect(rank, wire::Switched::type));
    boundaries.insert(switched.step);
    if (!switched.problem.empty()) problem = switched.problem;
  }
  if (boundaries.size() != 1) throw Failure("the ranks do not stand after the same step");
  if (!problem.empty()) throw Failure("switched.problem: " + problem);
  // Rank 0's `step` may come after other ranks' answers.
  const std::int64_t boundary = *boundaries.begin();
  stage_.until([&] { return step_ >= boundary; }, stage_.patience());
  if (step_ != boundary)
    throw Failure("the ranks say that they stand after step " + std::to_string(boundary) + ", and step " +
                  std::to_string(step_) + " was done");
  return boundary;
}

wire::Loaded Generation::loaded(std::int64_t step) {
  const auto all = expect_all<wire::Loaded>(stage_.patience());
  for (const wire::Loaded& one : all)
    if (one.step != all.front().step || one.from != all.front().from)
      throw Failure("the ranks have not loaded the same state");
  if (step >= 0 && all.front().step != step)
    throw Failure("`loaded` says step " + std::to_string(all.front().step) + ", and `load` said " +
                  std::to_string(step));
  return all.front();
}

void Generation::trains_past(std::int64_t step) {
  stage_.until([&] { return step_ >= step || ended() || !broken_.empty(); }, stage_.patience());
  if (!broken_.empty()) throw Failure(broken_ + words());
  if (step_ >= step) return;
  if (!codes_.empty())
    throw Failure(of_rank(codes_.begin()->first) + " ended with code " + std::to_string(codes_.begin()->second) +
                  " after step " + std::to_string(step_) + words());
  throw Failure("step " + std::to_string(step) + " has not been done in time; the last was " + std::to_string(step_) +
                words());
}

int Generation::heartbeats(int rank) const {
  const auto at = heartbeats_.find(rank);
  return at == heartbeats_.end() ? 0 : at->second;
}

bool Generation::has_said(int rank, const std::string& type) const {
  const auto at = inbox_.find(rank);
  return at != inbox_.end() && std::any_of(at->second.begin(), at->second.end(),
                                           [&](const wire::Frame& frame) { return frame.type == type; });
}

// ---- the end

void Generation::ends() {
  if (!stage_.until([this] { return ended(); }, stage_.patience())) throw Failure("not all ranks have ended in time");
  if (!lost_.empty()) throw Failure(lost_);
  for (const auto& [rank, code] : codes_)
    if (is_crash(code)) throw Failure(of_rank(rank) + " crashed by signal " + std::to_string(code - 128));
}

void Generation::leaves_well() {
  ends();
  for (const auto& [rank, code] : codes_)
    if (code != 0) throw Failure(of_rank(rank) + " ended with code " + std::to_string(code) + words());
  if (!broken_.empty()) throw Failure(broken_);
}

void Generation::leaves_failed() {
  ends();
  for (const auto& [rank, code] : codes_)
    if (code == 0) throw Failure(of_rank(rank) + " ended with code 0, as if all were well");
}

void Generation::kill(int rank) { ::kill(processes_.at(rank), SIGKILL); }

}  // namespace espalier::launcher::conform
