#include "launcher/job/rooms.hpp"

#include <utility>

#include "launcher/process/child.hpp"

namespace espalier::launcher {
namespace {

RankServersSettings settings_of(const JobContext& context, const ControlSocket& socket) {
  RankServersSettings servers;
  servers.launcher = context.self;
  if (!context.movable) servers.node = context.node;  // a movable job has no ranks beside its launcher
  servers.anchor = context.job;
  servers.own_step_here = context.bound_gpus;
  servers.holdings = context.anchor;
  servers.binds_cpus = context.site.binds_cpus;
  servers.environment = socket.job_environment();
  if (!context.node_setup.empty()) {
    servers.environment.push_back("ESPALIER_NODE_SETUP=" + context.node_setup);
    servers.environment.push_back("ESPALIER_NODE_SETUP_SECONDS=" + std::to_string(context.config.node_setup_seconds));
  }
  servers.environment.push_back(std::string("ESPALIER_GPU_ERRORS=") + (context.config.health_gpu_errors ? "1" : "0"));
  servers.container = context.container;
  servers.limits = context.limits;
  servers.heartbeat = std::chrono::milliseconds(static_cast<long>(context.config.heartbeat_seconds * 1000));
  servers.seed = context.job;
  servers.start = std::chrono::seconds(context.config.start_seconds);
  return servers;
}

}  // namespace

Ground::Ground(JobContext given, ControlSocket::Callbacks of_socket)
    : context(std::move(given)),
      directory(work_directory(context.config), context.job, context.step),
      slurm(loop),
      socket(loop, context, directory.path(), std::move(of_socket)) {}

HoldingRooms::HoldingRooms(Ground& ground, Callbacks callbacks)
    : extensions(ground.loop, ground.slurm, ground.context, ground.socket.job_environment(),
                 std::move(callbacks.extensions)),
      bases(ground.loop, ground.slurm, ground.context, ground.socket.job_environment(), std::move(callbacks.bases)),
      rank_servers(ground.loop, settings_of(ground.context, ground.socket), std::move(callbacks.noticed)),
      gpus(ground.context, std::move(callbacks.gpus)) {}

TrainingRooms::TrainingRooms(Ground& ground, Callbacks callbacks)
    : program(ground.loop, ground.context.config, std::move(callbacks.program)),
      earlier(std::move(callbacks.keeps)),
      steps(ground.loop, ground.context.config.hang_seconds, std::move(callbacks.hangs)),
      generations(ground.loop, ground.context, ground.directory, earlier, std::move(callbacks.generations)),
      generation_zero(ground.loop, ground.context, clean_environment(ground.socket.environment(0)), program,
                      generations, std::move(callbacks.generation_zero)),
      hand_off(ground.context, generations, steps, std::move(callbacks.hand_off)) {}

AnswerRooms::AnswerRooms(Ground& ground, HoldingRooms& holding, TrainingRooms& training, Machine& machine,
                         PhaseDeadline& deadline, Callbacks callbacks)
    : notices(ground.loop, ground.context, holding.gpus, std::move(callbacks.notices)),
      recovery(ground.loop, ground.context, training.generations, training.steps, holding.gpus,
               std::move(callbacks.recovery)),
      ending(ground.loop, std::move(callbacks.ending)),
      lists(ground.loop, ground.context.job, std::move(callbacks.lists)),
      movable({ground.context, holding.bases, holding.keepers, holding.extensions, holding.rank_servers,
               training.program, training.generations, training.reach, holding.gpus, training.generation_zero},
              std::move(callbacks.movable)),
      last_checkpoint(ground.context, std::move(callbacks.last_checkpoint)),
      losses({machine, training.generations, training.earlier, training.generation_zero, training.hand_off, recovery,
              ending, lists}),
      faulty_gpus(holding.extensions, holding.bases, recovery),
      actions({ground.context, machine, deadline, training.program, holding.extensions, holding.bases, holding.keepers,
               holding.gpus, training.generations, training.generation_zero, training.hand_off, notices, recovery,
               movable, ending, lists, holding.reports},
              ground.began) {}

}  // namespace espalier::launcher
