#include "torchrt/checkpoint/saver.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/facts.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/checkpoint/write_part.hpp"
#include "torchrt/recovery/host_memory.hpp"

namespace espalier::torchrt {

namespace {

// Two copies of the state in host memory: that of a thread that is stuck, and that of the attempt under way.
constexpr std::size_t kMostStuck = 1;
constexpr int kMostDoubled = 2;
// Two votes are a step apart. So much longer than the one before no step takes, but for a validation.
constexpr double kStalledSeconds = 60, kFarLonger = 10;
constexpr std::chrono::milliseconds kSettles{50};  // between two votes of ranks that only wait

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::int64_t bytes_of(const Snapshot& snapshot) {
  std::size_t floats = 0;
  for (const SnapshotPart& part : snapshot.memory) floats += part.count;
  return static_cast<std::int64_t>(floats * sizeof(float));
}

}  // namespace

CheckpointSaver::CheckpointSaver(Setting setting) : setting_(std::move(setting)), agreement_(setting_.ranks) {
  if (!setting_.time) setting_.time = steady_seconds;
  begun_ = setting_.time() - setting_.age;
}

void CheckpointSaver::leave() const {
  const bool writes = agreement_.phase() == CheckpointPhase::writing;
  const bool commits = agreement_.phase() == CheckpointPhase::committing && !(work_.under_way() && work_.ended());
  if (setting_.rank != 0 || (!writes && !commits)) return;
  setting_.tell(of_step() + "dropped, because the plan changes before all of it is on disk; the next one that is due " +
                "is written; " + last_good());
}

void CheckpointSaver::clear_up(const std::vector<std::string>& folders) const {
  if (folders.empty()) return;
  const auto remove = [folders, tell = setting_.tell](WriteProgress&) {
    for (const std::string& folder : folders) {
      try {
        remove_checkpoint(folder);
      } catch (const Error& problem) {
        tell(problem.what());
      }
    }
  };
  try {
    BackgroundWork().start("removing unfinished checkpoints", awake(), remove);
  } catch (const std::system_error&) {  // no thread; the next commit removes them
  }
}

bool CheckpointSaver::is_time() const {
  const CheckpointConfig& checkpoint = setting_.config->checkpoint;
  return !checkpoint.directory.empty() && checkpoint.minutes > 0 && !wanted_ &&
         agreement_.phase() == CheckpointPhase::idle && setting_.time() - begun_ >= 60 * checkpoint.minutes;
}

bool CheckpointSaver::due(std::int64_t step) const {
  const CheckpointConfig& checkpoint = setting_.config->checkpoint;
  if (checkpoint.directory.empty()) return false;
  return step == setting_.config->training.steps || (checkpoint.every > 0 && step % checkpoint.every == 0);
}

void CheckpointSaver::boundary(std::int64_t step, const std::function<void(Snapshot&)>& snapshot) {
  if (!due(step) && !(wanted_ && agreement_.phase() == CheckpointPhase::idle)) return;
  if (agreement_.phase() != CheckpointPhase::idle) {
    if (told_ > 0) return tell_stuck("it is waited for");
    if (setting_.rank == 0 && step != setting_.config->training.steps)
      setting_.tell("checkpoint of step " + std::to_string(step) + ": left out, that of step " +
                    std::to_string(agreement_.step()) + " is still being written; raise checkpoint.every");
    return;
  }
  begin(step, snapshot);
}

void CheckpointSaver::begin(std::int64_t step, const std::function<void(Snapshot&)>& snapshot) {
  wanted_ = false;
  begun_ = setting_.time();
  started_ = awake();
  agreement_.begin(step);
  result_ = {};
  if (!has_room()) {
    result_ = {1, 1};
    return;
  }
  told_ = 0;
  begin_work([&] {
    if (!copy_) copy_ = std::make_shared<Snapshot>();
    snapshot(*copy_);
    work_.start("writing " + folder() + "/" + part_file(setting_.rank), awake(),
                [folder = folder(), copy = copy_, rank = setting_.rank](WriteProgress& progress) {
                  write_part(folder, rank, *copy, progress);
                });
  });
}

void CheckpointSaver::begin_work(const std::function<void()>& start) {
  std::string problem;
  try {
    return start();
  } catch (const std::bad_alloc&) {
    copy_.reset();  // before anything else: training itself needs memory
    problem = " has no memory for it; ask Slurm for more (--mem)";
  } catch (const std::system_error& error) {
    copy_.reset();
    problem = std::string(" cannot make a thread: ") + error.what() + "; raise the limit of processes (ulimit -u)";
  }
  result_ = {1, 1};
  setting_.tell(of_step() + "rank " + std::to_string(setting_.rank) + " on " + host_name() + problem +
                "; training goes on, " + last_good());
}

// Once more than kMostStuck threads are stuck this rank writes nothing, and the checkpoint fails on all ranks.
bool CheckpointSaver::has_room() {
  std::erase_if(stuck_, [](const BackgroundWork& one) { return one.ended(); });
  if (stuck_.empty() || copy_) return true;  // with `copy_` there is memory already
  const bool few = stuck_.size() <= kMostStuck;
  if (few && free_host_memory() > 2 * stuck_bytes_) return true;
  setting_.tell(of_step() + "rank " + std::to_string(setting_.rank) + " on " + host_name() + " still waits for " +
                stuck_.back().what() + " of an attempt before" +
                (few ? ", and its host has no memory for another copy of the state" : "") +
                "; no checkpoint is written until that has ended; look at the file system of checkpoint.directory; " +
                last_good());
  return false;
}

CheckpointVote CheckpointSaver::vote() {
  look_at_clock();
  watch();
  CheckpointVote vote = result_;
  vote.asked = std::exchange(asked_, false) || (setting_.rank == 0 && is_time()) ? 1 : 0;
  return vote;
}

double CheckpointSaver::limit() const {
  const double patience = std::chrono::duration<double>(setting_.patience).count();
  return std::max(patience, 3 * lasted_) * (1 << std::min(given_up_, kMostDoubled));
}

void CheckpointSaver::look_at_clock() {
  const double now = setting_.time(), between = now - looked_;
  if (looked_ > 0) {
    if (between > kStalledSeconds + kFarLonger * between_) asleep_ += between;
    between_ = between;
  }
  looked_ = now;
}

void CheckpointSaver::watch() {
  if (!work_.under_way()) return;
  if (work_.ended()) return conclude();
  const double now = awake();
  if (work_.stands_still(now) < limit()) {
    told_ = 0;
    return;
  }
  if (agreement_.phase() != CheckpointPhase::committing || settling_) return give_up();
  // Told again when another checkpoint would be due by time. One that is due by its step is told in boundary().
  const double again = std::max(limit(), 60 * setting_.config->checkpoint.minutes);
  if (told_ == 0 || now - told_ >= again) tell_stuck("it is waited for");
}

void CheckpointSaver::tell_stuck(const std::string& then) {
  told_ = awake();
  setting_.tell(of_step() + "rank " + std::to_string(setting_.rank) + " on " + host_name() + " has not finished " +
                work_.what() + " and has got no further for " + std::to_string(std::lround(work_.stands_still(told_))) +
                " s; " + then + "; look at the file system of checkpoint.directory; " + last_good());
}

void CheckpointSaver::conclude() {
  result_.done = 1;
  try {
    work_.take();
  } catch (const std::exception& problem) {
    result_.failed = 1;
    setting_.tell(of_step() + problem.what() + "; training goes on, " + last_good());
  }
}

// A thread that writes a part, or that clears up, only touches the folder of its own attempt, so it may go on.
void CheckpointSaver::give_up() {
  tell_stuck("it is given up, and the next one that is due is tried");
  work_.give_up();
  if (agreement_.phase() == CheckpointPhase::writing) {
    ++given_up_;
    stuck_bytes_ = bytes_of(*copy_);
    stuck_.push_back(std::move(work_));
    copy_.reset();  // the thread may still read the copy
  } else if (agreement_.phase() == CheckpointPhase::committing) {
    spared_.push_back(folder());
  }
  work_ = {};
  result_ = {1, 1};
}

std::string CheckpointSaver::last_good() const {
  if (!setting_.last_good) return "there is no good checkpoint yet";
  return "the last good one is of step " + std::to_string(*setting_.last_good);
}

void CheckpointSaver::agreed(const CheckpointVote& sum) {
  if (sum.asked > 0 && !setting_.config->checkpoint.directory.empty()) wanted_ = true;
  const CheckpointPhase before = agreement_.phase();
  agreement_.advance(sum);
  if (agreement_.phase() == before) return;
  result_ = {};
  told_ = 0;
  if (agreement_.committed()) {
    setting_.last_good = agreement_.step();
    std::erase(setting_.damaged, agreement_.step());
    lasted_ = awake() - started_;
    given_up_ = 0;
  }
  if (setting_.rank == 0) begin_work([this] { work(); });
  if (before == CheckpointPhase::clearing) ++attempt_;
}

std::string CheckpointSaver::folder() const {
  return unfinished_folder(setting_.config->checkpoint.directory, agreement_.step(), setting_.generation, attempt_);
}

void CheckpointSaver::work() {
  const Config& config = *setting_.config;
  const std::string& directory = config.checkpoint.directory;
  const std::int64_t step = agreement_.step();
  if (agreement_.phase() == CheckpointPhase::committing) {
    Manifest manifest;
    manifest.step = step;
    manifest.samples = static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(config.training.global_batch);
    manifest.facts = checkpoint_facts(config);
    manifest.facts.update(setting_.data);
    work_.start(
        "writing " + folder() + "/" + kManifestFile, awake(),
        [=, folder = folder(), ranks = setting_.ranks, keep = config.checkpoint.keep, generation = setting_.generation,
         damaged = setting_.damaged, spared = spared_, tell = setting_.tell](WriteProgress& progress) {
          commit_checkpoint(folder, checkpoint_folder(directory, step), ranks, manifest, progress);
          try {
            prune_checkpoints(directory, step, keep, generation, damaged, spared);
          } catch (const Error& problem) {  // the checkpoint itself is good
            tell(problem.what());
          }
        });
  } else if (agreement_.phase() == CheckpointPhase::clearing) {
    if (!spared_.empty() && spared_.back() == folder()) {
      result_ = {1, 0};
      return;
    }
    work_.start("removing " + folder(), awake(), [folder = folder()](WriteProgress&) { remove_checkpoint(folder); });
  }
}

void CheckpointSaver::settle(const std::function<CheckpointVote(const CheckpointVote&)>& sum,
                             const std::function<void()>& waits) {
  settling_ = true;
  while (agreement_.phase() != CheckpointPhase::idle) {
    if (work_.under_way()) work_.ended(kSettles);
    agreed(sum(vote()));
    if (waits) waits();
  }
  settling_ = false;
}

}  // namespace espalier::torchrt
