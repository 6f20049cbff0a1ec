#include "torchrt/worker_start.hpp"

#include <cstdio>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/device/gpu_islands.hpp"
#include "torchrt/handoff/state_address.hpp"
#include "torchrt/marks_here.hpp"
#include "torchrt/model/prepare_torch.hpp"
#include "torchrt/print_checksum.hpp"
#include "torchrt/profiler/layer_alone.hpp"
#include "torchrt/tell_of_own_lists.hpp"

namespace espalier::torchrt {

void WorkerStart::prepare() {
  take_part();
  build();
  serve();
  session_.ready(wire::Ready{gpu_islands(), device_->kind() == DeviceKind::cpu && config_.device.jobs_reach});
}

std::int64_t WorkerStart::commit() {
  const std::int64_t done = source_ ? load() : done_;
  session_.committed();
  if (arrival_) arrival_->release(*server_);
  arrival_.reset();
  if (recovery_) go_on_with_metrics();
  recovery_.reset();
  return done;
}

WorkerParts WorkerStart::parts() {
  return {config_,    environment_, world_,   session_,   *device_, *state_,
          *training_, *kept_,       *server_, own_lists_, !source_, checksum_};
}

void WorkerStart::take_part() {
  wire::Assign assign = session_.assignment();
  plan_ = std::move(assign.plan);
  if (const auto broken = validate(plan_, config_.model.blocks()); !broken.empty())
    throw Error("launcher: the plan that it assigns is none: " + broken.front());
  config_.training.accuracy = assign.accuracy;
  config_.parallel.limits.tp = plan_.stages.front().tp;
  source_ = std::move(assign.source);
  gpu_ = assign.device;
  jobs_ = std::move(assign.jobs);
}

// Everything slow: memory, connections, kernels; the old generation's state mapped where it is.
void WorkerStart::build() {
  prepare_torch(config_.training.threads);
  device_ = make_device(gpu_, world_.local_rank());
  state_.emplace(config_, plan_, world_, *device_);
  tell_of_own_lists(own_lists_, *state_, world_);
  state_->connect();
  training_.emplace(config_, world_, *device_, *state_, environment_.generation);
  if (world_.rank() == 0) training_->on_progress([this] { session_.progress(); });
  if (source_ && source_->recovery) recover();
  if (source_ && !recovery_ && !by_disk())
    arrival_ = std::make_unique<Arrival>(*state_, world_, *device_, source_->plan, jobs_, addresses());
  if (arrival_) {
    arrival_->prepare();
    training_->take_over(source_->generation, false, recovery_ ? recovery_->damaged() : std::vector<std::int64_t>());
  } else {
    for (const int unit : state_->units()) state_->allocate(unit);
    if (by_disk()) training_->take_over(source_->generation, true);
    else done_ = training_->start();
  }
  world_.connect();
  if (world_.rank() == 0 && !recovery_) training_->open_metrics(source_ ? std::nullopt : std::optional(done_));
  if (recovery_) look_at_last_step();
  else if (source_) check_data();
  state_->build(arrival_ ? arrival_->adopts_gradients() : std::set<int>());
  state_->rehearse(training_->data());
  training_->watch_links(!recovery_);  // a recovery must be quick
  measure_a_layer();
  state_->compute().release_memory();  // until the commit the GPU is the old generation's as well
}

// No other generation is on the device yet, and nothing is known of the job. Later ones go on with what this one
// told.
void WorkerStart::measure_a_layer() {
  if (source_ || world_.rank() != 0 || config_.profile.every == 0) return;
  state_->compute().release_memory();  // what the rehearsal needed
  const int tp = plan_.stages.front().tp;
  training_->tell_alone(
      measure_alone(config_, *device_, {tp, state_->self().samples, degrees_to_measure(config_, asked_, tp)}));
}

// A rank that shares its node with one of the generation before knows what that one trains on.
void WorkerStart::check_data() const {
  const auto address = [this](int rank) { return addresses()(true, rank); };
  if (const auto marks = marks_here(source_->plan, node(), address))
    training_->check_data({marks->data, marks->validation});
}

// The state will be in a checkpoint when it is asked for.
bool WorkerStart::by_disk() const { return source_ && !source_->recovery && through_disk(config_.handoff.method); }

AddressOf WorkerStart::addresses() const {
  return [this](bool old, int rank) {
    return state_address(environment_.token, old ? source_->generation : environment_.generation, rank);
  };
}

void WorkerStart::recover() {
  const auto tell = [this](const std::string& what) {
    std::fprintf(stderr, "espalier: train: rank %d: recovery: %s\n", world_.rank(), what.c_str());
  };
  const Plan after = as_reached(plan_, device_->kind(), jobs_);
  const std::string here = after.ranks().at(static_cast<std::size_t>(world_.rank())).node;
  const auto left_by = [&](int generation, const Plan& plan, bool copies_only, std::int64_t until) {
    return LostGeneration{environment_.vault,
                          generation,
                          environment_.generation,
                          as_reached(plan, device_->kind(), jobs_),
                          host_memory_as_reached(plan, plan_, device_->kind(), jobs_),
                          here,
                          copies_only,
                          until};
  };
  std::vector<LostGeneration> lost = {left_by(source_->generation, source_->plan, false, INT64_MAX)};
  for (const wire::Assign::Source::Earlier& one : source_->earlier)
    lost.push_back(left_by(one.generation, one.plan, one.copies_only, one.step));
  recovery_.emplace(*state_, world_, *device_, lost, after, tell);
  const SourceChoice& choice = recovery_->choice();
  if (choice.origin == Origin::generation || choice.origin == Origin::snapshot) {
    arrival_ = recovery_->arrival(addresses());
    done_ = choice.step;
  } else {
    config_.checkpoint.resume = true;  // what is there, this job has written
  }
}

void WorkerStart::look_at_last_step() {
  if (!arrival_) return;
  last_ = recovery_->agreement();
  training_->check_data({last_.data, last_.validation});
}

// After the commit of a recovery. Before it no line may be dropped: should the attempt fail, the next one may go on
// from a later step than this one, and nobody would make the lines between them again.
void WorkerStart::go_on_with_metrics() {
  if (world_.rank() == 0) {
    training_->open_metrics(done_);
    // The state after a step may be there though whoever would have recorded the step died before.
    if (last_.step == done_)
      training_->record_missing(last_.step, last_.loss, last_.gradient_norm, last_.learning_rate);
  }
}

// Where a recovery goes on from. Checkpoints are not looked at before all ranks read them.
std::string WorkerStart::origin() const {
  if (!recovery_) return "";
  const SourceChoice& choice = recovery_->choice();
  if (arrival_ && choice.origin == Origin::generation && choice.generation > 0) return "earlier";
  if (arrival_) return to_string(choice.origin);
  return to_string(done_ > 0 ? Origin::checkpoint : Origin::start);
}

// The state is that after the step returned.
std::int64_t WorkerStart::load() {
  const wire::Load load = session_.load();
  const std::int64_t step = recovery_ ? done_ : load.step;
  ArrivalReport report;
  const auto given = [this] { session_.given(); };
  if (arrival_) report = arrival_->load(step, load.giving ? std::function<void()>(given) : nullptr);
  else if (by_disk()) training_->load(step);
  if (checksum_) print_checksum(*state_, world_, environment_.generation, step);
  server_->mark(step);
  kept_->mark(step);
  training_->stands_after(step);
  session_.loaded(
      wire::Loaded{report.adopted, report.copied, report.sent, step, origin(), report.phases_ms, report.sent_early});
  return step;
}

// Before the old generation is asked to stand: its ranks may have to write into our memory. And before the launcher
// can know that the generation may become the job: from the commit on it may start the next one, whose ranks ask
// here, and a rank of ours may be slow to hear of the commit.
void WorkerStart::serve() {
  server_.emplace(state_address(environment_.token, environment_.generation, world_.rank()));
  kept_.emplace(*state_, world_, *device_);
  kept_->deposit(environment_, node(), training_->reads());
  if (!arrival_ && !by_disk()) kept_->mark(done_);
  server_->offer({kMarks}, kept_->marks().fd(), kept_->marks().bytes());
  for (const int unit : state_->units())
    if (!arrival_ || arrival_->adopts_gradients().count(unit) == 0)
      server_->offer({gradient_of(unit)}, state_->gradient(unit).fd(), state_->gradient(unit).bytes());
  if (!arrival_) {
    for (const int unit : state_->units())
      server_->offer({unit}, state_->allocation(unit).fd(), state_->allocation(unit).bytes());
    if (!by_disk()) server_->mark(done_);
    return;
  }
  arrival_->offer(*server_);
  world_.barrier();
  arrival_->connect();
  arrival_->send_early(source_->early_seconds);
}

std::string WorkerStart::node() const { return plan_.ranks().at(static_cast<std::size_t>(world_.rank())).node; }

}  // namespace espalier::torchrt
