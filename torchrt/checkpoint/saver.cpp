#include "torchrt/checkpoint/saver.hpp"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/facts.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/checkpoint/write_part.hpp"

namespace espalier::torchrt {

namespace {

// The thread is detached, so that a rank that must leave now does not wait for a disk.
std::future<void> in_background(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

CheckpointSaver::CheckpointSaver(Setting setting) : setting_(std::move(setting)), agreement_(setting_.ranks) {
  if (!setting_.time) setting_.time = steady_seconds;
  begun_ = setting_.time() - setting_.age;
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
  agreement_.begin(step);
  result_ = {};
  if (!copy_) copy_ = std::make_shared<Snapshot>();
  snapshot(*copy_);
  const std::string folder = unfinished_folder(setting_.config->checkpoint.directory, step, setting_.generation);
  work_ = in_background([folder, copy = copy_, rank = setting_.rank] { write_part(folder, rank, *copy); });
}

CheckpointVote CheckpointSaver::vote() {
  if (work_.valid() && work_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) conclude();
  CheckpointVote vote = result_;
  vote.asked = std::exchange(asked_, false) || (setting_.rank == 0 && is_time()) ? 1 : 0;
  return vote;
}

void CheckpointSaver::conclude() {
  result_.done = 1;
  try {
    work_.get();
  } catch (const std::exception& problem) {
    result_.failed = 1;
    setting_.tell("checkpoint of step " + std::to_string(agreement_.step()) + ": " + problem.what() +
                  "; training goes on, " + last_good());
  }
}

void CheckpointSaver::give_up() {
  work_ = {};
  copy_.reset();  // the thread may still read the copy
  result_ = {1, 1};
  setting_.tell("checkpoint of step " + std::to_string(agreement_.step()) + ": " +
                setting_.config->checkpoint.directory + " does not answer; " + last_good());
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
  if (agreement_.committed()) {
    setting_.last_good = agreement_.step();
    std::erase(setting_.damaged, agreement_.step());
  }
  if (setting_.rank == 0) work();
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
    work_ = in_background([=, generation = setting_.generation, ranks = setting_.ranks, keep = config.checkpoint.keep,
                           damaged = setting_.damaged, tell = setting_.tell] {
      commit_checkpoint(unfinished_folder(directory, step, generation), checkpoint_folder(directory, step), ranks,
                        manifest);
      try {
        prune_checkpoints(directory, step, keep, damaged);
      } catch (const Error& problem) {  // the checkpoint itself is good
        tell(problem.what());
      }
    });
  } else if (agreement_.phase() == CheckpointPhase::clearing) {
    work_ = in_background([directory] { remove_unfinished(directory); });
  }
}

void CheckpointSaver::settle(const std::function<CheckpointVote(const CheckpointVote&)>& sum) {
  while (agreement_.phase() != CheckpointPhase::idle) {
    if (work_.valid() && work_.wait_for(setting_.patience) != std::future_status::ready) give_up();
    agreed(sum(vote()));
  }
}

}  // namespace espalier::torchrt
