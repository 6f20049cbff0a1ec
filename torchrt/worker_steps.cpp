#include "torchrt/worker_steps.hpp"

#include <utility>

#include "planner/core/error.hpp"
#include "planner/wire/links_field.hpp"
#include "torchrt/handoff/state_address.hpp"
#include "torchrt/print_checksum.hpp"
#include "torchrt/schedule/must_run.hpp"
#include "torchrt/schedule/sent_lists.hpp"
#include "torchrt/schedule_options.hpp"
#include "torchrt/tell_of_own_lists.hpp"

namespace espalier::torchrt {

void WorkerSteps::train(std::int64_t done) {
  parts_.kept.equip();
  const double tokens = static_cast<double>(parts_.config.training.global_batch) * parts_.config.model.sequence;
  const auto switch_requested = [this] {
    const bool wanted = parts_.session.switch_wanted();
    if (parts_.session.take_checkpoint()) parts_.training.ask_checkpoint();
    return wanted;
  };
  // Asked in validations.
  const std::function<bool()> stop = [&] {
    tell_notice();
    return switch_requested();
  };
  if (done > 0 && parts_.training.lacks_validation(done, parts_.is_first)) {
    // The copies of the generation before may end with the GPUs that have left, and a validation may take long.
    parts_.kept.boundary(done);
    stand_while(!parts_.training.after_step(done, stop), done, stop);
  }
  const auto kept = [this] { return parts_.kept.keeps(); };
  for (std::int64_t step = done + 1; step <= parts_.config.training.steps; ++step) {
    parts_.server.mark(-1);
    const StepReport report = parts_.training.step(step, switch_requested, kept);
    parts_.server.mark(step);
    // Those who take over make a snapshot after their first step. Where nobody does, it is made after the boundary.
    if (!report.outcome.switch_agreed) parts_.kept.boundary(step);
    if (parts_.world.rank() == 0)
      parts_.session.step({step, report.outcome.loss, report.seconds, tokens / report.seconds, report.outcome.kept});
    if (report.profile)
      parts_.session.profile(
          wire::with_links(wire::to_frame(wire::Profiled{*report.profile}), parts_.training.links()));
    tell_notice();
    // At the very end there is nothing left to hand over: `done` answers the request.
    const bool last = step == parts_.config.training.steps;
    const bool wanted = report.outcome.switch_agreed && !last;
    stand_while(wanted || !parts_.training.after_step(step, last ? nullptr : stop), step, stop);
  }
  parts_.training.finish();
  parts_.session.done(parts_.config.training.steps);
}

// Slurm signals the steps of an extension, not its batch script: only we hear of a preemption at once.
void WorkerSteps::tell_notice() {
  if (take_notice() && parts_.environment.extension != 0) parts_.session.notice(parts_.environment.extension);
}

// Stands at the boundary after `step` for as long as somebody asks for it. A validation that is due after that step
// is made afterwards, by those who go on: a queued job does not wait for it.
void WorkerSteps::stand_while(bool wanted, std::int64_t step, const std::function<bool()>& stop) {
  while (wanted) {
    parts_.kept.before_change();
    stand(step);
    parts_.kept.boundary(step);
    wanted = !parts_.training.after_step(step, stop);
  }
}

// At the boundary after `step`, until the launcher says `resume` (returns) or `exit` (throws LeaveNow).
void WorkerSteps::stand(std::int64_t step) {
  const wire::Switch& request = parts_.session.stand();
  if (parts_.checksum) print_checksum(parts_.state, parts_.world, parts_.environment.generation, step);
  if (request.generation == parts_.environment.generation)
    return go_on_in_place(step, request.next, parts_.session.lists());
  const auto address_of = [&](int new_rank) {
    return state_address(parts_.environment.token, request.generation, new_rank);
  };
  wire::Switched switched{step};
  if (!through_disk(parts_.config.handoff.method))
    switched.problem =
        departure_.emplace(parts_.server).give(parts_.state, parts_.world, parts_.device, request, address_of, [&] {
          parts_.session.standing(step);
        });
  else if (!parts_.training.save(step))
    switched.problem = "the checkpoint of step " + std::to_string(step) + " could not be written";
  // The new generation takes its first step beside this one.
  try {
    parts_.session.switched(switched, [&] { parts_.state.compute().release_memory(); });
  } catch (const LeaveNow&) {
    parts_.training.leave();
    throw;
  }
  departure_.reset();
}

// At the boundary after `step`: the launcher asks whether this generation can take the plan, and the lists for it if
// there are any. Lists from the user's file come back where a plan comes without.
void WorkerSteps::go_on_in_place(std::int64_t step, const Plan& next, const std::string& csv) {
  std::string problem = parts_.state.unfit_in_place(next);
  std::shared_ptr<const pipeline::Schedule> lists = parts_.own_lists;
  try {
    if (problem.empty() && !csv.empty())
      lists = sent_lists(csv, make_layout(next, parts_.config.model.blocks()), schedule_options(parts_.config, next),
                         messages_of(parts_.device.kind()));
  } catch (const Error& error) {
    problem = error.what();
  }
  const bool sent = !csv.empty();
  const std::optional<Plan> plan = parts_.session.switched({step, problem}, [] {});
  if (!plan) return;  // not all ranks can, or the launcher has given the change up
  parts_.config.training.given_schedule = std::move(lists);
  parts_.state.replan(*plan);
  if (!sent) tell_of_own_lists(parts_.own_lists, parts_.state, parts_.world);
  parts_.kept.equip();
  parts_.training.replanned(sent);
}

}  // namespace espalier::torchrt
