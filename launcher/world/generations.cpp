#include "launcher/world/generations.hpp"

#include <algorithm>

#include "launcher/process/child.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
// After a generation ends, a rank that ran out of memory beside it reports so within this time.
constexpr auto kCrowded = std::chrono::seconds(10);
}  // namespace

Generations::Generations(wire::Loop& loop, const JobContext& context, const Directory& directory,
                         EarlierGenerations& earlier, Callbacks callbacks)
    : loop_(loop), context_(context), directory_(directory), earlier_(earlier), callbacks_(std::move(callbacks)) {}

World* Generations::of(int number) const {
  for (World* world : {next_.get(), current_.get()})
    if (world != nullptr && world->generation() == number) return world;
  return nullptr;
}

// Whoever reads the checkpoint is not there yet, and the old generation does not need to know who it is.
int Generations::next_number() const { return next_ ? next_->generation() : last_number_ + 1; }

bool Generations::crowded() const { return next_ || leaving_ || wire::steady_now() - crowded_until_ < kCrowded; }

std::unique_ptr<World> Generations::make(int number, const Plan& plan, bool first) {
  WorldRequest request;
  request.generation = number;
  request.gpus = plan.ranks();
  request.holdings = callbacks_.holdings();
  if (callbacks_.reach) request.islands = callbacks_.reach(request.holdings);
  request.program = context_.program;
  request.network = context_.config.network;
  request.directory = directory_.generation(number).string();
  request.first = first;
  request.environment = clean_environment(callbacks_.environment(number));
  const auto is_current = [this, number] { return current_ && current_->generation() == number; };
  const auto is_next = [this, number] { return next_ && next_->generation() == number; };
  // Only the world that is current or next may tell anything: one that was destroyed has no callbacks left.
  WorldCallbacks on;
  on.hello = [this](const wire::Hello& hello) {
    callbacks_.hello(hello, current_ && hello.generation == current_->generation());
  };
  on.heard_ready = [this, servers = servers_of(request)](int rank, const wire::Ready& ready) {
    if (callbacks_.heard_ready) callbacks_.heard_ready(servers.at(static_cast<std::size_t>(rank)), ready);
  };
  on.step = [this, is_current](const wire::Step& step) {
    if (is_current()) callbacks_.step(step);
  };
  on.progressed = [this, is_current] {
    if (callbacks_.progressed && is_current()) callbacks_.progressed();
  };
  on.profiled = [this, is_current](int rank, const wire::Frame& frame) {
    if (is_current()) callbacks_.profiled(rank, frame);
  };
  on.noticed = callbacks_.noticed;
  on.ready = [this, first] { callbacks_.ready(first); };
  on.standing = callbacks_.standing;
  on.switched = callbacks_.switched;
  on.stays = callbacks_.stays;
  on.loaded = callbacks_.loaded;
  on.finished = [this, is_next](int code) { callbacks_.finished(is_next(), code); };
  on.lost = [this, is_next](const Loss& loss) { callbacks_.lost(is_next(), loss); };
  on.gone = callbacks_.gone;
  return std::make_unique<World>(loop_, request, callbacks_.run, std::move(on));
}

void Generations::start_first(const Plan& plan) { current_ = make(number_, plan, true); }

void Generations::begin_over(int last) {
  last_number_ = std::max(last_number_, last);
  number_ = ++last_number_;
  plan_ = Plan{};
  earlier_.replace(number_);
}

void Generations::take_over(int last, const wire::Assign::Source& running) {
  last_number_ = std::max(last, running.generation);
  number_ = running.generation;
  plan_ = running.plan;
  earlier_.take_over(running.generation, running.earlier);
}

void Generations::start_next(const Plan& plan, const std::optional<wire::Assign::Source>& source) {
  try {
    next_ = make(++last_number_, plan, false);
    next_->assign(plan, source, context_.accuracy);
  } catch (const Error&) {
    next_.reset();
    throw;
  }
}

void Generations::retire_current(wire::Loop::Milliseconds patience) {
  leaving_ = std::move(current_);
  leaving_->retire(patience);
}

void Generations::succeed(const Plan& plan, std::int64_t step) {
  earlier_.succeed(plan_, next_->generation(), step);
  current_ = std::move(next_);
  plan_ = plan;
  number_ = current_->generation();
}

void Generations::drop(std::unique_ptr<World>& world) {
  if (!world) return;
  if (&world != &current_) crowded_until_ = wire::steady_now();
  const int number = world->generation();
  world.reset();  // its processes first: they are writing there
  directory_.remove_generation(number);
}

void Generations::end() {
  next_.reset();
  leaving_.reset();
}

void Generations::beat() {
  for (World* world : {current_.get(), next_.get()})
    if (world != nullptr) world->beat();
}

}  // namespace espalier::launcher
