#include <csignal>

#include "launcher/conform/cases.hpp"

namespace espalier::launcher::conform {
namespace {

// Two replicas that train. `play` does to them what it does; afterwards they are killed.
Case trained(const std::string& name, const std::string& title, const std::function<void(Stage&, Generation&)>& play,
             bool brief = false) {
  const auto whole = [play](Stage& stage) {
    Generation generation(stage, 2);
    generation.live();
    play(stage, generation);
  };
  return {name, title, whole, brief};
}

void goes_on(Generation& generation) { generation.trains_past(generation.record().step() + 3); }

void each_line(Generation& generation, const std::function<void(Line&)>& act) {
  for (int rank = 0; rank < generation.size(); ++rank) act(generation.line(rank));
}

// Every rank got what its launcher cannot have sent. One that looks ends; others may wait for it, until the launcher
// ends the generation.
void falls(Stage& stage, Generation& generation) {
  stage.until([&] { return generation.processes().any_ended(); }, stage.patience());
  if (!generation.processes().any_ended()) throw Failure("no rank has ended in time");
  each_line(generation, [](Line& line) { line.close(); });
  generation.processes().leaves_failed();
}

}  // namespace

std::vector<Case> running_cases() {
  return {
      trained(
          "steps", "steps come from rank 0 alone, one after the other",
          [](Stage&, Generation& generation) { generation.trains_past(generation.record().step() + 20); }, true),
      trained("heartbeats", "every rank sends heartbeats, or none does",
              [](Stage& stage, Generation& generation) {
                int beating = 0;
                std::vector<int> before;
                for (int rank = 0; rank < generation.size(); ++rank)
                  before.push_back(generation.record().heartbeats(rank));
                stage.pass(10 * stage.settings().heartbeat);
                for (int rank = 0; rank < generation.size(); ++rank) {
                  if (generation.record().heartbeats(rank) > 0) ++beating;
                  if (generation.record().heartbeats(rank) > 0 &&
                      generation.record().heartbeats(rank) == before[static_cast<std::size_t>(rank)])
                    throw Failure("rank " + std::to_string(rank) + " sent none for ten intervals");
                }
                if (beating != 0 && beating != generation.size()) throw Failure("only some ranks send heartbeats");
              }),
      trained("profile", "what it measures fits its plan",
              [](Stage& stage, Generation& generation) {
                stage.until([&] { return generation.record().profiles() > 0 || generation.processes().ended(); },
                            stage.patience());
                goes_on(generation);  // throws where a profile was unfit
                if (generation.record().profiles() == 0) throw Skip("the program sends no profile");
              }),
      trained("checkpoint", "it trains on after `checkpoint`",
              [](Stage&, Generation& generation) {
                generation.tell(wire::Checkpoint{});
                goes_on(generation);
              }),
      trained("checkpoint-often", "it trains on after twenty of them",
              [](Stage&, Generation& generation) {
                for (int i = 0; i < 20; ++i) generation.tell(wire::Checkpoint{});
                goes_on(generation);
              }),
      trained(
          "term", "it outlives SIGTERM, which is the launcher's to answer",
          [](Stage&, Generation& generation) {
            generation.processes().signal(SIGTERM);
            goes_on(generation);
          },
          true),
      trained("unread", "it trains on, or waits, while the launcher reads nothing, and loses no message",
              [](Stage& stage, Generation& generation) {
                each_line(generation, [](Line& line) { line.read(false); });
                stage.pass(3);
                each_line(generation, [](Line& line) { line.read(true); });
                goes_on(generation);  // throws where a step is missing
              }),
      trained("exit", "it leaves with code 0 at `exit`",
              [](Stage&, Generation& generation) {
                generation.tell(wire::Exit{});
                generation.leaves_well();
              }),
      trained(
          "launcher-gone", "it ends where the launcher dies, also while it waits for another rank",
          [](Stage&, Generation& generation) {
            each_line(generation, [](Line& line) { line.close(); });
            generation.processes().leaves_failed();
          },
          true),
      trained("launcher-gone-for-one", "a rank whose stream alone is lost ends",
              [](Stage& stage, Generation& generation) {
                generation.line(generation.size() - 1).close();
                stage.pass(1);
                each_line(generation, [](Line& line) { line.close(); });
                generation.processes().leaves_failed();
              }),
      trained("running-unknown", "it ends where an unknown message comes while it trains",
              [](Stage& stage, Generation& generation) {
                generation.tell(wire::Frame{"dance", Json::object()});
                falls(stage, generation);
              }),
      trained("running-assign", "it ends where an assignment comes while it trains",
              [](Stage& stage, Generation& generation) {
                generation.tell(generation.assignment());
                falls(stage, generation);
              }),
      trained("running-large", "it ends where a frame of 100 MB is announced while it trains",
              [](Stage& stage, Generation& generation) {
                each_line(generation, [](Line& line) { line.send_bytes(std::string("ESP\2\x05\xf5\xe1\0{", 9)); });
                falls(stage, generation);
              }),
      trained("running-tag", "it ends where a frame has a wrong tag while it trains",
              [](Stage& stage, Generation& generation) {
                each_line(generation, [](Line& line) {
                  line.send_bytes(wire::encode({"exit", Json::object()}) + std::string(16, 'x'));
                });
                falls(stage, generation);
              }),
      trained("peer-killed", "no rank says `done` where another is killed",
              [](Stage& stage, Generation& generation) {
                generation.processes().kill(generation.size() - 1);
                stage.pass(5);
                for (int rank = 0; rank < generation.size(); ++rank)
                  if (generation.record().has_said(rank, wire::Done::type)) throw Failure("a rank says `done`");
                each_line(generation, [](Line& line) { line.close(); });
                generation.processes().leaves_failed();
              }),
      {"done", "every rank says `done` after its last step, and ends with code 0",
       [](Stage& stage) {
         if (stage.settings().steps_option.empty())
           throw Skip("needs --steps-option, the program's option for its number of steps");
         Start start;
         start.steps = 5;
         Generation generation(stage, 2, start);
         generation.assign();
         if (generation.hello()->hello.total_steps != 5)
           throw Failure("hello.total_steps: is not what " + stage.settings().steps_option + " says");
         generation.ready();
         generation.tell(wire::Commit{});
         for (const wire::Done& done : generation.expect_all<wire::Done>())
           if (done.step != 5) throw Failure("done.step: is " + std::to_string(done.step) + ", not 5");
         if (generation.record().step() != 5) throw Failure("step 5 was not reported before `done`");
         generation.leaves_well();
       },
       true},
  };
}

}  // namespace espalier::launcher::conform
