#include "planner/daemon/slurm_agent.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier {

// Outlives the agent when the thread hangs in a call.
struct SlurmAgent::Shared {
  using Done = std::function<void()>;
  using Work = std::function<Done(Slurm&)>;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Work> work;
  std::deque<Done> done;
  bool stopping = false, ended = false;
  int ready = -1;  // eventfd: `done` holds something
  std::unique_ptr<Slurm> slurm;

  ~Shared() {
    if (ready >= 0) ::close(ready);
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      if (work.empty()) {
        wake.wait(lock);
        continue;
      }
      const Work next = std::move(work.front());
      work.pop_front();
      lock.unlock();
      Done result = next(*slurm);
      lock.lock();
      done.push_back(std::move(result));
      const std::uint64_t one = 1;
      if (::write(ready, &one, sizeof one) < 0) continue;  // only when already signalled
    }
    lock.unlock();
    slurm.reset();
    lock.lock();
    ended = true;
    wake.notify_all();
  }
};

SlurmAgent::SlurmAgent(wire::Loop& loop, std::unique_ptr<Slurm> slurm) : shared_(std::make_shared<Shared>()) {
  shared_->slurm = std::move(slurm);
  shared_->ready = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (shared_->ready < 0) throw Error("Slurm agent: no file descriptor left; raise the limit (ulimit -n)");
  watch_ = loop.on_readable(shared_->ready, [shared = shared_] {
    std::uint64_t count = 0;
    if (::read(shared->ready, &count, sizeof count) < 0) return;
    std::deque<Shared::Done> results;
    {
      const std::lock_guard lock(shared->mutex);
      if (shared->stopping) return;
      results.swap(shared->done);
    }
    for (const auto& result : results) result();
  });
  std::thread([shared = shared_] { shared->run(); }).detach();
}

SlurmAgent::~SlurmAgent() { stop(); }

bool SlurmAgent::stop() {
  if (std::exchange(stopped_, true)) return ended_;
  watch_.reset();
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->work.clear();
  shared_->done.clear();
  shared_->wake.notify_all();
  ended_ = shared_->wake.wait_for(lock, std::chrono::seconds(2), [this] { return shared_->ended; });
  return ended_;
}

void SlurmAgent::request(std::function<std::function<void()>(Slurm&)> work) {
  const std::lock_guard lock(shared_->mutex);
  shared_->work.push_back(std::move(work));
  shared_->wake.notify_one();
}

void SlurmAgent::snapshot(OnSnapshot done) {
  request([done = std::move(done)](Slurm& slurm) -> std::function<void()> {
    auto result = std::make_shared<Snapshot>();
    try {
      *result = slurm.snapshot();
    } catch (const std::exception& error) {
      *result = std::string(error.what());
    }
    return [done, result] { done(std::move(*result)); };
  });
}

void SlurmAgent::names(OnNames done) {
  request([done = std::move(done)](Slurm& slurm) -> std::function<void()> {
    auto result = std::make_shared<Names>();
    try {
      *result = slurm.names();
    } catch (const std::exception& error) {
      *result = std::string(error.what());
    }
    return [done, result] { done(*result); };
  });
}

void SlurmAgent::act(std::function<void(Slurm&)> act, OnDone done) {
  request([act = std::move(act), done = std::move(done)](Slurm& slurm) -> std::function<void()> {
    std::string error;
    try {
      act(slurm);
    } catch (const std::exception& problem) {
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
