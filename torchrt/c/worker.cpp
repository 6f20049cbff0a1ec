// The C interface over Session. No exception leaves it.
#include "espalier/worker.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "torchrt/c/step_times.hpp"
#include "torchrt/handoff/state_address.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/session.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {
// The launcher waits for as long as the program says that its start takes, and so does each of its workers.
const WorkerEnvironment& more_patient(WorkerEnvironment& environment, const espalier_program& said) {
  environment.patience = std::max(environment.patience, std::chrono::seconds(2LL * said.start_seconds));
  return environment;
}
}  // namespace

struct espalier_worker {
  WorkerEnvironment environment;
  espalier_program program;
  Session session;
  StateServer server;
  wire::Assign assign = {};
  std::string plan = {}, error = {};
  int replica = 0;
  std::optional<espalier_profile> profile = {};  // steps are measured
  StepTimes times = {};
  std::uint64_t peak_bytes = 0;
  bool trains = false;  // a step was reported

  espalier_worker(WorkerEnvironment found, const espalier_program& said)
      : environment(std::move(found)),
        program(said),
        session(more_patient(environment, said)),
        server(state_address(environment.token, environment.generation, environment.rank)) {}
};

namespace {

thread_local std::string join_error;

// A program that was built with an older header has a shorter struct: what it lacks is 0. Throws Error with `words`.
// `first`: bytes of the fields that the first version had.
template <class Struct>
Struct read_struct(const Struct* given, std::size_t first, const char* words) {
  if (given == nullptr || given->size < first || given->size > 4096) throw Error(words);
  Struct said{};
  std::memcpy(&said, given, std::min(sizeof said, given->size));
  return said;
}

// Throws Error.
espalier_program read_program(const espalier_program* program) {
  constexpr std::size_t kFirst = offsetof(espalier_program, start_seconds) + sizeof program->start_seconds;
  const espalier_program said =
      read_struct(program, kFirst, "espalier_join: size must be sizeof(struct espalier_program)");
  if (said.global_batch < 1 || said.total_steps < 1)
    throw Error("espalier_join: global_batch and total_steps must be at least 1");
  if (said.unit_count > 0 && (said.units == nullptr || said.unit != 0 || said.unit_count > 16))
    throw Error("espalier_join: units needs unit = 0 and a unit_count of 1 to 16");
  return said;
}

std::vector<int> units_of(const espalier_program& program) {
  if (program.unit_count == 0) return {std::max(1, program.unit)};
  return {program.units, program.units + program.unit_count};
}

wire::Frame hello_of(const espalier_program& program, const WorkerEnvironment& environment) {
  char node[256] = {};
  ::gethostname(node, sizeof node - 1);
  const std::vector<int> units = units_of(program);
  Json capabilities{{"parallel", "data"}, {"unit", units.front()}, {"global_batch", program.global_batch}};
  if (units.size() > 1) capabilities["units"] = units;
  if (program.name != nullptr) capabilities["program"] = program.name;
  if (program.start_seconds > 0) capabilities["start_seconds"] = program.start_seconds;
  return {"hello",
          {{"generation", environment.generation},
           {"rank", environment.rank},
           {"node", node},
           {"pid", ::getpid()},
           {"total_steps", program.total_steps},
           {"handoff", "device"},
           {"capabilities", capabilities}}};
}

void check(const wire::Assign& assign, const espalier_program& program, int rank) {
  const Plan& plan = assign.plan;
  if (plan.stages.size() != 1) throw Error("plan: has several stages, and this program is data-parallel only");
  if (const auto broken = validate(plan); !broken.empty()) throw Error("plan: " + broken.front());
  if (plan.global_batch != program.global_batch || plan.micro_batches != 1)
    throw Error("plan: divides " + std::to_string(plan.global_batch) + " samples, the global batch is " +
                std::to_string(program.global_batch));
  const std::vector<int> units = units_of(program);
  if (std::find(units.begin(), units.end(), plan.stages.front().tp) == units.end())
    throw Error("plan: its replicas are no whole units");
  if (rank >= plan.gpu_count()) throw Error("plan: this is rank " + std::to_string(rank) + ", and the plan has fewer");
  if (const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
      size != nullptr && std::to_string(plan.gpu_count()) != size)
    throw Error("plan: has " + std::to_string(plan.gpu_count()) + " processes, and there are " + size);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Where a profile is due: the figures of all processes by the program's sum, and from process 0 to the launcher.
void tell_profile(espalier_worker* worker, std::int64_t step) {
  const Plan& plan = worker->assign.plan;
  std::vector<double> told(StepTimes::kTold * static_cast<std::size_t>(plan.gpu_count()));
  const auto mine = worker->times.take(static_cast<double>(worker->peak_bytes));
  std::copy(mine.begin(), mine.end(),
            told.begin() + static_cast<std::ptrdiff_t>(StepTimes::kTold) * worker->environment.rank);
  if (worker->profile->sum(told.data(), static_cast<int>(told.size()), worker->profile->context) != 0)
    throw Error("espalier_report: the program's sum over all processes has failed");
  if (worker->environment.rank != 0) return;
  auto flat = flat_profile(told, plan.stages.front().tp, step);
  if (!flat) return;
  flat->gradient_bytes = static_cast<double>(worker->profile->gradient_bytes);
  flat->weight_bytes = static_cast<double>(worker->profile->weight_bytes);
  flat->state_bytes = static_cast<double>(worker->profile->state_bytes);
  worker->session.profile({wire::Profiled::type, {{"flat", *flat}}});
}

// What a function does: its result, or what its exception means.
template <class Do>
std::int64_t guarded(espalier_worker* worker, Do act) {
  try {
    return act();
  } catch (const LeaveNow&) {
    worker->session.farewell();
    return ESPALIER_LEAVE;
  } catch (const std::exception& error) {
    worker->error = error.what();
    return ESPALIER_FAILED;
  }
}
template <class Do>
int guarded_int(espalier_worker* worker, Do act) {
  return static_cast<int>(guarded(worker, [&]() -> std::int64_t {
    act();
    return ESPALIER_OK;
  }));
}

}  // namespace

extern "C" {

int espalier_has_launcher(void) { return std::getenv("ESPALIER_LAUNCHER") != nullptr ? 1 : 0; }

espalier_worker* espalier_join(const espalier_program* program) {
  try {
    const espalier_program said = read_program(program);
    auto environment = worker_environment();
    if (!environment) throw Error("ESPALIER_LAUNCHER: is not set: no launcher leads this process");
    shield_worker();
    auto worker = std::make_unique<espalier_worker>(std::move(*environment), said);
    worker->session.hello(hello_of(said, worker->environment));
    worker->assign = worker->session.assignment();
    check(worker->assign, said, worker->environment.rank);
    worker->replica = worker->environment.rank / worker->assign.plan.stages.front().tp;
    worker->plan = Json(worker->assign.plan).dump();
    return worker.release();
  } catch (const LeaveNow&) {
    std::exit(0);  // the launcher needs this process no more, and it has done nothing yet
  } catch (const std::exception& error) {
    join_error = error.what();
    return nullptr;
  }
}

int espalier_generation(const espalier_worker* worker) { return worker->environment.generation; }
int espalier_rank(const espalier_worker* worker) { return worker->environment.rank; }
int espalier_size(const espalier_worker* worker) { return worker->assign.plan.gpu_count(); }
int espalier_unit(const espalier_worker* worker) { return worker->assign.plan.stages.front().tp; }
int espalier_device(const espalier_worker* worker) { return worker->assign.device.value_or(0); }
const char* espalier_plan(const espalier_worker* worker) { return worker->plan.c_str(); }

int espalier_samples(const espalier_worker* worker, std::int64_t step, std::int64_t* first) {
  const auto& replicas = worker->assign.plan.stages.front().replicas;
  std::int64_t at = (step - 1) * worker->program.global_batch;
  for (int replica = 0; replica < worker->replica; ++replica) at += replicas[static_cast<std::size_t>(replica)].share;
  if (first != nullptr) *first = at;
  return replicas[static_cast<std::size_t>(worker->replica)].share;
}

int espalier_start(espalier_worker* worker, std::int64_t* step) {
  return guarded_int(worker, [&] {
    worker->session.ready();
    *step = 0;
    if (!worker->assign.source) return;
    const wire::Load load = worker->session.load();
    if (load.giving) worker->session.given();
    *step = load.step;
  });
}

int espalier_takes(const espalier_worker* worker) { return worker->assign.source ? 1 : 0; }
int espalier_recovers(const espalier_worker* worker) {
  return worker->assign.source && worker->assign.source->recovery ? 1 : 0;
}
int espalier_old_size(const espalier_worker* worker) {
  return worker->assign.source ? worker->assign.source->plan.gpu_count() : 0;
}

int espalier_take(espalier_worker* worker, int old_rank, std::int64_t step, int* fd, std::uint64_t* bytes) {
  return guarded_int(worker, [&] {
    if (!worker->assign.source) throw Error("espalier_take: there is no generation before this one");
    FetchedState state =
        fetch_state(state_address(worker->environment.token, worker->assign.source->generation, old_rank), {0});
    if (state.step != step)
      throw Error("hand-off: old rank " + std::to_string(old_rank) + " stands after step " +
                  std::to_string(state.step) + ", not " + std::to_string(step));
    *bytes = state.bytes;
    *fd = state.fd.release();
  });
}

int espalier_taken(espalier_worker* worker, std::int64_t step, const char* from) {
  return guarded_int(worker, [&] {
    wire::Loaded loaded;
    loaded.step = step;
    if (from != nullptr) loaded.from = from;
    worker->session.loaded(loaded);
  });
}

int espalier_commit(espalier_worker* worker) {
  return guarded_int(worker, [&] { worker->session.committed(); });
}

int espalier_measure(espalier_worker* worker, const espalier_profile* profile) {
  return guarded_int(worker, [&] {
    const espalier_profile said = read_struct(profile, sizeof(espalier_profile),
                                              "espalier_measure: size must be sizeof(struct espalier_profile)");
    if (said.sum == nullptr) throw Error("espalier_measure: sum must be a function");
    if (worker->trains) throw Error("espalier_measure: comes before the first step");
    worker->profile = said;
  });
}

void espalier_computed(espalier_worker* worker) { worker->times.computed(now()); }
void espalier_summed(espalier_worker* worker) { worker->times.summed(now()); }
void espalier_peak_memory(espalier_worker* worker, std::uint64_t bytes) {
  worker->peak_bytes = std::max(worker->peak_bytes, bytes);
}

int espalier_report(espalier_worker* worker, std::int64_t step, double loss, double seconds) {
  return guarded_int(worker, [&] {
    worker->trains = true;
    worker->times.ended(now(), seconds);
    const double own = std::isfinite(seconds) && seconds > 0 ? seconds : 1e-9;
    if (worker->environment.rank == 0)
      worker->session.step({step, loss, own, worker->program.global_batch / own, false});
    if (worker->profile && worker->times.due()) tell_profile(worker, step);
  });
}

// Where the launcher is gone, Control ends the process by itself.
void espalier_progress(espalier_worker* worker) {
  guarded(worker, [&]() -> std::int64_t {
    worker->session.progress();
    return ESPALIER_OK;
  });
}

int espalier_switch_wanted(espalier_worker* worker) {
  return static_cast<int>(guarded(worker, [&]() -> std::int64_t {
    if (take_notice() && worker->environment.extension != worker->environment.anchor)
      worker->session.notice(worker->environment.extension);
    return worker->session.switch_wanted() ? 1 : 0;
  }));
}

int espalier_checkpoint_wanted(espalier_worker* worker) { return worker->session.take_checkpoint() ? 1 : 0; }

int espalier_give(espalier_worker* worker, std::int64_t step, int fd, std::uint64_t bytes) {
  return guarded_int(worker, [&] {
    worker->server.offer({0}, fd, bytes);
    worker->server.mark(step);
  });
}

int espalier_stand(espalier_worker* worker, std::int64_t step) {
  return guarded_int(worker, [&] {
    worker->session.stand();
    worker->session.switched({step, ""}, [] {});
    worker->server.mark(-1);
    worker->server.withdraw({0});
  });
}

int espalier_done(espalier_worker* worker, std::int64_t step) {
  return guarded_int(worker, [&] {
    worker->session.farewell();
    worker->session.done(step);
  });
}

void espalier_fail(espalier_worker* worker, const char* message, int peer) {
  if (worker != nullptr)
    worker->session.failed({message == nullptr ? "no reason was given" : message, peer != 0, false});
}

const char* espalier_error(const espalier_worker* worker) {
  return worker == nullptr ? join_error.c_str() : worker->error.c_str();
}

void espalier_free(espalier_worker* worker) { delete worker; }

}  // extern "C"
