#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>

#include "planner/core/error.hpp"
#include "torchrt/worker.hpp"

namespace espalier::torchrt {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr)
    throw Error(std::string(name) + ": is not set though ESPALIER_LAUNCHER is; let the launcher start workers");
  return value;
}

template <class Number>
Number number(const char* name, const std::string& text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    throw Error(std::string(name) + ": \"" + text + "\" is not a number of the expected range");
  return value;
}

bool hexadecimal(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
}

volatile std::sig_atomic_t told_to_leave = 0;

}  // namespace

bool take_notice() {
  const bool told = told_to_leave != 0;
  told_to_leave = 0;
  return told;
}

std::optional<WorkerEnvironment> worker_environment() {
  const char* launcher = std::getenv("ESPALIER_LAUNCHER");
  if (launcher == nullptr) return std::nullopt;
  const std::string address = launcher;
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0)
    throw Error("ESPALIER_LAUNCHER: \"" + address + "\" is not of the form host:port");
  WorkerEnvironment environment;
  environment.host = address.substr(0, colon);
  environment.port = number<std::uint16_t>("ESPALIER_LAUNCHER", address.substr(colon + 1));
  environment.token = variable("ESPALIER_TOKEN");
  environment.generation = number<int>("ESPALIER_GENERATION", variable("ESPALIER_GENERATION"));
  environment.rank = number<int>("OMPI_COMM_WORLD_RANK", variable("OMPI_COMM_WORLD_RANK"));
  if (environment.token.size() < 8 || environment.token.size() > 256 || !hexadecimal(environment.token))
    throw Error("ESPALIER_TOKEN: is not a hexadecimal number of at least 8 digits");
  if (const char* job = std::getenv("SLURM_JOB_ID"); job != nullptr)
    environment.extension = number<JobId>("SLURM_JOB_ID", job);
  if (const char* vault = std::getenv("ESPALIER_VAULT"); vault != nullptr) environment.vault = vault;
  // Outside a step of Slurm's the job is the anchor's.
  for (const char* name : {"ESPALIER_ANCHOR", "SLURM_JOB_ID"})
    if (const char* job = std::getenv(name); job != nullptr)
      environment.owner = std::to_string(number<JobId>(name, job));
  const char* const anchor = std::getenv("ESPALIER_ANCHOR");
  if (anchor != nullptr) environment.anchor = number<JobId>("ESPALIER_ANCHOR", anchor);
  environment.own = anchor != nullptr && environment.owner == anchor;
  environment.with_launcher = environment.own && std::getenv("ESPALIER_WITH_LAUNCHER") != nullptr;
  if (const char* seconds = std::getenv("ESPALIER_HEARTBEAT"); seconds != nullptr) {
    const double value = number<double>("ESPALIER_HEARTBEAT", seconds);
    if (!(value > 0 && value <= 3600)) throw Error("ESPALIER_HEARTBEAT: is not a number of seconds up to 3600");
    environment.heartbeat = std::chrono::milliseconds(std::max(1L, std::lround(value * 1000)));
  }
  if (const char* seconds = std::getenv("ESPALIER_PATIENCE"); seconds != nullptr) {
    const int value = number<int>("ESPALIER_PATIENCE", seconds);
    if (value < 1 || value > 30 * 86400) throw Error("ESPALIER_PATIENCE: is not a number of seconds from 1 to 2592000");
    environment.patience = std::chrono::seconds(value);
  }
  if (environment.rank < 0) throw Error("OMPI_COMM_WORLD_RANK: is negative");
  if (environment.generation < 0) throw Error("ESPALIER_GENERATION: is negative");
  return environment;
}

void shield_worker() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct sigaction action {};
  action.sa_handler = [](int) { told_to_leave = 1; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  sigset_t set;  // whoever forked this process blocks it
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace espalier::torchrt
