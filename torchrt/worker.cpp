#include "torchrt/worker.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>

#include "planner/core/error.hpp"
#include "torchrt/comm/peer_error.hpp"
#include "torchrt/description.hpp"
#include "torchrt/device/device_error.hpp"
#include "torchrt/device/memory_error.hpp"
#include "torchrt/session.hpp"
#include "torchrt/worker_start.hpp"
#include "torchrt/worker_steps.hpp"

namespace espalier::torchrt {

namespace {

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

wire::Hello hello(const Config& config, const WorkerEnvironment& environment) {
  wire::Hello hello;
  hello.generation = environment.generation;
  hello.rank = environment.rank;
  hello.node = host_name();
  hello.pid = ::getpid();
  const wire::Description own = description(config);
  hello.model = own.model;
  hello.total_steps = own.total_steps;
  hello.handoff = own.handoff;
  hello.spare = own.spare;
  hello.parallel = own.parallel;
  if (environment.rank != 0) hello.parallel.lists.clear();  // of thousands of ranks one tells them
  return hello;
}

// MPI ends in good order when all ranks leave together; a rank whose peers are gone must not wait for them.
void end_world(World& world) {
  std::signal(SIGALRM, [](int) { ::_exit(0); });
  ::alarm(2);
  world.finalize();
}

bool lacks_memory(const std::exception& error) {
  return dynamic_cast<const MemoryError*>(&error) != nullptr || dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

// The last words go to the launcher, which tells the user; where that is gone, to the log. Of a GPU's failure it hears
// by the end of the line: a program that says that it failed ends the job.
[[noreturn]] void leave_failed(Session& session, int rank, const std::exception& error) {
  const bool by_allocator = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  std::string problem = by_allocator ? "the system has no memory left for this rank" : error.what();
  if (dynamic_cast<const wire::ConnectionLost*>(&error) != nullptr) {
    problem = "the launcher is gone; leaving";
  } else if (dynamic_cast<const DeviceError*>(&error) == nullptr) {
    if (session.failed({problem, dynamic_cast<const PeerError*>(&error) != nullptr, lacks_memory(error)})) ::_exit(1);
  }
  std::fprintf(stderr, "espalier: train: rank %d: %s\n", rank, problem.c_str());
  std::fflush(stderr);
  ::_exit(1);  // no MPI_Finalize: it would wait for ranks that go on without this one
}

}  // namespace

int run_worker(const Config& config, const WorkerEnvironment& environment, int* argc, char*** argv, bool checksum) {
  std::optional<Session> session;
  try {
    session.emplace(environment);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier: train: rank %d: %s\n", environment.rank, error.what());
    std::fflush(stderr);
    ::_exit(1);
  }
  // Alive until the launcher has heard of a failure: to destroy what is under way would wait for ranks that may be
  // gone.
  std::optional<World> world;
  std::optional<WorkerStart> start;
  std::optional<WorkerSteps> steps;  // refers to what `start` keeps
  try {
    wire::Frame own = wire::to_frame(hello(config, environment));
    own.body["capabilities"] = {{"in_place", true}, {"lists", true}};
    session->hello(own);
    world.emplace(argc, argv);
    if (world->rank() != environment.rank)
      throw Error("MPI: this is rank " + std::to_string(world->rank()) + ", but OMPI_COMM_WORLD_RANK says " +
                  std::to_string(environment.rank) + "; let the launcher start workers");
    start.emplace(config, environment, *world, *session, checksum);
    try {
      start->prepare();
      const std::int64_t done = start->commit();
      steps.emplace(start->parts());
      steps->train(done);
    } catch (const LeaveNow&) {
    }
    steps.reset();
    start.reset();
    session->farewell();
    end_world(*world);
    return 0;
  } catch (const std::exception& error) {
    leave_failed(*session, environment.rank, error);
  }
}

}  // namespace espalier::torchrt
