// slurmctld itself, the releases of its parts, the nodes and the clocks.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "planner/cli/doctor/checks.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr double kClockWarning = 2, kClockFault = 60;  // seconds; a MUNGE credential lives for 300
constexpr std::int64_t kRegistration = 60;             // seconds that a node's registration may take

Finding answers(const Facts& facts) {
  if (!facts.slurm)
    return fault("slurmctld cannot be asked: " + facts.slurm.why,
                 {command("systemctl status slurmctld"), command("scontrol ping")});
  return ok("Slurm " + facts.slurm->setting("SLURM_VERSION") + " on " + facts.slurm->setting("SlurmctldHost[0]"));
}

Finding library(const Facts&, const Slurm& slurm) {
  const std::string version = slurm.setting("SLURM_VERSION");
  if (release_of(version) == release_of(slurm.library)) return ok("libslurm " + slurm.library + " talks to " + version);
  return warning("this program loads libslurm " + slurm.library + ", slurmctld is " + version +
                     ": they agree as long as no more than two releases lie between them",
                 {command("make clean && make && make install  # with the headers of Slurm " + version)});
}

Finding node_versions(const Facts&, const Slurm& slurm) {
  const std::string controller = slurm.setting("SLURM_VERSION");
  std::map<std::string, std::vector<std::string>> others;
  std::size_t known = 0;
  for (const Node& node : slurm.nodes) {
    if (node.version.empty()) continue;
    ++known;
    if (release_of(node.version) != release_of(controller)) others[node.version].push_back(node.name);
  }
  if (known == 0) return skipped("no slurmd has told its version yet");
  if (others.empty()) return ok("slurmd is " + release_of(controller) + " on all " + std::to_string(known) + " nodes");
  std::string list;
  for (const auto& [version, names] : others) list += (list.empty() ? "" : "; ") + version + " on " + fold_hosts(names);
  return warning("slurmd is another release than slurmctld's " + controller + " (" + list +
                     "): each node needs an espalier.so of its own release",
                 {command("make install  # on those nodes, with the headers of their Slurm")});
}

Finding same_file(const Facts& facts, const Slurm& slurm) {
  const std::string hash = slurm.setting("HASH_VAL");
  if (hash.empty()) return skipped("slurmctld does not tell");
  if (hash == "Match") return ok("slurm.conf is the same here as slurmctld's");
  return warning("slurm.conf on this host is not the one that slurmctld has read (" + hash + ")",
                 {command("scontrol reconfigure  # after " + facts.slurm_conf() + " is the same on all hosts")});
}

Finding nodes(const Facts&, const Slurm& slurm) {
  int gpus = 0;
  std::vector<std::string> with_gpus, away;
  for (const Node& node : slurm.nodes) {
    if (node.gpus == 0) continue;
    gpus += node.gpus;
    with_gpus.push_back(node.name);
    if (!node.usable) away.push_back(node.name);
  }
  const std::string all = std::to_string(gpus) + " GPUs on " + std::to_string(with_gpus.size()) + " nodes";
  if (with_gpus.empty())
    return fault("no node has GPUs",
                 {{"slurm.conf", "Gres=gpu:TYPE:COUNT", "NodeName=..."}, {"gres.conf", "AutoDetect=nvml", ""}});
  if (away.empty()) return ok(all);
  const Remedy remedy = command("scontrol show node " + fold_hosts(away) +
                                "  # its Reason; then: scontrol update NodeName=" + fold_hosts(away) + " State=RESUME");
  const std::string found = all + ", of which " + fold_hosts(away) + " cannot be used (down, drained or silent)";
  return away.size() == with_gpus.size() ? fault(found, {remedy}) : warning(found, {remedy});
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f s", seconds);
  return text;
}

Finding controller_clock(const Facts&, const Slurm& slurm) {
  // slurmctld told a whole second, at some time between the question and its answer.
  const double ahead = slurm.controller_clock - slurm.answered, behind = slurm.asked - (slurm.controller_clock + 1);
  const double difference = std::max({ahead, behind, 0.0});
  if (difference <= kClockWarning) return ok("this host's clock and slurmctld's agree");
  const std::string found =
      "slurmctld's clock is " + seconds_text(difference) + (ahead > 0 ? " ahead of" : " behind") + " this host's";
  const std::vector<Remedy> remedies{command("systemctl enable --now chrony  # on every host")};
  if (difference < kClockFault) return warning(found, remedies);
  return fault(found + "; MUNGE refuses credentials that are 300 s old", remedies);
}

// slurmd tells when it started by its own clock, and how long ago the node was booted.
Finding node_clocks(const Facts&, const Slurm& slurm) {
  std::vector<std::string> ahead, behind;
  std::size_t known = 0;
  const auto now = static_cast<std::int64_t>(slurm.controller_clock);
  for (const Node& node : slurm.nodes) {
    if (node.start == 0 || node.boot == 0) continue;
    ++known;
    if (node.start > now + kRegistration) ahead.push_back(node.name);
    if (node.start < node.boot - kRegistration) behind.push_back(node.name);
  }
  if (known == 0) return skipped("no node has told when its slurmd started");
  if (ahead.empty() && behind.empty())
    return ok("slurmd started after the boot and before now on all " + std::to_string(known) +
              " nodes; a smaller difference of a clock is not known from here");
  std::string found;
  if (!ahead.empty()) found += fold_hosts(ahead) + " ahead";
  if (!behind.empty()) found += (found.empty() ? "" : ", ") + fold_hosts(behind) + " behind";
  return fault("clocks of nodes are wrong by more than a minute: " + found,
               {command("systemctl enable --now chrony  # on every node")});
}

}  // namespace

std::span<const Check> slurm_checks() {
  static const Check table[] = {
      {"slurmctld", Audience::everyone, answers},
      {"libslurm", Audience::everyone, library},
      {"slurmd-versions", Audience::administrator, node_versions},
      {"slurm.conf", Audience::administrator, same_file},
      {"nodes", Audience::everyone, nodes},
      {"clock", Audience::everyone, controller_clock},
      {"node-clocks", Audience::administrator, node_clocks},
  };
  return table;
}

}  // namespace espalier::cli::doctor
