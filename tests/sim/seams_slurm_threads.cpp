// The threads that ask Slurm, on virtual time: one call after the other, each takes its time. They replace
// launcher/process/blocking_thread.cpp and planner/daemon/slurm_agent.cpp.
#include "launcher/process/blocking_thread.hpp"
#include "planner/core/error.hpp"
#include "tests/sim/event_base.hpp"
#include "tests/sim/history.hpp"

namespace espalier::launcher {

using sim::history;

// ---- the launcher's thread for Slurm: one call after the other, each takes its time

namespace {
std::map<const void*, sim::PartyPtr>& callers() {
  static std::map<const void*, sim::PartyPtr> parties;
  return parties;
}
}  // namespace

BlockingThread::BlockingThread(wire::Loop& loop) : shared_(std::make_shared<Shared>()) {
  callers()[shared_.get()] = loop.base()->party;
}
BlockingThread::~BlockingThread() {
  shared_->stop = true;
  // The process was killed. slurmctld may still carry out the call that was in progress.
  if (shared_->busy && !shared_->work.empty() && history().slurm->answers() && history().random.chance(0.5))
    shared_->work.front()();
  shared_->work.clear();
  callers().erase(shared_.get());
}
void BlockingThread::post(std::function<std::function<void()>()> work) {
  shared_->work.push_back(std::move(work));
  serve(shared_);
}
void BlockingThread::post_first(std::function<std::function<void()>()> work) {
  const bool behind = shared_->busy && !shared_->work.empty();
  shared_->work.insert(shared_->work.begin() + (behind ? 1 : 0), std::move(work));
  serve(shared_);
}
bool BlockingThread::drain(std::chrono::milliseconds) {
  const auto work = std::exchange(shared_->work, {});
  if (!history().slurm->answers()) return work.empty();
  for (const auto& one : work) one();
  return true;
}
void BlockingThread::serve(const std::shared_ptr<Shared>& shared) {
  if (shared->busy || shared->stop || shared->work.empty()) return;
  shared->busy = true;
  const auto party = callers().at(shared.get());
  history().call_slurm(party->node, [shared, party] {
    shared->busy = false;
    if (shared->stop || shared->work.empty()) return;
    const auto work = std::move(shared->work.front());
    shared->work.pop_front();
    const auto result = work();
    auto& timeline = history().timeline;
    if (result) timeline.at(timeline.now() + history().random.real(0, 0.003), party, result);
    serve(shared);
  });
}

}  // namespace espalier::launcher

namespace espalier {

using sim::history;

// ---- the daemon's side

struct SlurmAgent::Shared {
  using Done = std::function<void()>;
  std::unique_ptr<Slurm> slurm;
  sim::PartyPtr party;
  std::deque<std::function<Done(Slurm&)>> work;
  bool busy = false, stopped = false;

  static void serve(const std::shared_ptr<Shared>& shared) {
    if (shared->busy || shared->stopped || shared->work.empty()) return;
    shared->busy = true;
    history().call_slurm(shared->party->node, [shared] {
      shared->busy = false;
      if (shared->stopped || shared->work.empty()) return;
      const auto work = std::move(shared->work.front());
      shared->work.pop_front();
      const Done done = work(*shared->slurm);
      auto& timeline = history().timeline;
      timeline.at(timeline.now() + history().random.real(0, 0.003), shared->party, [shared, done] {
        if (!shared->stopped) done();
      });
      serve(shared);
    });
  }
};

SlurmAgent::SlurmAgent(wire::Loop& loop, std::unique_ptr<Slurm> slurm) : shared_(std::make_shared<Shared>()) {
  shared_->slurm = std::move(slurm);
  shared_->party = loop.base()->party;
}
SlurmAgent::~SlurmAgent() { stop(); }
bool SlurmAgent::stop() {
  shared_->stopped = true;
  shared_->work.clear();
  return true;
}
void SlurmAgent::request(std::function<std::function<void()>(Slurm&)> work) {
  shared_->work.push_back(std::move(work));
  Shared::serve(shared_);
}
void SlurmAgent::snapshot(OnSnapshot done) {
  request([done = std::move(done)](Slurm& slurm) -> std::function<void()> {
    auto result = std::make_shared<Snapshot>();
    try {
      *result = slurm.snapshot();
    } catch (const Error& error) {
      *result = std::string(error.what());
    }
    return [done, result] { done(std::move(*result)); };
  });
}
void SlurmAgent::act(std::function<void(Slurm&)> act, OnDone done) {
  request([act = std::move(act), done = std::move(done)](Slurm& slurm) -> std::function<void()> {
    std::string error;
    try {
      act(slurm);
    } catch (const Error& problem) {
      error = problem.what();
    }
    return [done, error] { done(error); };
  });
}
void SlurmAgent::kill(JobId job, OnDone done) {
  act([job](Slurm& slurm) { slurm.kill(job); }, std::move(done));
}
void SlurmAgent::prolong(JobId job, int minutes, OnDone done) {
  act([job, minutes](Slurm& slurm) { slurm.prolong(job, minutes); }, std::move(done));
}

}  // namespace espalier
