// What becomes of GPUs whose errors make training on them unsafe. Rank servers report them with their hello.
#pragma once

#include "launcher/base/bases.hpp"
#include "launcher/recovery/recovery.hpp"
#include "launcher/slurm/extensions.hpp"
#include "planner/wire/rank_messages.hpp"

namespace espalier::launcher {

class FaultyGpus {
 public:
  // All outlive this object.
  FaultyGpus(Extensions& extensions, Bases& bases, Recovery& recovery)
      : extensions_(extensions), bases_(bases), recovery_(recovery) {}

  // Tells the user, and lets recoveries and the planner avoid the GPUs for an hour. An extension or a second base that
  // is being acquired is given back: the change that it is for fails with this reason. What the job trains on already
  // it keeps, because its state is there, and so it does with the GPUs that Slurm gave to the job itself.
  void heard(const wire::RankServerHello& hello);

 private:
  Extensions& extensions_;
  Bases& bases_;
  Recovery& recovery_;
};

}  // namespace espalier::launcher
