// espalier.toml, espalierd, and the folder of its state.
#include <pwd.h>

#include <algorithm>
#include <cstdio>

#include "planner/cli/doctor/checks.hpp"
#include "planner/wire/grant.h"

namespace espalier::cli::doctor {
namespace {

constexpr std::uint64_t kLeastFreeMb = 64;

std::string name_of(uid_t user) {
  const passwd* entry = ::getpwuid(user);
  return entry == nullptr ? std::to_string(user) : entry->pw_name;
}

Finding configuration(const Facts& facts) {
  if (!facts.config_problem.empty()) return fault(facts.config_problem, {command("man espalier.toml")});
  if (facts.config_there) return ok(facts.config_path() + " has no error");
  return warning(
      "there is no " + facts.config_path() + ": the defaults hold, and espalierd's unit does not start",
      {command("install -D -m 644 " + facts.prefix + "/share/doc/espalier/espalier.toml " + facts.config_path())});
}

Finding planner(const Facts& facts) {
  if (!facts.ping)
    return fault("espalierd does not answer: " + facts.ping.why,
                 {command("systemctl enable --now " + facts.prefix + "/lib/systemd/system/espalierd.service"),
                  command("journalctl -u espalierd")});
  const Json& ping = *facts.ping;
  const std::string slurm = ping.value("slurm", "");
  if (slurm != "up" && slurm != "not yet known")
    return fault("espalierd answers, but slurmctld does not answer espalierd: " + slurm,
                 {command("journalctl -u espalierd"), command("systemctl status slurmctld")});
  if (ping.value("shadow", false))
    return warning("espalierd runs with --shadow: it decides and records, and acts on nothing",
                   {command("systemctl edit espalierd  # ExecStart without --shadow, when the site wants it")});
  return ok("espalierd " + ping.value("version", "") + " with " + std::to_string(ping.value("jobs", 0)) +
            " jobs; Slurm is " + slurm);
}

Finding version(const Facts& facts) {
  if (!facts.ping) return skipped("espalierd does not answer");
  const std::string theirs = facts.ping->value("version", "");
  if (theirs == ESPALIER_VERSION) return ok("espalierd and this program are both " + theirs);
  return warning("espalierd is " + theirs + ", this program is " ESPALIER_VERSION,
                 {command("make install  # of one version on every host; then: systemctl restart espalierd")});
}

Finding host(const Facts& facts) {
  const std::string& name = facts.config.planner_host;
  if (!is_loopback(name)) return ok("launchers look for espalierd on " + name);
  if (facts.slurm && facts.slurm->nodes.size() == 1 && facts.is_node())
    return ok("launchers look for espalierd on " + name + ", and there is no other host");
  return fault("planner.host is " + name + ": launchers look for espalierd on their own node",
               {{facts.config_path(), "host = \"" + facts.planner_host() + "\"", "[planner]"}});
}

Finding port(const Facts& facts) {
  if (!facts.ping) return skipped("espalierd does not answer");
  const std::string where = facts.config.planner_host + ":" + std::to_string(facts.config.planner_port);
  if (!facts.network_ping)
    return fault(
        "espalierd answers on its socket and not at " + where + ", where launchers connect: " + facts.network_ping.why,
        {{facts.config_path(), "host = \"" + facts.planner_host() + "\"", "[planner]"},
         command("ss -ltn 'sport = :" + std::to_string(facts.config.planner_port) +
                 "'  # and let the firewall pass TCP and UDP from the nodes")});
  return ok("it answers at " + where + ", after a login by MUNGE");
}

// What must be the same for launchers, tools and espalierd.
Finding same_settings(const Facts& facts) {
  if (!facts.planner_config) return skipped(facts.planner_config.why);
  const wire::Config& ours = facts.config;
  const Json& theirs = *facts.planner_config;
  std::string differ;
  const auto compare = [&](const std::string& key, const Json& value) {
    if (theirs.contains(key) && theirs[key] != value)
      differ +=
          (differ.empty() ? "" : ", ") + key + " is " + theirs[key].dump() + " there and " + value.dump() + " here";
  };
  compare("planner.port", ours.planner_port);
  compare("extensions.partition", ours.partition);
  compare("extensions.max_gpus", ours.max_gpus);
  compare("extensions.max_lease_minutes", ours.max_lease_minutes);
  compare("extensions.kill_wait_seconds", ours.kill_wait_seconds);
  compare("launch.network", ours.network);
  if (differ.empty()) return ok("espalierd runs with the settings of this host's file");
  return warning(
      "espalierd runs with other settings than this host's file has: " + differ,
      {command("systemctl restart espalierd  # after " + facts.config_path() + " is the same on all hosts")});
}

// Without a key for grants users can submit into the partition for extensions. Only limits of its QOS bound them there.
Finding without_grants(const Facts& facts, const Slurm& slurm, const Partition& elastic) {
  const std::string users = "users can submit into partition " + elastic.name + " without Espalier",
                    no_key = "espalierd has no key in " ESPALIER_GRANT_KEY;
  const std::string enforced = slurm.setting("AccountingStorageEnforce");
  const bool limits = enforced.find("limits") != std::string::npos;
  if (limits && !elastic.qos.empty())
    return ok(users + ", as far as its MaxTime and QOS " + elastic.qos + " allow: " + no_key);
  std::vector<Remedy> remedies;
  if (limits) {
    remedies.push_back(command("sacctmgr add qos espalier set MaxTRESPerUser=gres/gpu=64 Flags=DenyOnLimit"));
    remedies.push_back({facts.slurm_conf(), "QOS=espalier", "PartitionName=" + elastic.name});
  } else if (!elastic.qos.empty() && enforced.find("associations") != std::string::npos) {
    remedies.push_back({facts.slurm_conf(), "AccountingStorageEnforce=" + enforced + ",limits", ""});
  }
  // Without associations no limit is enforced, and to enforce them refuses users who have none. A key does not.
  remedies.push_back(command("(umask 077; printf 'partition=" + elastic.name +
                             "\\nkey=%s\\n' \"$(openssl rand -hex 32)\" > " ESPALIER_GRANT_KEY
                             ")  # and the rest of GRANTS in espalier-spank(8)"));
  return warning(
      users + ", and no QOS bounds what they hold there: " +
          (elastic.qos.empty() ? "the partition has none"
                               : "AccountingStorageEnforce is without limits, so that Slurm does not look at "
                                 "those of QOS " +
                                     elastic.qos) +
          ", and " + no_key,
      remedies);
}

// Whether slurmctld keeps users' own jobs out of the partition for extensions.
Finding grants(const Facts& facts, const Slurm& slurm) {
  if (!facts.planner_config) return skipped(facts.planner_config.why);
  const std::string& partition = facts.config.partition;
  if (!facts.planner_config->value("extensions.grants", false)) {
    if (facts.elastic() == nullptr) return skipped("there is no partition " + partition);
    return without_grants(facts, slurm, *facts.elastic());
  }
  if (loads_submit_plugin(slurm))
    return ok("espalierd gives extensions grants, and job_submit asks for them in partition " + partition);
  return warning(
      "espalierd gives extensions grants, but slurmctld does not load job_submit_espalier.so, which asks "
      "for them: users can submit into partition " +
          partition,
      {submit_plugin_line(facts, slurm)});
}

Finding user(const Facts& facts, const Slurm& slurm) {
  if (!facts.planner_user) return skipped("espalierd's socket is not on this host");
  const std::string name = name_of(*facts.planner_user), slurms = name_of(slurm.slurm_user);
  if (*facts.planner_user == slurm.slurm_user || *facts.planner_user == 0) return ok("espalierd runs as " + name);
  return fault("espalierd runs as " + name + ": launchers and nodes speak to root and SlurmUser (" + slurms +
                   ") only, and "
                   "only they may end extensions",
               {{"/etc/systemd/system/espalierd.service.d/user.conf", "User=" + slurms, "[Service]"}});
}

Finding state(const Facts& facts) {
  if (!facts.state) return skipped(facts.state.why);
  const StateFolder& state = *facts.state;
  char mode[16];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(state.mode));
  if (facts.planner_user && state.owner != *facts.planner_user)
    return fault(
        state.path + " belongs to " + name_of(state.owner) + ", espalierd runs as " + name_of(*facts.planner_user),
        {command("chown -R " + name_of(*facts.planner_user) + ": " + state.path)});
  if ((state.mode & 077) != 0)
    return fault(state.path + " has mode " + mode + ": others can read what jobs of all users did",
                 {command("chmod 0700 " + state.path)});
  return ok(state.path + " has mode " + mode + " and belongs to " + name_of(state.owner));
}

Finding space(const Facts& facts) {
  if (!facts.state) return skipped(facts.state.why);
  const StateFolder& state = *facts.state;
  const auto limit = static_cast<std::uint64_t>(facts.config.store_mb);
  const std::uint64_t grows = limit > state.store_mb ? limit - state.store_mb : 0;
  const std::string found = "the store has " + std::to_string(state.store_mb) + " MB of its " + std::to_string(limit) +
                            " MB for records, and the disk " + std::to_string(state.free_mb) + " MB free";
  if (state.free_mb >= grows + kLeastFreeMb) return ok(found);
  const std::uint64_t fits = state.free_mb > kLeastFreeMb ? state.store_mb + state.free_mb - kLeastFreeMb : 16;
  const std::vector<Remedy> remedies{
      {facts.config_path(), "store_mb = " + std::to_string(std::max<std::uint64_t>(16, std::min(fits, limit))),
       "[planner]"},
      command("df " + state.path + "  # and make room, or move planner.state_dir")};
  if (state.free_mb < kLeastFreeMb)
    return fault(found + ": espalierd cannot record what it decides for long", remedies);
  return warning(found + ": less than it may come to", remedies);
}

// A growth across links that are slower than the planner believes makes steps slower before it is taken back.
Finding bandwidths(const Facts& facts, const Slurm& slurm) {
  if (!facts.planner_config) return skipped(facts.planner_config.why);
  if (slurm.nodes.size() < 2) return ok("there is one node");
  const Json& theirs = *facts.planner_config;
  const Json measured = theirs.value("network.measured", Json()), nic = theirs.value("network.nic_gb_s", Json());
  if (measured.is_string() && !measured.get<std::string>().empty())
    return ok("links between nodes were measured on " + measured.get<std::string>());
  if (nic.is_number() && nic.get<double>() != HardwareOverrides().nic_gb_s)
    return ok("links between nodes have nic_gb_s = " + nic.dump() + " of the configuration");
  return warning("nobody has measured the links between nodes: the planner takes a rail for " + nic.dump() + " GB/s",
                 {command("espalier calibrate  # minutes, as an ordinary job; then: systemctl reload espalierd")});
}

}  // namespace

std::span<const Check> planner_checks() {
  static const Check table[] = {
      {"espalier.toml", Audience::everyone, configuration}, {"espalierd", Audience::everyone, planner},
      {"espalierd-version", Audience::everyone, version},   {"planner-host", Audience::everyone, host},
      {"planner-port", Audience::everyone, port},           {"same-settings", Audience::everyone, same_settings},
      {"planner-user", Audience::administrator, user},      {"extension-grants", Audience::administrator, grants},
      {"state-folder", Audience::administrator, state},     {"state-space", Audience::administrator, space},
      {"bandwidths", Audience::administrator, bandwidths},
  };
  return table;
}

}  // namespace espalier::cli::doctor
