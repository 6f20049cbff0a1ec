#include <unistd.h>

#include <csignal>

#include "launcher/conform/cases.hpp"

namespace espalier::launcher::conform {
namespace {

void demand(bool holds, const std::string& what) {
  if (!holds) throw Failure(what);
}

// The worker gets an assignment with these changes, which it cannot follow. It ends by itself, before `ready`.
Case misassigned(const std::string& name, const std::string& title, std::function<void(wire::Frame&)> change,
                 bool brief = false) {
  const auto play = [change = std::move(change)](Stage& stage) {
    Generation generation(stage, 1);
    wire::Frame assign = wire::to_frame(generation.assignment());
    change(assign);
    generation.tell(assign);
    generation.processes().leaves_failed();
    if (generation.record().has_said(0, wire::Ready::type))
      throw Failure("it said `ready` with a plan that it cannot follow");
  };
  return {name, title, play, brief};
}

// All ranks are ready, and then get something else than `commit`.
Case instead_of_commit(const std::string& name, const std::string& title, const wire::Frame& frame) {
  return {name, title, [frame](Stage& stage) {
            Generation generation(stage, 1);
            generation.assign();
            generation.ready();
            generation.tell(frame);
            generation.processes().leaves_failed();
          }};
}

Json& first_stage(wire::Frame& assign) { return assign.body["plan"]["stages"][0]; }

}  // namespace

std::vector<Case> start_cases() {
  return {
      {"hello", "its hello says who it is",
       [](Stage& stage) {
         Generation generation(stage, 2);
         generation.say_hello();
         const wire::Hello& hello = generation.hello()->hello;
         demand(!hello.node.empty(), "hello.node: is empty");
         demand(hello.pid > 1 && ::kill(hello.pid, 0) == 0, "hello.pid: is no process of this user");
         demand(hello.total_steps > 0, "hello.total_steps: must be above 0");
         demand(hello.model.global_batch > 0, "hello: has no global batch");
       },
       true},
      {"start", "two replicas say ready, and train after `commit` and not before",
       [](Stage& stage) {
         Generation generation(stage, 2);
         generation.assign();
         generation.ready();
         stage.pass(1);
         demand(generation.record().step() < 0, "it sent `step` before `commit`");
         generation.tell(wire::Commit{});
         stage.until([&] { return generation.record().step() > 0; }, stage.patience());
         demand(generation.record().step() == 1, "its first `step` is not step 1");
         generation.trains_past(5);
       },
       true},
      {"start-more-fields", "it takes an assignment with fields that it does not know",
       [](Stage& stage) {
         Generation generation(stage, 1);
         wire::Frame assign = wire::to_frame(generation.assignment());
         assign.body["colour"] = "red";
         assign.body["plan"]["weather"] = {{"sun", true}};
         first_stage(assign)["mood"] = 7;
         generation.tell(assign);
         generation.ready();
         generation.tell(wire::Frame{"commit", {{"more", {1, 2, 3}}}});
         generation.trains_past(2);
       },
       true},
      {"start-byte-by-byte", "it takes an assignment that comes byte by byte",
       [](Stage& stage) {
         Generation generation(stage, 1);
         const wire::Frame assign = wire::to_frame(generation.assignment());
         for (int rank = 0; rank < generation.size(); ++rank) generation.line(rank).send_byte_by_byte(assign);
         generation.ready();
       }},
      misassigned(
          "assign-no-plan", "it ends where an assignment has no plan",
          [](wire::Frame& assign) { assign.body.erase("plan"); }, true),
      misassigned("assign-no-stages", "it ends where the plan has no stages",
                  [](wire::Frame& assign) { assign.body["plan"]["stages"] = Json::array(); }),
      misassigned("assign-wrong-kind", "it ends where a field of the plan is of a wrong kind",
                  [](wire::Frame& assign) { first_stage(assign)["replicas"] = "many"; }),
      misassigned("assign-no-gpus", "it ends where a replica has no GPUs",
                  [](wire::Frame& assign) { first_stage(assign)["replicas"][0]["gpus"] = Json::array(); }),
      misassigned("assign-other-world", "it ends where the plan is for more processes than there are",
                  [](wire::Frame& assign) {
                    Json& replicas = first_stage(assign)["replicas"];
                    Json second = replicas[0];
                    for (Json& gpu : second["gpus"]) gpu = "stage/" + std::to_string(40 + replicas.size());
                    const int share = replicas[0]["share"].get<int>();
                    if (share < 2) throw Skip("the program's micro-batch is one sample");
                    replicas[0]["share"] = share - 1;
                    second["share"] = 1;
                    replicas.push_back(second);
                  }),
      misassigned("assign-other-batch", "it ends where the plan is for another global batch",
                  [](wire::Frame& assign) {
                    assign.body["plan"]["global_batch"] = assign.body["plan"]["global_batch"].get<int>() + 7;
                    Json& share = first_stage(assign)["replicas"][0]["share"];
                    share = share.get<int>() + 7;
                  }),
      misassigned("assign-huge-numbers", "it ends where numbers of the plan are beyond all bounds",
                  [](wire::Frame& assign) { first_stage(assign)["replicas"][0]["share"] = 9223372036854775807; }),
      instead_of_commit("commit-load", "it ends where `load` comes instead of `commit`",
                        wire::to_frame(wire::Load{5, false})),
      instead_of_commit("commit-assign", "it ends where a second assignment comes",
                        wire::Frame{"assign", {{"plan", nullptr}}}),
      instead_of_commit("commit-given", "it ends where `given` comes that nobody announced",
                        wire::Frame{"given", Json::object()}),
      {"commit-exit", "it leaves with code 0 where `exit` comes instead of `commit`",
       [](Stage& stage) {
         Generation generation(stage, 2);
         generation.assign();
         generation.ready();
         generation.tell(wire::Exit{});
         generation.leaves_well();
       }},
      {"start-checkpoint", "it trains on where `checkpoint` comes before it has an assignment, and before `commit`",
       [](Stage& stage) {
         Generation generation(stage, 2);
         generation.say_hello();
         generation.tell(wire::Checkpoint{});
         generation.assign();
         generation.ready();
         generation.tell(wire::Checkpoint{});
         generation.tell(wire::Commit{});
         generation.trains_past(3);
       }},
      {"start-launcher-gone", "it ends where the launcher dies before `commit`",
       [](Stage& stage) {
         Generation generation(stage, 2);
         generation.assign();
         generation.ready();
         for (int rank = 0; rank < generation.size(); ++rank) generation.line(rank).close();
         generation.processes().leaves_failed();
       }},
      {"start-peer-killed", "no rank says ready, or ends with code 0, where another is killed while they start",
       [](Stage& stage) {
         Generation generation(stage, 2);
         generation.say_hello();
         generation.processes().kill(generation.size() - 1);
         generation.assign();
         stage.pass(3);
         // The launcher ends a generation that has lost a rank.
         for (int rank = 0; rank < generation.size(); ++rank) generation.line(rank).close();
         generation.processes().leaves_failed();
       }},
  };
}

}  // namespace espalier::launcher::conform
