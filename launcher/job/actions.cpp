// The machine side: events through the transition table, and what each action does.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "launcher/job/launcher.hpp"
#include "launcher/process/child.hpp"
#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

// Those on an extension that goes end MPI together with the others; without them these would wait in vain.
constexpr wire::Loop::Milliseconds kRanksLeave{500};
// At the end of the job: for rank servers to end, and for a reader of the output that is slow.
constexpr std::chrono::milliseconds kServersLeave{1000}, kOutputLeaves{10000};

double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

void Launcher::raise(Event event, const std::string& why, bool by_world) {
  events_.push_back({event, why, by_world});
  // Never from inside the callback that raised it: it may destroy the object that called.
  loop_.defer([this] {
    if (events_.empty()) return;
    const Raised next = events_.front();
    events_.pop_front();
    process(next.event, next.why);
    // What waited for a quiet moment.
    if (phase_ == JobPhase::running && events_.empty()) answer_notices();
  });
}

void Launcher::process(Event event, const std::string& why) {
  const Row* row = transition(phase_, event);
  if (row == nullptr) {
    spdlog::debug("launch: {} means nothing in state {}", to_string(event), to_string(phase_));
    return;
  }
  const JobPhase from = phase_;
  if (change_ && !why.empty()) change_->why_aborted = why;
  if (event == Event::terminate) exit_code_ = 128 + SIGTERM;
  const bool losing = event == Event::current_lost || event == Event::current_failed || event == Event::unrecoverable;
  if (losing && row->to == JobPhase::ending) {
    spdlog::error("espalier: launch: {}; the job ends", why);
    if (exit_code_ == 0) exit_code_ = loss_code_.value_or(1);
  } else if (losing || from == JobPhase::recovering) {
    if (event == Event::current_lost) note_loss(why);
    if (event == Event::next_failed) recovery_->last_try = why;
    spdlog::debug("launch: {}: {}", to_string(event), why);  // one message per loss, when all about it is known
  } else if (!why.empty()) {
    spdlog::info("espalier: launch: {}: {}", to_string(event), why);
  }
  phase_ = row->to;
  spdlog::debug("launch: {} --{}--> {}", to_string(from), to_string(event), to_string(phase_));
  planner_->report(wire::Transition{context_.job, wire::unix_seconds(), to_string(from), to_string(event),
                                    to_string(phase_), generation_, change_ ? change_->decision.id : 0});
  for (const Action action : row->actions) perform(action);
  // A notice that came between the proposal and this state.
  if (change_ && (phase_ == JobPhase::acquiring || phase_ == JobPhase::starting || phase_ == JobPhase::ready ||
                  phase_ == JobPhase::switching || phase_ == JobPhase::saving))
    for (const JobId id : extensions_->noticed())
      if (!leaves(id)) raise(Event::notice_breaks, "Slurm takes back extension " + std::to_string(id));
  if (phase_ != JobPhase::ending) entered(phase_);
}

// Events that a world raised before it was dropped say nothing about the one in its place.
void Launcher::forget_events(bool of_next) {
  std::erase_if(events_, [&](const Raised& waiting) {
    using enum Event;
    const Event event = waiting.event;
    if (of_next) return event == next_ready || event == next_failed || event == next_loaded;
    // The launcher's own failure still ends the job.
    return event == old_stands || event == old_switched || event == current_finished || event == current_lost ||
           (event == current_failed && waiting.by_world);
  });
}

void Launcher::drop(std::unique_ptr<World>& world) {
  if (!world) return;
  if (&world != &current_) crowded_until_ = wire::steady_now();
  const int generation = world->generation();
  world.reset();  // its processes first: they are writing there
  directory_.remove_generation(generation);
}

void Launcher::entered(JobPhase phase) {
  set_deadline(phase);
  watch_steps();
  planner_->report(wire::Status{state()});
}

void Launcher::set_deadline(JobPhase phase) {
  const auto give_up = [this](int seconds, Event event, const char* what) {
    deadline_ = loop_.after(std::chrono::seconds(seconds), [this, seconds, event, what] {
      raise(event, std::string(what) + " within " + std::to_string(seconds) + " s");
    });
  };
  const auto& config = context_.config;
  // A boundary is a step away, and a step may take longer than the site has thought of.
  const int at_a_boundary = boundary_seconds(config.switch_seconds, config.hang_seconds,
                                             std::max(step_seconds_, last_step_seconds_), handoff_);
  switch (phase) {
    case JobPhase::launching:
      return give_up(std::max(config.start_seconds, config.hang_seconds), Event::current_failed,
                     "the program spoke the worker protocol, and not all of its ranks were ready");
    case JobPhase::starting:
      return give_up(config.start_seconds + static_cast<int>(std::lround(2 * early_seconds_)), Event::next_failed,
                     "the next generation was not ready");
    case JobPhase::ready:
      return give_up(at_a_boundary, Event::next_failed, "the running generation did not reach a boundary");
    case JobPhase::switching:
      return give_up(at_a_boundary, Event::next_failed, "the state did not arrive");
    case JobPhase::recovering:
      if (!next_) return deadline_.reset();
      if (!recovery_->at.contains("ready"))
        return wait_for_start(Event::next_failed, "the next generation was not ready in time");
      return give_up(std::max(config.switch_seconds, config.hang_seconds), Event::next_failed,
                     "the state was not there");
    case JobPhase::committed:
      return give_up(10, Event::old_gone, "the old generation did not leave");
    case JobPhase::saving:
      return give_up(at_a_boundary, Event::next_failed, "the running generation did not save its state at a boundary");
    case JobPhase::restarting:
      return wait_for_start(Event::current_lost,
                            "the old generation has ended, and the next one was not ready in time");
    default:
      deadline_.reset();
  }
}

// Once all workers of the next generation are there they may read a checkpoint, which takes its time.
void Launcher::wait_for_start(Event event, const char* why) {
  const std::chrono::seconds start(context_.config.start_seconds);
  deadline_ = loop_.after(start, [this, start, event, why] {
    const std::chrono::seconds more = std::chrono::seconds(context_.config.hang_seconds) - start;
    if (!next_ || !next_->everyone_said_hello() || more <= std::chrono::seconds(0)) return raise(event, why);
    deadline_ = loop_.after(more, [this, event, why] { raise(event, why); });
  });
}

void Launcher::perform(Action action) {
  switch (action) {
    case Action::start_training:
      measured_.start = milliseconds(wire::steady_now() - started_at_) / 1000;
      if (current_) current_->send_all(wire::Commit{});
      return;
    case Action::submit_extensions:
      return extensions_->acquire(change_->decision.acquire);
    case Action::cancel_acquired:
      return extensions_->cancel_acquired();
    case Action::start_next:
      return start_next();
    case Action::abort_next:
      drop(next_);
      return forget_events(true);
    case Action::send_switch:
      change_->at["asked"] = wire::steady_now();
      // Whoever reads the checkpoint is not there yet, and the old generation does not need to know who it is.
      return current_->request_switch(change_->decision.plan, next_ ? next_->generation() : last_generation_ + 1);
    case Action::begin_load:
      change_->load_begun = true;
      return next_->send_all(wire::Load{current_->boundary(), true});
    case Action::send_load:
      change_->at["boundary"] = wire::steady_now();
      change_->boundary = current_->boundary();
      if (change_->load_begun) return next_->send_all(wire::Given{});
      return next_->send_all(wire::Load{current_->boundary()});
    case Action::resume_old:
      return current_->send_all(wire::Resume{});
    case Action::end_old:
      change_->at["boundary"] = wire::steady_now();
      change_->boundary = current_->boundary();
      leaving_ = std::move(current_);
      return leaving_->retire(std::chrono::seconds(2));
    case Action::commit:
      return commit();
    case Action::release_leaving:
      for (const JobId id : change_->decision.release)
        extensions_->release(id, leaving_ ? kRanksLeave : wire::Loop::Milliseconds{});
      return;
    case Action::kill_old:
      drop(leaving_);
      return extensions_->release_now();
    case Action::abort_current:
      return abort_current();
    case Action::start_recovery:
      return start_recovery();
    case Action::send_recover:
      return send_recover();
    case Action::commit_recovery:
      return commit_recovery();
    case Action::report_committed:
      change_.reset();  // the report follows with the first step of the new generation, which completes the figures
      return;
    case Action::report_aborted:
      // A loss has its own message.
      spdlog::log(phase_ == JobPhase::recovering ? spdlog::level::debug : spdlog::level::warn,
                  "espalier: launch: {} given up: {}; training goes on", to_string(change_->decision.kind),
                  change_->why_aborted);
      report("aborted: " + change_->why_aborted);
      // What failed at once would fail at once again.
      if (change_->decision.id == 0)
        retry_notices_ = loop_.after(std::chrono::seconds(1), [this] {
          retry_notices_.reset();
          answer_notices();
        });
      change_.reset();
      return;
    case Action::end_job:
      return end_job();
  }
}

std::unique_ptr<World> Launcher::make_world(int generation, const Plan& plan, bool first) {
  WorldRequest request;
  request.generation = generation;
  request.gpus = plan.ranks();
  request.holdings = all_holdings(true);
  request.program = context_.program;
  request.network = context_.config.network;
  request.directory = directory_.generation(generation).string();
  request.first = first;
  request.environment = clean_environment(environment(generation));
  // Only the world that is current or next may raise events: one that was destroyed has no callbacks left.
  WorldCallbacks on;
  on.hello = [this](const wire::Hello& hello) { first_hello(hello); };
  on.step = [this, generation](const wire::Step& step) {
    if (current_ && current_->generation() == generation) stepped(step);
  };
  on.profiled = [this, generation](int rank, const wire::Frame& frame) {
    if (!current_ || current_->generation() != generation) return;
    if (const std::string why = profiles_.take(frame, rank, plan_, model_); !why.empty())
      spdlog::warn("espalier: launch: {}; it is not passed on", why);
  };
  on.noticed = [this](JobId extension) { extensions_->notice(extension); };
  on.ready = [this, first] {
    if (change_) change_->at["ready"] = wire::steady_now();
    raise(first ? Event::world_ready : Event::next_ready);
  };
  on.standing = [this] { raise(Event::old_stands); };
  on.switched = [this] { raise(Event::old_switched); };
  on.stays = [this](const std::string& why) { raise(Event::next_failed, why); };
  on.loaded = [this] { raise(Event::next_loaded); };
  on.finished = [this, generation](int code) {
    if (next_ && next_->generation() == generation) return next_lost("it ended with code " + std::to_string(code));
    exit_code_ = code;
    raise(Event::current_finished);
  };
  on.lost = [this, generation](const Loss& loss) { lost(generation, loss); };
  on.gone = [this] {
    world_gone_ = phase_ == JobPhase::ending;
    raise(Event::old_gone);
  };
  const auto start = [this](const WorldRequest& wanted, RanksCallbacks callbacks) {
    return rank_servers_->run(wanted, std::move(callbacks));
  };
  return std::make_unique<World>(loop_, request, start, std::move(on));
}

void Launcher::start_next() {
  Plan& plan = change_->decision.plan;
  // The planner named GPUs; Slurm chose which it really gave. Provisional ones become those.
  std::map<GpuId, GpuId> real;
  std::map<std::string, std::vector<int>> granted;
  std::set<GpuId> held;
  for (const Holding& holding : all_holdings(true))
    for (const int index : holding.gpus)
      if (extensions_->acquired(holding.job)) granted[holding.node].push_back(index);
      else held.insert({holding.node, index});
  try {
    for (Stage& stage : plan.stages)
      for (Replica& replica : stage.replicas)
        for (GpuId& gpu : replica.gpus) {
          if (held.contains(gpu)) continue;
          auto& left = granted[gpu.node];
          if (left.empty()) throw Error("the plan uses a GPU of " + gpu.node + " that was not granted");
          gpu.index = left.front();
          left.erase(left.begin());
        }
    next_ = make_world(++last_generation_, plan, false);
    // Without a source it starts from the newest checkpoint.
    early_seconds_ = early_seconds(step_seconds_, context_.config.start_seconds,
                                   !change_->decision.release.empty() || !extensions_->noticed().empty());
    next_->assign(
        plan, current_ ? std::optional(wire::Assign::Source{generation_, plan_, false, early_seconds_}) : std::nullopt,
        context_.accuracy);
  } catch (const Error& error) {
    next_.reset();
    next_lost(error.what());
  }
}

// Once the old generation has ended, the next one is all there is.
void Launcher::next_lost(const std::string& why) {
  raise(phase_ == JobPhase::restarting ? Event::current_lost : Event::next_failed, why);
}

void Launcher::commit() {
  next_->send_all(wire::Commit{});
  change_->at["commit"] = wire::steady_now();
  change_->load_phases_ms = next_->load_phases_ms();
  if (current_) {
    leaving_ = std::move(current_);
    leaving_->retire(std::chrono::seconds(2));
  }
  succeed(change_->decision.plan, change_->boundary);
  extensions_->keep_acquired();
  step_seconds_ = 0;
  profiles_.forget();
  spdlog::info("espalier: launch: {} committed at step {}: generation {}, {}", to_string(change_->decision.kind),
               change_->boundary, generation_, describe(plan_));
  if (const World::MovedBytes moved = current_->moved_bytes(); leaving_)
    spdlog::info(
        "espalier: launch: generation {} has adopted {} bytes, copied {}, and got {} from other nodes, at most {} on "
        "one; {} had come before the pause",
        generation_, moved.adopted, moved.copied, moved.sent, moved.most_to_a_node, moved.sent_early);
  change_->at["last_step"] = last_step_at_;
  awaiting_first_step_ = std::move(change_);
  // release_leaving needs the decision still
  change_ = Change{awaiting_first_step_->decision, {}, "", 0};
}

void Launcher::finish_pause(std::int64_t step, std::optional<double> step_seconds) {
  Change change = std::move(*awaiting_first_step_);
  awaiting_first_step_.reset();
  const auto between = [&](const char* from, const char* to) {
    return change.at.contains(from) && change.at.contains(to) ? milliseconds(change.at[to] - change.at[from]) : 0.0;
  };
  wire::Outcome outcome;
  outcome.job = context_.job;
  outcome.decision = change.decision.id;
  outcome.kind = change.decision.kind;
  outcome.result = "committed";
  outcome.generation = generation_;
  outcome.step = change.boundary;
  outcome.plan = plan_;
  const double first_step = milliseconds(wire::steady_now() - change.at["commit"]);
  const double resume = step_seconds ? std::max(0.0, first_step - *step_seconds * 1000) : 0.0;
  // The pause: from the end of the last step on the old generation to the start of the first on the new one.
  outcome.pause_ms = between("last_step", "commit") + resume;
  const bool restarted = change.at["ready"] > change.at["boundary"];
  outcome.phases_ms = {{"acquire", between("proposed", "acquired")},
                       {"start", between(restarted                        ? "boundary"
                                         : change.at.contains("acquired") ? "acquired"
                                                                          : "proposed",
                                         "ready")},
                       {"boundary", between("asked", "boundary")},
                       {"stand", between("last_step", "boundary")},
                       {"load", between(restarted ? "ready" : "boundary", "commit")},
                       {"resume", resume},
                       {"first_step", first_step}};
  for (const auto& [phase, ms] : change.load_phases_ms) outcome.phases_ms["load_" + phase] = ms;
  measured_ = measured_phases(outcome.phases_ms, current_ && current_->moved_bytes().sent_early > 0);
  spdlog::info("espalier: launch: paused {:.1f} ms between step {} and {} (acquire {:.0f} ms, start {:.0f} ms{})",
               outcome.pause_ms, change.boundary, step, outcome.phases_ms["acquire"], outcome.phases_ms["start"],
               restarted ? " of it" : " beside training");
  planner_->report_outcome(outcome);
}

void Launcher::report(const std::string& result) {
  wire::Outcome outcome;
  outcome.job = context_.job;
  outcome.decision = change_->decision.id;
  outcome.kind = change_->decision.kind;
  outcome.result = result;
  outcome.generation = generation_;
  outcome.step = step_;
  outcome.plan = plan_;
  planner_->report_outcome(outcome);
}

void Launcher::end_job() {
  deadline_.reset();
  protocol_deadline_.reset();
  next_.reset();
  leaving_.reset();
  extensions_->release_all();
  if (awaiting_first_step_) finish_pause(step_);
  if (recovery_) finish_recovery(recovery_->taken ? "committed" : "aborted: training did not go on");
  planner_->leave({context_.job, exit_code_});
  for (const AnchorKeeper& keeper : anchor_keepers_)
    if (keeper.connection) keeper.connection->send(wire::GiveBack{});
  if (exit_code_ == 128 + SIGTERM && !speaks_protocol_ && current_) {
    // A program of its own kind, which heard the signal too, may want to save its work: it has as long as Slurm gives
    // it.
    const std::chrono::seconds patience(context_.site.kill_wait_seconds > 0 ? context_.site.kill_wait_seconds : 30);
    current_->retire(patience);
    return finish_when_released(wire::steady_now() + patience + std::chrono::seconds(4));
  }
  if (current_) current_->retire(std::chrono::milliseconds(500));
  world_gone_ = true;
  finish_when_released(wire::steady_now() + std::chrono::seconds(4));
}

void Launcher::finish_when_released(Clock::time_point give_up) {
  // Keepers see the control socket close and give back by themselves; waiting only makes the usual case tidy.
  if ((extensions_->empty() && world_gone_) || wire::steady_now() >= give_up) {
    slurm_.drain(std::chrono::seconds(1));
    rank_servers_->leave();
    ending_ =
        loop_.after(std::chrono::milliseconds(20), [this] { finish_when_left(wire::steady_now() + kServersLeave); });
    return;
  }
  ending_ = loop_.after(std::chrono::milliseconds(20), [this, give_up] { finish_when_released(give_up); });
}

// An srun that ends by itself leaves Slurm nothing to repeat; one that is killed holds its step's GPUs for two seconds.
void Launcher::finish_when_left(Clock::time_point give_up) {
  if (rank_servers_->left() || wire::steady_now() >= give_up) {
    rank_servers_->finish_output(kOutputLeaves);
    return loop_.stop();
  }
  ending_ = loop_.after(std::chrono::milliseconds(10), [this, give_up] { finish_when_left(give_up); });
}

}  // namespace espalier::launcher
