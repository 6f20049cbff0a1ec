// Tells the state machine of a loss. Which event it is depends on what was lost, processes of a generation or an
// extension, and on what the job does at the time.
#pragma once

#include <string>

#include "launcher/job/ending.hpp"
#include "launcher/job/generation_zero.hpp"
#include "launcher/job/hand_off.hpp"
#include "launcher/job/list_search.hpp"
#include "launcher/job/machine.hpp"
#include "launcher/recovery/recovery.hpp"

namespace espalier::launcher {

class Losses {
 public:
  // All outlive this object.
  struct Rooms {
    Machine& machine;
    Generations& generations;
    EarlierGenerations& earlier;
    GenerationZero& generation_zero;
    HandOff& hand_off;
    Recovery& recovery;
    Ending& ending;
    ListSearch& lists;
  };
  explicit Losses(Rooms rooms) : rooms_(rooms) {}

  // Of the generation that trains, or of the next one.
  void of_generation(bool is_next, const Loss& loss);
  void of_next(const std::string& why);
  // A rank was ended by a signal. True: it was of a wide start, and generation 0 starts again on the job's own GPUs.
  bool of_wide_start(int code);
  void of_extension(const Holding& holding);
  // The extension cannot be used and is being given back.
  void of_refused(const Holding& holding, const std::string& why);

 private:
  bool breaks_generation(const Holding& holding, const std::string& why);
  void break_change(const Holding& holding, const std::string& why);

  Rooms rooms_;
};

}  // namespace espalier::launcher
