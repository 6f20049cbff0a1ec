// espalier-report tells the planner about a node. The SPANK plugin starts it when slurmd starts. An
// administrator may start it, too.
#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/core/standard_output.hpp"
#include "planner/wire/client.hpp"
#include "planner/wire/event.h"
#include "spank/event_datagram.h"
#include "spank/report/topology.hpp"

namespace espalier::report {
namespace {

// Time for the whole program. SIGALRM ends it after that.
constexpr unsigned kSeconds = 10;
constexpr std::chrono::seconds kConnect(5), kAnswer(3);

struct Address {
  std::string host;
  std::string port = std::to_string(ESPALIER_DEFAULT_PORT);
};

// HOST, HOST:PORT, [HOST] or [HOST]:PORT. A bare IPv6 address has several colons and no port.
Address parse_address(const std::string& text) {
  Address address{text};
  std::size_t end = std::string::npos;
  if (text.starts_with('[')) {
    const auto bracket = text.find(']');
    if (bracket == std::string::npos) throw Error("--planner " + text + ": no closing bracket; write HOST:PORT");
    address.host = text.substr(1, bracket - 1);
    if (bracket + 1 < text.size()) end = bracket + 1;
  } else if (const auto colon = text.find(':'); colon != std::string::npos && colon == text.rfind(':')) {
    address.host = text.substr(0, colon);
    end = colon;
  }
  if (end != std::string::npos) address.port = text.substr(end + 1);
  const bool number = !address.port.empty() && address.port.size() <= 5 &&
                      address.port.find_first_not_of("0123456789") == std::string::npos;
  if (address.host.empty() || !number || std::stoi(address.port) < 1 || std::stoi(address.port) > 65535)
    throw Error("--planner " + text + ": not an address; write HOST:PORT");
  return address;
}

uid_t uid_of(const std::string& user) {
  if (const passwd* entry = getpwnam(user.c_str())) return entry->pw_uid;
  throw Error("--planner-user " + user + ": no such user; name the account that espalierd runs as");
}

// The planner must run as one of these users. Otherwise it is told nothing.
std::vector<uid_t> planner_uids(const std::string& user) {
  if (!user.empty()) return {uid_of(user)};
  std::vector<uid_t> uids{0};
  if (const passwd* slurm = getpwnam("slurm")) uids.push_back(slurm->pw_uid);
  return uids;
}

// Slurm's usual node name. A node with another NodeName needs --node.
std::string short_host_name() {
  utsname name{};
  if (uname(&name) != 0) throw Error(std::string("uname: ") + std::strerror(errno) + "; give --node");
  const std::string host = name.nodename;
  return host.substr(0, host.find('.'));
}

void send_topology(const Address& planner, const std::string& user, const std::string& node) {
  const auto port = static_cast<std::uint16_t>(std::stoi(planner.port));
  auto client = wire::Client::tcp(espalier::wire::planner_caller(planner_uids(user)), planner.host, port, kConnect);
  client.send(wire::Topology{node, node_topology()});
  // The planner closes or refuses when it has the message. Leaving earlier could lose it.
  try {
    if (const auto answer = client.receive(kAnswer); answer && answer->type == wire::Refused::type)
      throw Error("planner: refused the topology: " + wire::from_frame<wire::Refused>(*answer).reason +
                  "; run espalier-report as root or SlurmUser");
  } catch (const wire::ConnectionLost&) {
  }
}

void send_released(const Address& planner, const std::string& node, unsigned job, const std::string& gpus, int code) {
  const std::string event = std::string(ESPALIER_EVENT_MAGIC) + " gpus_released job=" + std::to_string(job) +
                            " node=" + node + " gpus=" + gpus + " exit=" + std::to_string(code);
  if (event.size() > ESPALIER_EVENT_MAX) throw Error("--gpus: too long; name GPUs by index");
  if (espalier_send_sealed(planner.host.c_str(), planner.port.c_str(), event.c_str()) != 0)
    throw Error("planner " + planner.host + ": the event was not sent: " + std::strerror(errno) +
                "; check munged and the host's name");
}

int run(int argc, char** argv) {
  CLI::App app("Tells Espalier's planner about this node", "espalier-report");
  app.set_version_flag("-V,--version", ESPALIER_VERSION);
  app.require_subcommand(1);
  std::string planner, user, node, gpus;
  unsigned job = 0;
  int code = 0;
  bool print = false;

  auto* topology = app.add_subcommand("topology", "send hwloc's view of this node");
  auto* to = topology->add_option("--planner", planner, "where espalierd listens, HOST[:PORT]");
  topology->add_option("--planner-user", user, "who espalierd runs as (default: root or slurm)");
  topology->add_option("--node", node, "NodeName of this node (default: the short host name)");
  topology->add_flag("--print", print, "write the XML to standard output instead")->excludes(to);

  auto* released =
      app.add_subcommand("released", "tell that a job's GPUs came free (for sites without SPANK's epilog)");
  released->add_option("--planner", planner, "where espalierd listens, HOST[:PORT]")->required();
  released->add_option("--node", node, "NodeName of this node (default: the short host name)");
  released->add_option("--job", job, "the job's id")->required();
  released->add_option("--gpus", gpus, "GRES indices, as in SLURM_JOB_GPUS")->required();
  released->add_option("--exit", code, "the job's exit code");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() != 0) {
      std::fprintf(stderr, "espalier: report: %s; see espalier-report --help\n", problem.what());
      return problem.get_exit_code();
    }
    const int status = app.exit(problem);
    flush_standard_output();
    return status;
  }

  alarm(kSeconds);
  if (node.empty()) node = short_host_name();
  if (released->parsed()) send_released(parse_address(planner), node, job, gpus, code);
  else if (print) std::puts(node_topology().c_str());
  else if (planner.empty()) throw Error("topology: no planner named; give --planner HOST[:PORT] or --print");
  else send_topology(parse_address(planner), user, node);
  flush_standard_output();
  return 0;
}

}  // namespace
}  // namespace espalier::report

int main(int argc, char** argv) {
  try {
    return espalier::report::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier: report: %s\n", error.what());
    return 1;
  }
}
