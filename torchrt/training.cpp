#include "torchrt/training.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstdio>

#include "planner/core/json.hpp"
#include "torchrt/agreed_error.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/model/initialise.hpp"
#include "torchrt/model_flops.hpp"
#include "torchrt/place_parameters.hpp"
#include "torchrt/safetensors/weights.hpp"

namespace espalier::torchrt {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kBitwiseCosts =
    "accuracy = \"bitwise\" makes steps on a GPU longer than \"relaxed\" does: 1.7 times as long for a GPT-2 of 1.3 "
    "billion on an H100, 1.3 times for layers of LLaMA 8B. It is the default; if losses need not stay the same bit for "
    "bit when the plan changes, set training.accuracy, or write srun --elastic=...,accuracy=relaxed";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Training::Training(const Config& config, World& world, Device& device, RankState& state, int generation)
    : config_(config),
      world_(world),
      device_(device),
      state_(state),
      generation_(generation),
      data_(training_data(config)),
      validation_(validation_data(config)),
      files_{data_.identity(), validation_ ? std::optional(validation_->identity()) : std::nullopt},
      profiler_(config, world, device, state, generation) {}

void Training::tell(const std::string& what) const {
  std::fprintf(stderr, "espalier: train: rank %d: %s\n", world_.rank(), what.c_str());
}

// Ranks with different files would train on samples that belong to no common order.
void Training::agree_on_data() {
  const int own = data_number(files_);
  const int least = world_.minimum(own), most = -world_.minimum(-own);
  if (least == most) return;
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  throw AgreedError(data_difference(world_.gather(data_report(host, files_))));
}

void Training::check_data(const DataMarks& before) const {
  const std::string changed = changed_since(before, files_);
  if (changed.empty()) return;
  if (!config_.data.changed) throw Error(changed + kRestoreData);
  if (world_.local_rank() == 0) tell(changed + kGoesOn);
}

RankSum Training::ranks() {
  return {world_.rank(), world_.size(), [this](double value) {
            world_.sum({&value, 1});
            return value;
          }};
}

std::int64_t Training::start() {
  agree_on_data();
  Resumption found;
  try {
    found = find_resumption(
        config_, ranks(), [this](const std::string& what) { tell(what); }, &files_);
  } catch (const Error& problem) {
    throw AgreedError(problem.what());
  }
  fill(found.checkpoint.get());
  // Only now: where none is good training does not start, and all keep their names.
  if (world_.rank() == 0)
    set_aside(config_.checkpoint.directory, found.damaged, [this](const std::string& what) { tell(what); });
  if (found.checkpoint && world_.rank() == 0)
    tell("resumes after step " + std::to_string(found.step()) + ", from " + found.checkpoint->folder());
  make_saver(found.checkpoint ? std::optional(found.step()) : std::nullopt, found.damaged);
  // Later generations are of a run before this one. A commit would take them for the successors of this generation.
  if (generation_ == 0) clear_up(1, INT_MAX);
  if (world_.rank() == 0 && device_.kind() == DeviceKind::cuda && config_.training.accuracy == Accuracy::bitwise)
    tell(kBitwiseCosts);
  return found.step();
}

void Training::fill(CheckpointReader* checkpoint) {
  std::optional<Weights> weights;
  if (!checkpoint && !config_.weights.empty()) weights.emplace(config_.weights);
  std::vector<float> parameters;  // of one unit; its memory serves the next one too
  for (const int unit : state_.units()) {
    const UnitSpec& spec = state_.spec(unit);
    void* const memory = state_.allocation(unit).data();
    if (checkpoint) {
      load_state(*checkpoint, spec, state_.state_layout(unit), device_, memory);
      continue;
    }
    parameters.assign(spec.floats, 0.0F);
    if (weights) load_unit(*weights, spec, parameters);
    else initialise(spec, config_.training.seed, parameters);
    place_parameters(parameters, state_.state_layout(unit), device_, memory);
  }
}

void Training::take_over(int before, bool by_disk, const std::vector<std::int64_t>& damaged) {
  agree_on_data();
  std::int64_t newest = -1;
  if (!config_.checkpoint.directory.empty())
    newest = newest_checkpoint(config_.checkpoint.directory, INT64_MAX, ranks(), damaged);
  make_saver(newest >= 0 ? std::optional(newest) : std::nullopt, damaged, by_disk);
  // The generation before may still be about to commit a checkpoint; those before it have ended.
  clear_up(0, before);
}

// For rank 0: removes the checkpoints that generations [first, end) left unfinished. Nobody may write them any more.
// Other ones stay until this generation's first commit.
void Training::clear_up(int first, int end) {
  if (world_.rank() != 0 || config_.checkpoint.directory.empty()) return;
  try {
    saver_->clear_up(unfinished_folders(config_.checkpoint.directory, first, end));
  } catch (const Error& problem) {
    tell(problem.what());
  }
}

// `one_comes`: there will be one before the first step.
void Training::make_saver(std::optional<std::int64_t> last_good, std::vector<std::int64_t> damaged, bool one_comes) {
  CheckpointSaver::Setting setting{&config_,
                                   world_.rank(),
                                   world_.size(),
                                   generation_,
                                   to_facts(files_),
                                   last_good,
                                   std::move(damaged),
                                   [rank = world_.rank()](const std::string& what) {
                                     std::fprintf(stderr, "espalier: train: rank %d: %s\n", rank, what.c_str());
                                   }};
  // A later generation that finds none does not know how long the training has gone on without: one is due at once.
  // Generations that each end before the time is over would never write one.
  const bool is_due = generation_ > 0 && !one_comes;
  if (world_.rank() == 0)
    setting.age = last_good ? checkpoint_age(config_.checkpoint.directory, *last_good)
                  : is_due  ? 60 * config_.checkpoint.minutes
                            : 0;
  saver_.emplace(std::move(setting));
}

void Training::replanned(bool sent) {
  profiler_.begin_anew(sent);
  validating_ = 0;  // the new engine makes a validation that was stopped from its beginning
  if (metrics_)
    metrics_->replanned(describe(state_.plan()) + (sent ? " | searched lists" : ""), state_.plan().micro_batches);
}

void Training::open_metrics(std::optional<std::int64_t> done) {
  MetricsSetting setting{generation_, world_.size(), describe(state_.plan()), state_.plan().micro_batches,
                         config_.metrics.peak_tflops * 1e12};
  if (setting.peak_flops == 0) setting.peak_flops = config_.device.gflops * 1e9;
  if (setting.peak_flops == 0) setting.peak_flops = peak_flops(device_.name(), config_.training.dtype);
  metrics_.emplace(config_, std::move(setting), done);
  if (!config_.profile.path.empty())
    profiles_.emplace("profile.path", config_.profile.path,
                      generation_ == 0 ? LineFile::Absent::is_error : LineFile::Absent::is_told);
}

void Training::copy_state(Snapshot& snapshot) {
  std::vector<UnitState> units;
  for (const int unit : state_.units())
    units.push_back({&state_.spec(unit), state_.state_layout(unit), state_.allocation(unit).data()});
  take_snapshot(units, state_.self(), device_, snapshot);
}

StepReport Training::step(std::int64_t step, const std::function<bool()>& stop, const std::function<bool()>& kept) {
  StepReport report;
  profiler_.before(step);
  const Clock::time_point begin = Clock::now();
  try {
    report.outcome = state_.executor().run(step, data_, [&] { return Vote{stop(), kept(), saver_->vote()}; });
  } catch (const AgreedError&) {
    settle();  // the checkpoint being written is of a good step
    throw;
  }
  report.profile = profiler_.after(step);
  report.seconds = seconds_since(begin);
  profiler_.look_at_links();
  if (report.profile && profiles_) profiles_->append(Json(*report.profile).dump() + "\n");
  const StepOutcome& outcome = report.outcome;
  done_ = step;
  saver_->agreed(outcome.checkpoint);
  if (metrics_) {
    StepRecord record{step, outcome.loss, outcome.gradient_norm, outcome.learning_rate, report.seconds};
    if (config_.model.mtp_layers > 0) record.ahead_loss = outcome.ahead_loss;
    metrics_->record(record);
  }
  saver_->boundary(step, [this](Snapshot& snapshot) { copy_state(snapshot); });
  return report;
}

bool Training::validation_is_due(std::int64_t step) const {
  const std::int64_t every = config_.data.validate_every;
  return every > 0 && step > 0 && (step % every == 0 || step == config_.training.steps);
}

bool Training::after_step(std::int64_t step, const std::function<bool()>& stop) {
  return !validation_is_due(step) || validate(step, stop);
}

// Only rank 0 has the file.
bool Training::lacks_validation(std::int64_t step, bool is_first) {
  if (!validation_is_due(step)) return false;
  const bool there = metrics_ && ((is_first && !metrics_->has_file()) || metrics_->has_validation(step));
  return world_.minimum(there ? 0 : 1) > 0;
}

bool Training::validate(std::int64_t step, const std::function<bool()>& stop) {
  const Clock::time_point begin = Clock::now();
  const auto loss = state_.executor().evaluate(*validation_, config_.data.validation_samples, progress_, stop);
  validating_ += seconds_since(begin);
  if (!loss) return false;
  if (metrics_) metrics_->record_validation(step, *loss, validating_);
  validating_ = 0;
  return true;
}

CheckpointVote Training::sum(const CheckpointVote& vote) {
  std::array<double, 3> values = {vote.done, vote.failed, vote.asked};
  world_.sum(values);
  return {values[0], values[1], values[2]};
}

void Training::settle() {
  saver_->settle([this](const CheckpointVote& vote) { return sum(vote); }, progress_);
}

bool Training::save(std::int64_t step) {
  settle();
  if (saver_->has(step)) return true;
  saver_->begin(step, [this](Snapshot& snapshot) { copy_state(snapshot); });
  settle();
  return saver_->has(step);
}

void Training::load(std::int64_t step) {
  const std::string folder = checkpoint_folder(config_.checkpoint.directory, step);
  CheckpointReader checkpoint(folder);
  const std::string changed = changed_since(checkpoint.manifest().facts, "checkpoint " + folder, files_);
  if (!changed.empty() && !config_.data.changed) throw Error(changed + kRestoreData);
  checkpoint.verify(world_.rank(), world_.size());
  fill(&checkpoint);
}

void Training::finish() {
  settle();
  const std::int64_t last = config_.training.steps;
  if (done_ != last || !saver_->last_is_missing(last)) return;
  // The due checkpoint was left out while another was written, or failed for a reason that may be
  // gone.
  saver_->boundary(last, [this](Snapshot& snapshot) { copy_state(snapshot); });
  settle();
  if (saver_->last_is_missing(last))
    throw AgreedError(
        "training: all steps are done, but the checkpoint of the last one could not be written; make room in "
        "checkpoint.directory and start again from the one before");
}

}  // namespace espalier::torchrt
