// The rooms of the launcher, by what belongs together. Each struct makes its rooms in the order in which they need each
// other; they end in the opposite order. What a room tells to others goes through the callbacks that the Launcher
// gives.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "launcher/base/bases.hpp"
#include "launcher/job/actions.hpp"
#include "launcher/job/control_socket.hpp"
#include "launcher/job/ending.hpp"
#include "launcher/job/faulty_gpus.hpp"
#include "launcher/job/generation_zero.hpp"
#include "launcher/job/hand_off.hpp"
#include "launcher/job/held_gpus.hpp"
#include "launcher/job/last_checkpoint.hpp"
#include "launcher/job/list_search.hpp"
#include "launcher/job/losses.hpp"
#include "launcher/job/movable_training.hpp"
#include "launcher/job/notices.hpp"
#include "launcher/job/program.hpp"
#include "launcher/job/reports.hpp"
#include "launcher/node/anchor_keepers.hpp"
#include "launcher/recovery/recovery.hpp"
#include "launcher/slurm/extensions.hpp"
#include "launcher/world/gpu_reach.hpp"
#include "launcher/world/rank_servers.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {

// What every room stands on. Throws Error when the job cannot even start.
struct Ground {
  Ground(JobContext given, ControlSocket::Callbacks of_socket);

  JobContext context;
  const std::chrono::steady_clock::time_point began = wire::steady_now();
  wire::Loop loop;
  Directory directory;
  BlockingThread slurm;
  ControlSocket socket;
};

// What the job holds in Slurm, the processes that keep it, and the planner that is told of it.
struct HoldingRooms {
  struct Callbacks {
    Extensions::Callbacks extensions;
    Bases::Callbacks bases;
    std::function<void(JobId)> noticed;  // a rank server heard that Slurm takes its job back
    HeldGpus::Callbacks gpus;
  };
  HoldingRooms(Ground& ground, Callbacks callbacks);

  Extensions extensions;
  Bases bases;  // of a movable job; else it does nothing
  RankServers rank_servers;
  std::unique_ptr<Reports> reports;  // the Launcher makes it last: it tells of all the others
  AnchorKeepers keepers;
  HeldGpus gpus;
};

// The training: its program, its generations, and how one of them takes the place of another.
struct TrainingRooms {
  struct Callbacks {
    Program::Callbacks program;
    std::function<void(const wire::Keep&)> keeps;       // what keepers hold of generations before
    std::function<void(const std::string& why)> hangs;  // a step
    Generations::Callbacks generations;
    GenerationZero::Callbacks generation_zero;
    HandOff::Callbacks hand_off;
  };
  TrainingRooms(Ground& ground, Callbacks callbacks);

  Program program;
  EarlierGenerations earlier;
  GpuReach reach;
  StepWatch steps;
  Generations generations;
  GenerationZero generation_zero;
  HandOff hand_off;
};

// What answers events: Slurm's notices, losses, a base that comes or goes, the end of the job; and the actions of the
// state machine.
struct AnswerRooms {
  struct Callbacks {
    Notices::Callbacks notices;
    Recovery::Callbacks recovery;
    Ending::Callbacks ending;
    ListSearch::Callbacks lists;
    MovableTraining::Callbacks movable;
    LastCheckpoint::Callbacks last_checkpoint;
  };
  AnswerRooms(Ground& ground, HoldingRooms& holding, TrainingRooms& training, Machine& machine, PhaseDeadline& deadline,
              Callbacks callbacks);

  Notices notices;
  Recovery recovery;
  Ending ending;
  ListSearch lists;
  MovableTraining movable;
  LastCheckpoint last_checkpoint;
  Losses losses;
  FaultyGpus faulty_gpus;
  Actions actions;
};

}  // namespace espalier::launcher
