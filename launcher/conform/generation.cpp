#include "launcher/conform/generation.hpp"

#include <algorithm>
#include <set>

namespace espalier::launcher::conform {
namespace {

constexpr const char* kOtherNode = "wings";

// The program with so many steps: in the place of those that its arguments give, or after all arguments.
std::vector<std::string> with_steps(const Settings& settings, int steps) {
  std::vector<std::string> program = settings.program;
  if (steps == 0) return program;
  const auto option = std::find(program.begin(), program.end(), settings.steps_option);
  if (option == program.end()) program.insert(program.end(), {settings.steps_option, std::to_string(steps)});
  else if (option + 1 != program.end()) option[1] = std::to_string(steps);
  return program;
}

std::vector<GpuId> gpus_on_stage(int count) {
  std::vector<GpuId> gpus;
  gpus.reserve(static_cast<std::size_t>(count));
  for (int gpu = 0; gpu < count; ++gpu) gpus.push_back({kStageNode, gpu});
  return gpus;
}

}  // namespace

Generation::Generation(Stage& stage, int replicas, Start start)
    : stage_(stage),
      number_(stage.fresh_number()),
      unit_(start.unit > 0 ? start.unit : stage.program().units.front()),
      gpus_(gpus_on_stage(replicas * unit_)),
      spread_(start.spread),
      processes_(stage, size()),
      entry_(stage.door().enter(number_, start.greeting, of_door())) {
  processes_.start(
      [&](RanksCallbacks on) {
        return stage.run(number_, gpus_, with_steps(stage.settings(), start.steps), start.variables, std::move(on));
      },
      [this](const std::string& why) { record_.breaks(why); });
}

StageDoor::Callbacks Generation::of_door() {
  StageDoor::Callbacks on;
  on.adopt = [this](std::unique_ptr<Line> line, const wire::WorkerHello& worker) { adopt(std::move(line), worker); };
  on.came = [this] {
    for (const auto& [rank, line] : lines_) record_.note(rank, line->frames, plan_, hello_->hello.model);
  };
  on.broken = [this](const std::string& why) { record_.breaks(why); };
  return on;
}

Line& Generation::line(int rank) {
  const auto at = lines_.find(rank);
  if (at == lines_.end()) throw Failure(of_rank(rank) + " has not said hello");
  return *at->second;
}

void Generation::adopt(std::unique_ptr<Line> line, const wire::WorkerHello& worker) {
  const int rank = worker.hello.rank;
  if (rank < 0 || rank >= size()) throw Error("hello.rank: is not of a world of " + std::to_string(size()));
  if (lines_.contains(rank)) throw Error("hello: " + of_rank(rank) + " says it twice");
  processes_.named(rank, worker.hello.pid);
  lines_[rank] = std::move(line);
  if (!hello_) hello_ = worker;
  record_.note(rank, lines_[rank]->frames, plan_, hello_->hello.model);
}

std::string Generation::words() const {
  std::string text = record_.failed().empty() ? "" : " (it said `failed`: " + record_.failed() + ")";
  for (const auto& [rank, line] : lines_)
    if (!line->nonsense().empty()) text += " (" + of_rank(rank) + " broke the protocol: " + line->nonsense() + ")";
  return text;
}

// ---- from the start to the first step

void Generation::say_hello() {
  const auto all = [this] { return static_cast<int>(lines_.size()) == size(); };
  stage_.until([&] { return all() || processes_.any_ended() || !record_.broken().empty(); }, stage_.patience());
  if (!record_.broken().empty()) throw Failure(record_.broken());
  if (processes_.any_ended() && !all()) throw Failure(processes_.how_first_ended() + " before it said hello" + words());
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
  for (int rank = 0; rank < size(); ++rank) expect(rank, wire::Ready::type, stage_.program().start_seconds);
}

void Generation::live() {
  say_hello();
  assign();
  ready();
  tell(wire::Commit{});
  stage_.until([this] { return record_.step() > 0 || processes_.ended(); }, stage_.patience());
  trains_past(record_.step() + 1);
}

wire::Assign::Source Generation::as_source(bool recovery) const {
  return wire::Assign::Source{number_, plan_, recovery, 0, {}};
}

// ---- messages

void Generation::tell(const wire::Frame& frame) {
  for (const auto& [rank, line] : lines_)
    if (!processes_.has_ended(rank)) line->send(frame);
}

wire::Frame Generation::expect(int rank, const std::string& type, double seconds) {
  const double limit = seconds > 0 ? seconds : stage_.patience();
  stage_.until([&] { return record_.waits(rank) || processes_.has_ended(rank) || !record_.broken().empty(); }, limit);
  if (!record_.broken().empty()) throw Failure(record_.broken() + words());
  if (!record_.waits(rank) && processes_.has_ended(rank))
    throw Failure(processes_.how_ended(rank) + " instead of saying `" + type + "`" + words());
  if (!record_.waits(rank))
    throw Failure(of_rank(rank) + " did not say `" + type + "` within " + std::to_string(static_cast<int>(limit)) +
                  " s" + words());
  const wire::Frame& frame = record_.next(rank);
  if (frame.type != type)
    throw Failure(of_rank(rank) + " said `" + frame.type + "` instead of `" + type + "`" + words());
  return record_.take(rank);
}

std::int64_t Generation::stands() {
  std::set<std::int64_t> boundaries;
  std::string problem;
  for (int rank = 0; rank < size(); ++rank) {
    stage_.until([&] { return record_.waits(rank) || processes_.has_ended(rank); }, stage_.patience());
    if (record_.waits(rank) && record_.next(rank).type == wire::Standing::type)
      boundaries.insert(wire::from_frame<wire::Standing>(expect(rank, wire::Standing::type)).step);
    const auto switched = wire::from_frame<wire::Switched>(expect(rank, wire::Switched::type));
    boundaries.insert(switched.step);
    if (!switched.problem.empty()) problem = switched.problem;
  }
  if (boundaries.size() != 1) throw Failure("the ranks do not stand after the same step");
  if (!problem.empty()) throw Failure("switched.problem: " + problem);
  // Rank 0's `step` may come after other ranks' answers.
  const std::int64_t boundary = *boundaries.begin();
  stage_.until([&] { return record_.step() >= boundary; }, stage_.patience());
  if (record_.step() != boundary)
    throw Failure("the ranks say that they stand after step " + std::to_string(boundary) + ", and step " +
                  std::to_string(record_.step()) + " was done");
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
  stage_.until([&] { return record_.step() >= step || processes_.ended() || !record_.broken().empty(); },
               stage_.patience());
  if (!record_.broken().empty()) throw Failure(record_.broken() + words());
  if (record_.step() >= step) return;
  if (processes_.any_ended())
    throw Failure(processes_.how_first_ended() + " after step " + std::to_string(record_.step()) + words());
  throw Failure("step " + std::to_string(step) + " has not been done in time; the last was " +
                std::to_string(record_.step()) + words());
}

void Generation::leaves_well() {
  try {
    processes_.leaves_well();
  } catch (const Failure& failure) {
    throw Failure(failure.what() + words());
  }
  if (!record_.broken().empty()) throw Failure(record_.broken());
}

}  // namespace espalier::launcher::conform
