#include "launcher/conform/cases.hpp"

namespace espalier::launcher::conform {
namespace {

void demand(bool holds, const std::string& what) {
  if (!holds) throw Failure(what);
}

// The next generation beside a running one, ready to take its state.
struct Change {
  Stage& stage;
  Generation& before;
  Generation next;

  Change(Stage& the_stage, Generation& running, int replicas, bool elsewhere, Start start = {})
      : stage(the_stage), before(running), next(the_stage, replicas, spread(std::move(start), elsewhere)) {
    next.assign(before.as_source());
    next.ready();
    before.trains_past(before.record().step() + 1);  // the old one trains beside it
  }
  static Start spread(Start start, bool elsewhere) {
    start.spread = elsewhere;
    return start;
  }
  void ask() { before.tell(wire::Switch{next.plan(), next.number()}); }
  // All of the old generation stand and give. Returns the boundary.
  std::int64_t give() {
    ask();
    return before.stands();
  }
  void load(std::int64_t step) {
    next.tell(wire::Load{step, false});
    demand(next.loaded(step).from.empty(), "loaded.from: must be empty in a hand-off");
  }
  void commit(std::int64_t step) {
    next.record().trains_from(step);
    next.tell(wire::Commit{});
    before.tell(wire::Exit{});
    next.trains_past(step + 3);
    before.leaves_well();
  }
  void whole() {
    const std::int64_t step = give();
    load(step);
    commit(step);
  }
};

Case changed(const std::string& name, const std::string& title, int from, int to, bool elsewhere = false,
             bool brief = false) {
  const auto play = [from, to, elsewhere](Stage& stage) {
    Generation first(stage, from);
    first.live();
    Change(stage, first, to, elsewhere).whole();
  };
  return {name, title, play, brief};
}

// What happens to two replicas that were asked to stand, when there is no next generation for them.
Case asked(const std::string& name, const std::string& title,
           const std::function<void(Stage&, Generation&, const wire::Switch&)>& play, bool brief = false) {
  const auto whole = [play](Stage& stage) {
    Generation first(stage, 2);
    first.live();
    play(stage, first, wire::Switch{first.plan(), stage.fresh_number()});
  };
  return {name, title, whole, brief};
}

// Two replicas are asked whether they can go on with another plan, without another generation.
Case replanned(const std::string& name, const std::string& title,
               const std::function<void(Generation&, const Plan&)>& play) {
  const auto whole = [play](Stage& stage) {
    Generation first(stage, 2);
    first.live();
    if (!stage.program().in_place) throw Skip("it does not say that it can");
    play(first, first.plan());
    Change(stage, first, 1, false).whole();  // and it changes its processes from there
  };
  return {name, title, whole};
}

// In micro-batches of which there are more, or else fewer.
Plan in_other_micro_batches(Plan plan) {
  const int replicas = static_cast<int>(plan.stages.front().replicas.size());
  for (const int count : {2 * plan.micro_batches, plan.micro_batches / 2})
    if (count > 0 && plan.global_batch % (count * replicas) == 0) {
      plan.micro_batches = count;
      for (espalier::Stage& stage : plan.stages)
        for (Replica& replica : stage.replicas)
          replica.share = plan.micro_batch() / static_cast<int>(stage.replicas.size());
      return plan;
    }
  throw Skip("its global batch is divided in one way only");
}

// The next generation fails in some state; the old one must train on as if nothing had happened.
Case failed(const std::string& name, const std::string& title, const std::function<void(Change&)>& play) {
  const auto whole = [play](Stage& stage) {
    Generation first(stage, 1);
    first.live();
    {
      Change change(stage, first, 2, false);
      play(change);
    }
    first.trains_past(first.record().step() + 3);
    Change(stage, first, 2, false).whole();  // and a change is still possible
  };
  return {name, title, whole};
}

}  // namespace

std::vector<Case> change_cases() {
  return {
      changed("grow", "it grows from one replica to two, and no step is lost", 1, 2, false, true),
      changed("shrink", "it shrinks from two replicas to one, and no step is lost", 2, 1, false, true),
      changed("same-size", "it changes its processes on the same GPUs", 2, 2),
      changed("grow-by-more", "it grows from two replicas to three", 2, 3),
      changed("grow-elsewhere", "it grows to another node", 1, 2, true),
      {"change-twice", "it grows and shrinks again",
       [](Stage& stage) {
         Generation first(stage, 1);
         first.live();
         Change there(stage, first, 2, false);
         there.whole();
         Change(stage, there.next, 1, false).whole();
       }},
      {"change-of-unit", "it goes over to each other number of GPUs of a replica that it can run, and back",
       [](Stage& stage) {
         if (stage.program().units.size() < 2) throw Skip("its replicas always have as many GPUs");
         for (std::size_t i = 1; i < stage.program().units.size(); ++i) {
           Generation first(stage, 1);
           first.live();
           Start other;
           other.unit = stage.program().units[i];
           Change there(stage, first, 2, false, other);
           there.whole();
           Change(stage, there.next, 1, false).whole();
         }
       }},
      {"change-more-fields", "it takes `load`, `switch` and `exit` with fields that it does not know",
       [](Stage& stage) {
         Generation first(stage, 1);
         first.live();
         Change change(stage, first, 2, false);
         wire::Frame asked = wire::to_frame(wire::Switch{change.next.plan(), change.next.number()});
         asked.body["colour"] = "red";
         first.tell(asked);
         const std::int64_t step = first.stands();
         wire::Frame load = wire::to_frame(wire::Load{step, false});
         load.body["colour"] = {1, 2};
         change.next.tell(load);
         change.next.loaded(step);
         change.commit(step);
       }},
      asked(
          "switch-resume", "it stands at `switch`, all ranks after the same step, and trains on at `resume`",
          [](Stage&, Generation& first, const wire::Switch& message) {
            first.tell(message);
            const std::int64_t step = first.stands();
            first.tell(wire::Resume{});
            first.trains_past(step + 3);
          },
          true),
      asked("switch-stands", "it does no step while it stands",
            [](Stage& stage, Generation& first, const wire::Switch& message) {
              first.tell(message);
              const std::int64_t step = first.stands();
              stage.pass(2);
              demand(first.record().step() == step, "it trains on before `resume`");
              first.tell(wire::Resume{});
              first.trains_past(step + 2);
            }),
      asked(
          "switch-crossed", "it answers a `switch` whose `resume` comes before it stands",
          [](Stage&, Generation& first, const wire::Switch& message) {
            first.tell(message);
            first.tell(wire::Resume{});
            const std::int64_t step = first.stands();
            first.trains_past(step + 3);
          },
          true),
      asked("switch-twice", "it answers two switches one after the other",
            [](Stage&, Generation& first, const wire::Switch& message) {
              first.tell(message);
              first.stands();
              first.tell(wire::Resume{});
              first.tell(message);
              const std::int64_t step = first.stands();
              first.tell(wire::Resume{});
              first.trains_past(step + 3);
            }),
      asked("switch-crossed-twice", "it answers two switches that were both taken back before it stood",
            [](Stage&, Generation& first, const wire::Switch& message) {
              for (int i = 0; i < 2; ++i) {
                first.tell(message);
                first.tell(wire::Resume{});
              }
              first.stands();
              const std::int64_t step = first.stands();
              first.trains_past(step + 3);
            }),
      asked("switch-apart", "ranks that hear of a `switch` at different times stand after the same step",
            [](Stage& stage, Generation& first, const wire::Switch& message) {
              first.line(0).send(message);
              stage.pass(0.5);
              for (int rank = 1; rank < first.size(); ++rank) first.line(rank).send(message);
              const std::int64_t step = first.stands();
              first.tell(wire::Resume{});
              first.trains_past(step + 3);
            }),
      asked(
          "checkpoint-standing", "it trains on where `checkpoint` comes while it stands",
          [](Stage&, Generation& first, const wire::Switch& message) {
            first.tell(message);
            const std::int64_t step = first.stands();
            for (int i = 0; i < 2; ++i) first.tell(wire::Checkpoint{});
            first.tell(wire::Resume{});
            first.trains_past(step + 3);
          },
          true),
      asked("checkpoint-before-switch", "it stands where `checkpoint` comes before a `switch` that other ranks know of",
            [](Stage& stage, Generation& first, const wire::Switch& message) {
              first.line(0).send(message);
              stage.pass(0.5);
              first.tell(wire::Checkpoint{});
              stage.pass(0.5);
              for (int rank = 1; rank < first.size(); ++rank) first.line(rank).send(message);
              const std::int64_t step = first.stands();
              first.tell(wire::Resume{});
              first.trains_past(step + 3);
            }),
      asked("switch-exit", "it leaves with code 0 where `exit` comes while it stands",
            [](Stage&, Generation& first, const wire::Switch& message) {
              first.tell(message);
              first.stands();
              first.tell(wire::Exit{});
              first.leaves_well();
            }),
      asked("switch-launcher-gone", "it ends where the launcher dies while it stands",
            [](Stage&, Generation& first, const wire::Switch& message) {
              first.tell(message);
              first.stands();
              for (int rank = 0; rank < first.size(); ++rank) first.line(rank).close();
              first.processes().leaves_failed();
            }),
      replanned("replan", "it goes on with other micro-batches, and no step is lost",
                [](Generation& first, const Plan& plan) {
                  const Plan other = in_other_micro_batches(plan);
                  for (const Plan& next : {other, plan}) {
                    first.tell(wire::Switch{next, first.number()});
                    const std::int64_t step = first.stands();
                    first.tell(wire::Resume{next});
                    first.trains_past(step + 3);
                  }
                }),
      replanned("replan-given-up", "it goes on as before where `resume` has no plan",
                [](Generation& first, const Plan& plan) {
                  first.tell(wire::Switch{in_other_micro_batches(plan), first.number()});
                  const std::int64_t step = first.stands();
                  first.tell(wire::Resume{});
                  first.trains_past(step + 3);
                }),
      replanned("replan-moves", "it says that it cannot go on with a plan for which state would have to move",
                [](Generation& first, const Plan& present) {
                  Plan plan = present;
                  std::vector<espalier::Stage>& stages = plan.stages;
                  if (stages.size() > 1) std::swap(stages[0].replicas, stages[1].replicas);
                  else std::swap(stages[0].replicas[0].gpus, stages[0].replicas[1].gpus);
                  first.tell(wire::Switch{plan, first.number()});
                  for (const auto& switched : first.expect_all<wire::Switched>())
                    demand(!switched.problem.empty(), "switched.problem: must say why not");
                  const std::int64_t step = first.record().step();
                  first.tell(wire::Resume{});
                  first.trains_past(step + 3);
                }),
      failed("failed-ready", "the next generation is dropped when it is ready, and the old one trains on",
             [](Change& change) { change.next.processes().drop(); }),
      failed("failed-switched", "it is dropped when the old one stands",
             [](Change& change) {
               const std::int64_t step = change.give();
               change.next.processes().drop();
               change.before.tell(wire::Resume{});
               change.before.trains_past(step + 1);
             }),
      failed("failed-loaded", "it is dropped when it has loaded",
             [](Change& change) {
               const std::int64_t step = change.give();
               change.load(step);
               change.next.processes().drop();
               change.before.tell(wire::Resume{});
               change.before.trains_past(step + 1);
             }),
      failed("failed-exit", "it is told to leave when it has loaded, and leaves with code 0",
             [](Change& change) {
               const std::int64_t step = change.give();
               change.load(step);
               change.next.tell(wire::Exit{});
               change.next.leaves_well();
               change.before.tell(wire::Resume{});
               change.before.trains_past(step + 1);
             }),
      failed("load-other-step", "it fails where `load` names a step whose state is not there",
             [](Change& change) {
               const std::int64_t step = change.give();
               change.next.tell(wire::Load{step + 1, false});
               change.next.processes().leaves_failed();
               change.before.tell(wire::Resume{});
               change.before.trains_past(step + 1);
             }),
      {"given-later", "it takes a state that is announced before the last of it is there",
       [](Stage& stage) {
         Generation first(stage, 2);
         first.live();
         Change change(stage, first, 1, false);
         const std::int64_t step = change.give();
         change.next.tell(wire::Load{step, true});
         change.next.tell(wire::Given{});
         change.next.loaded(step);
         change.commit(step);
       }},
      {"load-old-gone", "it does not say `loaded` where the old generation is gone before it has its state",
       [](Stage& stage) {
         Generation first(stage, 1);
         first.live();
         Change change(stage, first, 1, false);
         const std::int64_t step = first.record().step();
         first.processes().drop();
         stage.pass(0.5);
         change.next.tell(wire::Load{step, false});
         stage.pass(5);
         if (change.next.record().has_said(0, wire::Loaded::type))
           throw Failure("it has loaded a state that is not there");
         for (int rank = 0; rank < change.next.size(); ++rank) change.next.line(rank).close();
         change.next.processes().leaves_failed();
       }},
  };
}

}  // namespace espalier::launcher::conform
