// stopped runs under mpirun: stopped CONFIG SECTION.KEY=VALUE... makes a validation at one go, and once more one that
// is stopped after each batch. Ends with 1 where the latter does not go on where it was stopped.
#include <cstdio>
#include <string>
#include <vector>

#include "torchrt/model/prepare_torch.hpp"
#include "torchrt/standalone.hpp"
#include "torchrt/training.hpp"

using namespace espalier;
using namespace espalier::torchrt;

int main(int argc, char** argv) {
  Config config = load_config(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  prepare_torch(1);
  World world(&argc, &argv);
  const Plan plan = standalone_plan(config, "", world.size());
  const std::unique_ptr<Device> device = make_device(std::nullopt, world.local_rank());
  RankState state(config, plan, world, *device);
  for (const int unit : state.units()) state.allocate(unit);
  Training training(config, world, *device, state, 0);
  state.connect();
  training.start();
  if (world.rank() == 0) training.open_metrics(0);
  state.build();
  state.rehearse(training.data());
  const std::int64_t step = config.data.validate_every;
  training.after_step(step, {});
  int stops = 0;
  const int batches = config.data.validation_samples / config.training.global_batch;
  while (stops < batches && !training.after_step(step, [] { return true; })) ++stops;
  if (world.rank() == 0) std::printf("%d batches, stopped %d times\n", batches, stops);
  world.finalize();
  return stops == batches - 1 ? 0 : 1;
}
