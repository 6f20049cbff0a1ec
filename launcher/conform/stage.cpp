#include "launcher/conform/stage.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "launcher/process/child.hpp"

namespace espalier::launcher::conform {
namespace {

// No job of Slurm's has such a number: its largest is 67,043,328.
constexpr JobId kJob = 4'000'000'000;
constexpr double kStart = 120;  // seconds to `ready`, unless the hello asks for more

std::string folder() {
  const char* const temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary == '/' ? temporary : "/tmp";
}

}  // namespace

Stage::Stage(Settings settings)
    : settings_(std::move(settings)),
      directory_(folder(), kJob, 0),
      door_(loop_, {{wire::Service::worker}, kJob, token_, ::getuid()}),
      host_(loop_, {{wire::Service::ranks}, kJob, token_, ::getuid()}, settings_.launcher) {
  program_.start_seconds = std::max(kStart, settings_.patience);
  host_.start(environment(0, host_.port()));
  forget_state();
}

Stage::~Stage() {
  host_.leave();
  until([this] { return host_.left(); }, 10);
}

bool Stage::until(const std::function<bool()>& done, double seconds) {
  bool late = false;
  const wire::Watch limit = loop_.after(wire::Loop::Milliseconds(static_cast<long>(seconds * 1000)), [&] {
    late = true;
    loop_.stop();
  });
  // Conditions change by what arrives and by the ends of processes, and each of them is an event of the loop. The timer
  // looks for those that nothing announces.
  const wire::Watch look = loop_.every(wire::Loop::Milliseconds(20), [&] {
    if (done()) loop_.stop();
  });
  while (!done() && !late) loop_.run();
  return done();
}

void Stage::pass(double seconds) {
  until([] { return false; }, seconds);
}

void Stage::learn(const wire::WorkerHello& worker) {
  program_.start_seconds = std::max(program_.start_seconds, static_cast<double>(worker.can.start_seconds));
  program_.in_place = worker.can.in_place;
  const ParallelLimits& own = worker.hello.parallel;
  program_.units = worker.can.data_only ? worker.can.units : std::vector{std::max(1, own.tp) * std::max(1, own.pp)};
}

void Stage::forget_state() {
  vault_.reset();
  vault_ = std::make_unique<Vault>(vault_name(vault_base_, std::to_string(kJob)));
}

std::vector<std::string> Stage::environment(int generation, int port) const {
  char heartbeat[32];
  std::snprintf(heartbeat, sizeof heartbeat, "%g", settings_.heartbeat);
  return {"ESPALIER_LAUNCHER=127.0.0.1:" + std::to_string(port),
          "ESPALIER_GENERATION=" + std::to_string(generation),
          "ESPALIER_DIRECTORY=" + (directory_.path() / ("g" + std::to_string(generation))).string(),
          "ESPALIER_ANCHOR=" + std::to_string(kJob),
          "ESPALIER_VAULT=" + vault_base_,
          std::string("ESPALIER_HEARTBEAT=") + heartbeat};
}

std::unique_ptr<Ranks> Stage::run(int number, const std::vector<GpuId>& gpus, const std::vector<std::string>& program,
                                  const std::vector<std::string>& variables, RanksCallbacks callbacks) {
  WorldRequest request;
  request.generation = number;
  request.gpus = gpus;
  request.holdings = host_.holdings();
  request.program = program;
  auto own = environment(number, door_.port());
  for (const std::string& one : variables) {
    const std::string name = one.substr(0, one.find('=') + 1);
    std::erase_if(own, [&](const std::string& other) { return other.rfind(name, 0) == 0; });
    own.push_back(one);
  }
  request.environment = clean_environment(own);
  request.directory = directory_.generation(number).string();
  request.network = "127.0.0.0/8";
  return host_.run(request, std::move(callbacks));
}

}  // namespace espalier::launcher::conform
