// Carries out the state machine's actions: each is a call or two of the room whose work it is.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "launcher/job/ending.hpp"
#include "launcher/job/hand_off.hpp"
#include "launcher/job/held_gpus.hpp"
#include "launcher/job/list_search.hpp"
#include "launcher/job/machine.hpp"
#include "launcher/job/movable_training.hpp"
#include "launcher/job/notices.hpp"
#include "launcher/job/phase_deadline.hpp"
#include "launcher/job/reports.hpp"
#include "launcher/recovery/recovery.hpp"

namespace espalier::launcher {

class Actions {
 public:
  // All outlive this object.
  struct Rooms {
    const JobContext& context;
    Machine& machine;
    PhaseDeadline& deadline;
    Program& program;
    Extensions& extensions;
    Bases& bases;
    AnchorKeepers& keepers;
    HeldGpus& gpus;
    Generations& generations;
    GenerationZero& generation_zero;
    HandOff& hand_off;
    Notices& notices;
    Recovery& recovery;
    MovableTraining& movable;
    Ending& ending;
    ListSearch& lists;
    std::unique_ptr<Reports>& reports;
  };
  // The launcher started at `began`.
  Actions(Rooms rooms, std::chrono::steady_clock::time_point began) : rooms_(rooms), began_(began) {}

  // The row's event has come in the row's phase. Tells the user, and the rooms that remember it.
  void note(const Row& row, const std::string& why);
  void perform(Action action);
  // Gives back the bases of a movable job, and lets the keepers go.
  void give_back();

 private:
  void forget_measured();  // another plan runs
  void release_unused();
  void end_job();

  Rooms rooms_;
  const std::chrono::steady_clock::time_point began_;
};

}  // namespace espalier::launcher
