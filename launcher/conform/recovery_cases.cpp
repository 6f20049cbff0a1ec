#include <set>

#include "launcher/conform/cases.hpp"

namespace espalier::launcher::conform {
namespace {

const std::set<std::string> kSources = {"generation", "earlier", "snapshot", "checkpoint", "start"};

// A generation that follows one that was lost. It finds out by itself where it goes on.
void recover(Stage& stage, Generation& lost, int replicas, std::int64_t newest) {
  const wire::Assign::Source source = lost.as_source(true);
  Generation next(stage, replicas);
  next.assign(source);
  next.ready();
  next.tell(wire::Checkpoint{});  // which may come at any time
  next.tell(wire::Load{-1, false});
  const wire::Loaded loaded = next.loaded(-1);
  if (!kSources.contains(loaded.from)) throw Failure("loaded.from: \"" + loaded.from + "\" is no source");
  if (loaded.step < 0 || loaded.step > newest + 1)
    throw Failure("loaded.step: " + std::to_string(loaded.step) + " after a loss at step " + std::to_string(newest));
  if (loaded.from == "start" && loaded.step != 0) throw Failure("loaded.step: must be 0 from \"start\"");
  next.record().trains_from(loaded.step);
  next.tell(wire::Commit{});
  next.trains_past(loaded.step + 3);
}

Case lost(const std::string& name, const std::string& title, int from, int to,
          const std::function<void(Stage&, Generation&)>& strike, bool brief = false) {
  const auto play = [from, to, strike](Stage& stage) {
    stage.forget_state();
    Generation first(stage, from);
    first.live();
    first.trains_past(first.record().step() + 10);
    strike(stage, first);
    recover(stage, first, to, first.record().step());
  };
  return {name, title, play, brief};
}

}  // namespace

std::vector<Case> recovery_cases() {
  const auto killed = [](Stage& stage, Generation& first) {
    first.processes().drop();
    stage.pass(0.5);
  };
  return {
      lost("recover", "after the loss of all ranks it goes on from what is left", 2, 2, killed, true),
      lost("recover-fewer", "it goes on with fewer ranks", 2, 1, killed),
      lost("recover-more", "it goes on with more ranks", 1, 2, killed),
      lost("recover-one-killed", "it goes on after one rank was killed and the other still waits for it", 2, 2,
           [](Stage& stage, Generation& first) {
             first.processes().kill(first.size() - 1);
             stage.pass(1);
             for (int rank = 0; rank < first.size(); ++rank) first.line(rank).close();
             first.processes().ends();
           }),
      lost("recover-from-nothing", "it begins anew, or from a checkpoint, where nothing is left in memory", 2, 2,
           [](Stage& stage, Generation& first) {
             first.processes().drop();
             stage.forget_state();
           }),
      {"recover-twice", "it goes on after the generation that recovered is lost as well",
       [](Stage& stage) {
         stage.forget_state();
         Generation first(stage, 2);
         first.live();
         first.trains_past(first.record().step() + 10);
         const std::int64_t newest = first.record().step();
         first.processes().drop();
         stage.pass(0.5);
         wire::Assign::Source source = first.as_source(true);
         Generation second(stage, 2);
         second.assign(source);
         second.ready();
         second.processes().drop();  // before it has loaded
         stage.pass(0.5);
         recover(stage, first, 2, newest);
       }},
  };
}

}  // namespace espalier::launcher::conform
