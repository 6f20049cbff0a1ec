#include "launcher/world/world.hpp"

#include <algorithm>
#include <csignal>

#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
// After the end of all ranks: how long their last words may be on their way, when all is well and when it is not.
constexpr wire::Loop::Milliseconds kLastFrames{5000}, kLastFramesOfFailure{100};
constexpr wire::Loop::Milliseconds kTermToKill{1500};
constexpr int kMissedHeartbeats = 10;
}  // namespace

World::World(wire::Loop& loop, const WorldRequest& request, const StartRanks& start, WorldCallbacks callbacks)
    : loop_(loop),
      generation_(request.generation),
      gpus_(request.gpus),
      places_(visible_places(request)),
      jobs_(jobs_of(request)),
      size_(static_cast<int>(request.gpus.size())),
      callbacks_(std::move(callbacks)) {
  RanksCallbacks on;
  on.ended = [this](int rank, int code) { rank_ended(rank, code); };
  on.lost = [this](const std::vector<int>& ranks, const std::string& why) { ranks_lost(ranks, why); };
  on.all_ended = [this](int code) { all_ended(code); };
  on.aborted = [this](int rank) { aborted_.insert(rank); };
  ranks_ = start(request, std::move(on));
}

World::~World() {
  *alive_ = false;
  for (auto& [rank, worker] : workers_) worker.connection->close();
}

void World::adopt(const wire::ConnectionPtr& connection, const wire::Hello& hello, bool in_place) {
  if (hello.rank < 0 || hello.rank >= size_)
    throw Error("worker: rank " + std::to_string(hello.rank) + " is not of a world of " + std::to_string(size_));
  const auto [at, fresh] = workers_.try_emplace(hello.rank, Worker{connection, hello.node});
  if (!fresh) throw Error("worker: rank " + std::to_string(hello.rank) + " is connected already");
  at->second.in_place = in_place;
  connection->on_frame = [this, rank = hello.rank](const wire::Frame& frame) { handle(rank, frame); };
  connection->on_closed = [this, rank = hello.rank](const std::string&) { closed(rank); };
  if (callbacks_.hello) callbacks_.hello(hello);
  if (retired_) connection->send(wire::Exit{});
  else if (assignment_) give_assignment(hello.rank);
}

// A rank that has said hello is missed when its connection closes, and may have said why it leaves.
void World::rank_ended(int rank, int code) {
  if (first_code_ == 0) first_code_ = code;
  if (retired_ || workers_.contains(rank) || code == 0 || generation_ == 0) return;
  absent_.insert(rank);  // also those that are told of while the loss waits
  lose("rank " + std::to_string(rank) + " on " + gpus_.at(static_cast<std::size_t>(rank)).node + " ended with code " +
           std::to_string(code) + " before it said hello (see what it has written)",
       1);
}

void World::ranks_lost(const std::vector<int>& ranks, const std::string& why) {
  if (retired_) return;
  server_gone_ = true;
  for (const int rank : ranks)
    if (!workers_.contains(rank)) absent_.insert(rank);
  lose(why, 1);
}

void World::assign(const Plan& plan, std::optional<wire::Assign::Source> source, Accuracy accuracy) {
  assignment_ = wire::Assign{plan, std::move(source), accuracy, std::nullopt, jobs_};
  for (const auto& [rank, worker] : workers_) give_assignment(rank);
}

void World::give_assignment(int rank) {
  wire::Assign own = *assignment_;
  own.device = places_.at(static_cast<std::size_t>(rank));
  workers_.at(rank).connection->send(own);
}

void World::request_switch(const Plan& next, int generation, const wire::GpuJobs& jobs) {
  boundary_ = 0;
  for (auto& [rank, worker] : workers_) {
    worker.standing = worker.switched = false;
    ++worker.unanswered;
  }
  send_all(wire::Switch{next, generation, jobs});
}

void World::send_all(const wire::Frame& frame) {
  for (auto& [rank, worker] : workers_) worker.connection->send(frame);
}

std::map<std::string, double> World::load_phases_ms() const {
  std::map<std::string, double> longest;
  for (const auto& [rank, worker] : workers_)
    for (const auto& [phase, ms] : worker.report.phases_ms) longest[phase] = std::max(longest[phase], ms);
  return longest;
}

World::MovedBytes World::moved_bytes() const {
  MovedBytes moved;
  std::map<std::string, std::int64_t> to_node;
  for (const auto& [rank, worker] : workers_) {
    moved.adopted += worker.report.bytes_adopted;
    moved.copied += worker.report.bytes_copied;
    moved.sent += worker.report.bytes_sent;
    moved.sent_early += worker.report.bytes_sent_early;
    moved.most_to_a_node = std::max(moved.most_to_a_node, to_node[worker.node] += worker.report.bytes_sent);
  }
  return moved;
}

bool World::all(bool Worker::*flag) const {
  if (static_cast<int>(workers_.size()) != size_) return false;
  for (const auto& [rank, worker] : workers_)
    if (!(worker.*flag)) return false;
  return true;
}

void World::handle(int rank, const wire::Frame& frame) {
  Worker& worker = workers_.at(rank);
  worker.missed = 0;
  if (lost_ && frame.type != wire::Failed::type && frame.type != wire::Done::type) return;
  const auto mark = [&](bool Worker::*flag, const std::function<void()>& callback) {
    worker.*flag = true;
    if (all(flag) && callback && !retired_) callback();
  };
  try {
    if (frame.type == wire::Step::type) {
      if (!retired_) callbacks_.step(wire::from_frame<wire::Step>(frame));
    } else if (frame.type == wire::Profiled::type) {
      if (!retired_) callbacks_.profiled(rank, frame);
    } else if (frame.type == wire::Ready::type) {
      mark(&Worker::ready, callbacks_.ready);
    } else if (frame.type == wire::Standing::type) {
      const auto standing = wire::from_frame<wire::Standing>(frame);
      if (worker.unanswered == 0) throw Error("worker: stands at a boundary that nobody asked for");
      if (worker.unanswered > 1 || worker.standing) return;  // for a switch that was given up
      take_boundary(standing.step);
      mark(&Worker::standing, callbacks_.standing);
    } else if (frame.type == wire::Switched::type) {
      const auto switched = wire::from_frame<wire::Switched>(frame);
      if (worker.unanswered == 0) throw Error("worker: stands at a boundary that nobody asked for");
      if (--worker.unanswered > 0) return;  // the answer to a switch that was given up
      take_boundary(switched.step);
      worker.problem = switched.problem;
      mark(&Worker::switched, [this] {
        for (const auto& [number, one] : workers_)
          if (!one.problem.empty()) return callbacks_.stays(one.problem);
        callbacks_.switched();
      });
    } else if (frame.type == wire::Loaded::type) {
      worker.report = wire::from_frame<wire::Loaded>(frame);
      take_loaded(worker.report);
      mark(&Worker::loaded, callbacks_.loaded);
    } else if (frame.type == wire::Notice::type) {
      if (!retired_) callbacks_.noticed(wire::from_frame<wire::Notice>(frame).job);
    } else if (frame.type == wire::Done::type) {
      worker.done = true;
    } else if (frame.type == wire::Failed::type) {
      take_last_words(rank, wire::from_frame<wire::Failed>(frame));
    } else if (frame.type == wire::Heartbeat::type) {
      worker.beats = true;
    } else {
      throw Error("worker: unknown message " + frame.type);
    }
  } catch (const Error& error) {
    lose("rank " + std::to_string(rank) + ": " + error.what(), 1);
  }
}

void World::take_boundary(std::int64_t step) {
  if (boundary_ != 0 && step != boundary_)
    throw Error("worker: two boundaries, " + std::to_string(boundary_) + " and " + std::to_string(step));
  boundary_ = step;
}

void World::take_loaded(const wire::Loaded& loaded) {
  if (taken_ && (taken_->step != loaded.step || taken_->from != loaded.from))
    throw Error("worker: took the state of step " + std::to_string(loaded.step) + ", another that of step " +
                std::to_string(taken_->step));
  taken_ = loaded;
}

void World::take_last_words(int rank, const wire::Failed& words) {
  Worker& worker = workers_.at(rank);
  worker.told = true;
  const std::string text = "rank " + std::to_string(rank) + " on " + worker.node + ": " + words.message;
  // The first failure is the cause; those of others follow from it.
  if (!words.peer && !own_failure_) {
    last_words_ = text;
    lacked_memory_ = words.memory;
  }
  own_failure_ = own_failure_ || !words.peer;
  if (words.peer) lose(text, 1);  // it may hang while it leaves
}

void World::beat() {
  if (lost_ || retired_) return;
  for (auto& [rank, worker] : workers_) {
    if (!worker.beats || worker.done || ++worker.missed <= kMissedHeartbeats) continue;
    const std::string why = "rank " + std::to_string(rank) + " on " + worker.node + " has been silent for " +
                            std::to_string(kMissedHeartbeats) + " heartbeats";
    died_.emplace(rank, why);
    lose(why, 1);
  }
}

void World::closed(int rank) {
  Worker& worker = workers_.at(rank);
  if (worker.done) return;
  if (retired_) {
    worker.done = true;
    return;
  }
  const std::string why = "rank " + std::to_string(rank) + " on " + worker.node + " was lost";
  if (!worker.told) died_.emplace(rank, why);
  lose(why, 1);
}

void World::lose(const std::string& why, int code) {
  if (lost_ || retired_) return;
  lost_ = true;
  // Rank servers may know better how a rank ended (its exit code), last words may be on their way, and a rank that only
  // cannot reach another may be faster than the news of that one's end: give them a moment.
  patience_ = loop_.after(wire::Loop::Milliseconds(100), [this, why, code] { callbacks_.lost(loss(why, code)); });
}

Loss World::loss(const std::string& why, int code) const {
  Loss loss{why,          exit_code_.value_or(0) != 0 ? *exit_code_ : first_code_ != 0 ? first_code_ : code,
            own_failure_, lacked_memory_,
            {},           {},
            server_gone_};
  for (const int rank : absent_) loss.absent.insert(gpus_.at(static_cast<std::size_t>(rank)));
  // Open MPI 5 aborts ranks that lose their connection to one that died. They are no cause where there is another.
  auto causes = died_;
  std::erase_if(causes, [this](const auto& one) { return aborted_.contains(one.first); });
  if (causes.empty()) causes = died_;
  for (const auto& [rank, words] : causes) loss.died.insert(gpus_.at(static_cast<std::size_t>(rank)));
  if (own_failure_) {
    loss.why = last_words_;
  } else if (!causes.empty()) {
    loss.why = causes.begin()->second;
    if (causes.size() > 1) loss.why += ", and " + std::to_string(causes.size() - 1) + " more";
  }
  return loss;
}

void World::all_ended(int code) {
  kill_.reset();
  exit_code_ = code;
  if (retired_) {
    patience_.reset();
    loop_.defer([alive = alive_, gone = callbacks_.gone] {
      if (*alive && gone) gone();
    });
  } else if (!lost_) {
    conclude_by_ = wire::steady_now() + (code == 0 ? kLastFrames : kLastFramesOfFailure);
    patience_ = loop_.after(kLastFramesOfFailure, [this] { conclude(); });
  }
}

void World::conclude() {
  if (retired_ || lost_) return;
  if (workers_.empty()) return callbacks_.finished(*exit_code_);  // it never spoke to us: its code is the job's
  if (*exit_code_ == 0 && all(&Worker::done)) return callbacks_.finished(0);
  if (wire::steady_now() < conclude_by_) {
    patience_ = loop_.after(kLastFramesOfFailure, [this] { conclude(); });
    return;
  }
  lose("the ranks of generation " + std::to_string(generation_) + " ended with code " + std::to_string(*exit_code_), 1);
}

void World::retire(wire::Loop::Milliseconds patience) {
  if (retired_) return;
  retired_ = true;
  send_all(wire::Exit{});
  if (!ranks_->running()) {
    loop_.defer([alive = alive_, gone = callbacks_.gone] {
      if (*alive && gone) gone();
    });
    return;
  }
  patience_ = loop_.after(patience, [this] { end_ranks(); });
}

void World::end_ranks() {
  ranks_->signal(SIGTERM);
  kill_ = loop_.after(kTermToKill, [this] { ranks_->signal(SIGKILL); });
}

}  // namespace espalier::launcher
