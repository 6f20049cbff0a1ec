#include "launcher/world/world.hpp"

#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"
#include "planner/wire/progress_field.hpp"
#include "planner/wire/switch_lists.hpp"

namespace espalier::launcher {
namespace {
// After the end of all ranks: how long their last words may be on their way, when all is well and when it is not.
constexpr wire::Loop::Milliseconds kLastFrames{5000}, kLastFramesOfFailure{100};
// From the first sign of a loss until it is told.
constexpr wire::Loop::Milliseconds kVerdict{100};

std::string of_rank(int rank, const std::string& node) { return "rank " + std::to_string(rank) + " on " + node; }
}  // namespace

World::World(wire::Loop& loop, const WorldRequest& request, const StartRanks& start, WorldCallbacks callbacks)
    : loop_(loop),
      generation_(request.generation),
      jobs_(jobs_of(request)),
      callbacks_(std::move(callbacks)),
      workers_(loop, visible_places(request)),
      switch_answers_(static_cast<int>(request.gpus.size())),
      loads_(static_cast<int>(request.gpus.size())),
      evidence_(request.gpus),
      departure_(loop, started(request, start), callbacks_.gone) {}

World::~World() { workers_.close(); }

// The ranks are the last that the constructor makes: `start` calls nothing back before it returns.
std::unique_ptr<Ranks> World::started(const WorldRequest& request, const StartRanks& start) {
  RanksCallbacks on;
  on.ended = [this, gpus = request.gpus](int rank, int code) {
    rank_ended(rank, code, gpus.at(static_cast<std::size_t>(rank)).node);
  };
  on.lost = [this](const std::vector<int>& ranks, const std::string& why) { ranks_lost(ranks, why); };
  on.all_ended = [this](int code) { all_ended(code); };
  on.aborted = [this](int rank) { evidence_.aborted(rank); };
  return start(request, std::move(on));
}

void World::adopt(const wire::ConnectionPtr& connection, const wire::Hello& hello, const wire::Capabilities& can) {
  workers_.adopt(connection, hello, can);
  connection->on_frame = [this, rank = hello.rank](const wire::Frame& frame) { handle(rank, frame); };
  connection->on_closed = [this, rank = hello.rank](const std::string&) { closed(rank); };
  if (callbacks_.hello) callbacks_.hello(hello);
  if (departure_.begun()) connection->send(wire::Exit{});
  else workers_.give_assignment(hello.rank);
}

// A rank that has said hello is missed when its connection closes, and may have said why it leaves.
void World::rank_ended(int rank, int code, const std::string& node) {
  evidence_.rank_ended(code);
  if (departure_.begun() || workers_.knows(rank) || code == 0 || generation_ == 0) return;
  evidence_.absent(rank);  // also those that are told of while the loss waits
  lose(of_rank(rank, node) + " ended with code " + std::to_string(code) +
       " before it said hello (see what it has written)");
}

void World::ranks_lost(const std::vector<int>& ranks, const std::string& why) {
  if (departure_.begun()) return;
  evidence_.server_gone();
  for (const int rank : ranks)
    if (!workers_.knows(rank)) evidence_.absent(rank);
  lose(why);
}

void World::assign(const Plan& plan, std::optional<wire::Assign::Source> source, Accuracy accuracy) {
  workers_.assign({plan, std::move(source), accuracy, std::nullopt, jobs_});
}

void World::request_switch(const Plan& next, int generation, const wire::GpuJobs& jobs, const std::string& lists) {
  switch_answers_.ask(workers_.ranks());
  send_all(wire::with_lists(wire::to_frame(wire::Switch{next, generation, jobs}), lists));
}

// The answers may come while the next change is under way, and would end that one with the reason of this one.
void World::give_up_switch() {
  switch_answers_.give_up();
  send_all(wire::Resume{});
}

void World::handle(int rank, const wire::Frame& frame) {
  workers_.heard(rank);
  if (lost_ && frame.type != wire::Failed::type && frame.type != wire::Done::type) return;
  try {
    read(rank, frame);
  } catch (const Error& error) {
    lose("rank " + std::to_string(rank) + ": " + error.what());
  }
}

void World::read(int rank, const wire::Frame& frame) {
  const bool stays = !departure_.begun();
  const auto call = [stays](const std::function<void()>& callback) {
    if (callback && stays) callback();
  };
  if (frame.type == wire::Step::type) {
    if (stays) callbacks_.step(wire::from_frame<wire::Step>(frame));
  } else if (frame.type == wire::Profiled::type) {
    if (stays) callbacks_.profiled(rank, frame);
  } else if (frame.type == wire::Ready::type) {
    const auto ready = wire::from_frame<wire::Ready>(frame);
    if (callbacks_.heard_ready) callbacks_.heard_ready(rank, ready);
    if (workers_.ready(rank)) call(callbacks_.ready);
  } else if (frame.type == wire::Standing::type) {
    if (switch_answers_.stands(rank, wire::from_frame<wire::Standing>(frame))) call(callbacks_.standing);
  } else if (frame.type == wire::Switched::type) {
    if (!switch_answers_.switched(rank, wire::from_frame<wire::Switched>(frame)) || !stays) return;
    if (const std::string problem = switch_answers_.problem(); !problem.empty()) return callbacks_.stays(problem);
    callbacks_.switched();
  } else if (frame.type == wire::Loaded::type) {
    if (loads_.took(rank, workers_.node(rank), wire::from_frame<wire::Loaded>(frame))) call(callbacks_.loaded);
  } else if (frame.type == wire::Notice::type) {
    if (stays) callbacks_.noticed(wire::from_frame<wire::Notice>(frame).job);
  } else if (frame.type == wire::Done::type) {
    workers_.done(rank);
  } else if (frame.type == wire::Failed::type) {
    const auto words = wire::from_frame<wire::Failed>(frame);
    const std::string text = of_rank(rank, workers_.node(rank)) + ": " + words.message;
    workers_.told(rank);
    evidence_.last_words(text, words);
    if (words.peer) lose(text);  // it may hang while it leaves
  } else if (frame.type == wire::Heartbeat::type) {
    workers_.beats(rank);
    if (wire::tells_progress(frame)) call(callbacks_.progressed);
  } else {
    throw Error("worker: unknown message " + frame.type);
  }
}

void World::beat() {
  if (lost_ || departure_.begun()) return;
  for (const int rank : workers_.silent()) {
    const std::string why = of_rank(rank, workers_.node(rank)) + " has been silent for " +
                            std::to_string(workers_.may_miss(rank)) + " heartbeats";
    evidence_.died(rank, why);
    lose(why);
  }
}

void World::closed(int rank) {
  workers_.gone(rank);
  if (workers_.is_done(rank)) return;
  if (departure_.begun()) return workers_.done(rank);
  const std::string why = of_rank(rank, workers_.node(rank)) + " was lost";
  if (!workers_.has_told(rank)) evidence_.died(rank, why);
  lose(why);
}

void World::lose(const std::string& why) {
  if (lost_ || departure_.begun()) return;
  lost_ = true;
  // Rank servers may know better how a rank ended (its exit code), last words may be on their way, and a rank that only
  // cannot reach another may be faster than the news of that one's end: give them a moment.
  verdict_ = loop_.after(kVerdict, [this, why] { callbacks_.lost(evidence_.loss(why)); });
}

void World::all_ended(int code) {
  evidence_.all_ended(code);
  departure_.all_ended();
  if (departure_.begun() || lost_) return;
  const auto by = wire::steady_now() + (code == 0 ? kLastFrames : kLastFramesOfFailure);
  verdict_ = loop_.after(kLastFramesOfFailure, [this, by] { conclude(by); });
}

void World::conclude(std::chrono::steady_clock::time_point by) {
  if (departure_.begun() || lost_) return;
  const int code = *evidence_.exit_code();
  if (workers_.none()) return callbacks_.finished(code);  // it never spoke to us: its code is the job's
  if (code == 0 && workers_.all_done()) return callbacks_.finished(0);
  if (wire::steady_now() < by) {
    verdict_ = loop_.after(kLastFramesOfFailure, [this, by] { conclude(by); });
    return;
  }
  lose("the ranks of generation " + std::to_string(generation_) + " ended with code " + std::to_string(code));
}

void World::retire(wire::Loop::Milliseconds patience) {
  if (departure_.begun()) return;
  verdict_.reset();
  send_all(wire::Exit{});
  departure_.begin(patience);
}

}  // namespace espalier::launcher
