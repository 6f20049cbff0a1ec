#include "launcher/slurm/job_context.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"

namespace espalier::launcher {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <class Number>
Number number(const char* name, Number low, Number high, Number fallback) {
  const std::string text = variable(name);
  if (text.empty()) return fallback;
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw Error(std::string(name) + "=\"" + text + "\": no number between " + std::to_string(low) + " and " +
                std::to_string(high) + "; do not set it by hand");
  return value;
}

}  // namespace

std::vector<GpuId> JobContext::anchor_gpus() const {
  std::vector<GpuId> gpus;
  for (const Holding& holding : anchor)
    for (const int index : holding.gpus) gpus.push_back({holding.node, index});
  return gpus;
}

JobContext read_context(std::vector<std::string> program) {
  JobContext context;
  context.config = wire::load_config();
  context.job = number<JobId>("SLURM_JOB_ID", 1, 0xfffffffeu, 0);
  if (context.job == 0) throw Error("SLURM_JOB_ID: not set; espalier-launch is started by srun --elastic, not by hand");
  // From 26.05 on the steps that Slurm itself starts have negative numbers here: a batch script's is -5. The number's
  // bits are the step id that other releases write.
  context.step = static_cast<unsigned>(number<std::int64_t>("SLURM_STEP_ID", -16, 0xffffffff, 0));
  context.node = variable("SLURMD_NODENAME");
  if (context.node.empty()) throw Error("SLURMD_NODENAME: not set; espalier-launch runs in a Slurm step");
  context.self = std::filesystem::read_symlink("/proc/self/exe").string();
  context.program = std::move(program);
  context.min_gpus = number<int>("ESPALIER_MIN", 0, 1000000, 0);
  context.max_gpus = number<int>("ESPALIER_MAX", 0, 1000000, 0);
  if (const std::string accuracy = variable("ESPALIER_ACCURACY"); !accuracy.empty())
    context.accuracy = accuracy_from(accuracy);
  return context;
}

void complete(JobContext& context) {
  const auto job = load_job(context.job);
  if (!job) throw Error("slurm: job " + std::to_string(context.job) + " is unknown");
  context.site = load_site();
  context.name = job->name;
  context.account = job->account;
  context.anchor = job->holdings;
  const int gpus = static_cast<int>(context.anchor_gpus().size());
  if (context.min_gpus == 0) context.min_gpus = gpus;
  if (context.max_gpus == 0) context.max_gpus = context.config.max_gpus;
  context.max_gpus = std::max(std::min(context.max_gpus, context.config.max_gpus), gpus);
  context.min_gpus = std::min(context.min_gpus, gpus);
}

std::string own_address(const std::string& network, const std::string& node) {
  const auto slash = network.find('/');
  in_addr wanted{};
  int bits = 0;
  if (slash == std::string::npos || ::inet_pton(AF_INET, network.substr(0, slash).c_str(), &wanted) != 1) return node;
  std::from_chars(network.data() + slash + 1, network.data() + network.size(), bits);
  const std::uint32_t mask = bits <= 0 ? 0 : htonl(~std::uint32_t{0} << (32 - std::min(bits, 32)));
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return node;
  std::string address = node;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    const auto& own = reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr;
    if ((own.s_addr & mask) != (wanted.s_addr & mask)) continue;
    char text[INET_ADDRSTRLEN];
    if (::inet_ntop(AF_INET, &own, text, sizeof text) != nullptr) address = text;
    break;
  }
  ::freeifaddrs(list);
  return address;
}

std::string vault_prefix(JobId job, unsigned step) {
  return "espalier-vault-" + std::to_string(job) + "." + std::to_string(step);
}

std::vector<std::uint16_t> launcher_ports(JobId job, unsigned step) {
  // Below the ephemeral range; a neighbour that took one only moves us to the next.
  constexpr unsigned kFirst = 20000, kCount = 12000, kTries = 16;
  std::vector<std::uint16_t> ports;
  for (unsigned i = 0; i < kTries; ++i)
    ports.push_back(static_cast<std::uint16_t>(kFirst + (job * 16u + step * 16u * 7u + i) % kCount));
  return ports;
}

}  // namespace espalier::launcher
