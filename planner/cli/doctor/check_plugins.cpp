// The two plugins: named in Slurm's files, there, built for the Slurm that loads them, and with the right words.
#include "planner/cli/doctor/checks.hpp"

namespace espalier::cli::doctor {
namespace {

Remedy plugstack_line(const Facts& facts) {
  return {facts.plugstack_path(),
          "optional " + facts.spank_file + " planner=" + facts.planner_host() +
              (facts.config.planner_port == 7321 ? "" : ":" + std::to_string(facts.config.planner_port)) +
              " max=" + std::to_string(facts.config.max_gpus) + " launcher=" + facts.prefix +
              "/bin/espalier-launch report=" + facts.prefix + "/sbin/espalier-report",
          ""};
}

std::string place(const PlugstackLine& line) { return line.file + ":" + std::to_string(line.line); }

Remedy in_line(const PlugstackLine& line, const std::string& words) { return {place(line), words, "espalier.so"}; }

Finding plugstack(const Facts& facts) {
  if (!facts.slurm && !facts.plugins) return skipped(facts.plugins.why);
  if (!facts.plugins) return fault(facts.plugins.why, {plugstack_line(facts)});
  const auto& lines = facts.plugins->spank;
  if (lines.empty())
    return fault(facts.plugins->plugstack + " does not name espalier.so: no job can be elastic",
                 {plugstack_line(facts), command("systemctl restart slurmd  # on every node")});
  if (lines.size() > 1)
    return fault("espalier.so is named twice, in " + place(lines[0]) + " and in " + place(lines[1]),
                 {{lines[1].file, "# (remove line " + std::to_string(lines[1].line) + ")", ""}});
  if (lines[0].required)
    return warning(place(lines[0]) + " says required: no job starts where the plugin is missing or does not load",
                   {in_line(lines[0], "optional")});
  return ok(place(lines[0]) + " names " + lines[0].plugin.path);
}

const PlugstackLine* first_line(const Facts& facts) {
  return facts.plugins && !facts.plugins->spank.empty() ? &facts.plugins->spank.front() : nullptr;
}

Finding spank_plugin(const Facts& facts, const Slurm& slurm) {
  const PlugstackLine* line = first_line(facts);
  if (line == nullptr) return skipped("plugstack.conf does not name espalier.so");
  const PluginFile& plugin = line->plugin;
  if (!plugin.exists)
    return fault(plugin.path + ", which " + place(*line) + " names, is not there or cannot be read",
                 {in_line(*line, facts.spank_file), command("make install  # on every host that runs srun or slurmd")});
  const std::string version = slurm.setting("SLURM_VERSION");
  if (!plugin.built_for)
    return fault(plugin.path + " is no SPANK plugin: it does not tell its Slurm's version", {command("make install")});
  if (release_of(version_text(*plugin.built_for)) == release_of(version))
    return ok(plugin.path + " was built for Slurm " + version_text(*plugin.built_for));
  return fault(plugin.path + " was built for Slurm " + version_text(*plugin.built_for) + ", this is " + version +
                   ": Slurm does not load it",
               {command("make clean && make install  # with the headers of Slurm " + version)});
}

Finding spank_planner(const Facts& facts) {
  const PlugstackLine* line = first_line(facts);
  if (line == nullptr) return skipped("plugstack.conf does not name espalier.so");
  const auto planner = facts.plugins->argument("planner");
  const std::string port = std::to_string(facts.config.planner_port);
  const std::string right = "planner=" + facts.planner_host() + (port == "7321" ? "" : ":" + port);
  if (!planner || planner->empty())
    return fault(place(*line) + " has no planner=: nodes tell espalierd neither their topology nor GPUs that come free",
                 {in_line(*line, right)});
  std::string host = *planner, told_port = "7321";
  const auto colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && (host.find(':') == colon || host[colon - 1] == ']');
  if (has_port) {
    told_port = host.substr(colon + 1);
    host.resize(colon);
  }
  if (is_loopback(host))
    return fault(
        place(*line) + ": planner=" + *planner + " is each node itself, and espalierd runs on " + facts.planner_host(),
        {in_line(*line, right)});
  if (told_port != port)
    return fault(place(*line) + ": planner=" + *planner + " is port " + told_port + ", espalierd's is " + port,
                 {in_line(*line, right)});
  return ok("nodes report to " + *planner);
}

Finding spank_limit(const Facts& facts) {
  const PlugstackLine* line = first_line(facts);
  if (line == nullptr) return skipped("plugstack.conf does not name espalier.so");
  const std::string max = facts.plugins->argument("max").value_or("64"), ours = std::to_string(facts.config.max_gpus);
  if (max == ours) return ok("a job may ask for " + max + " GPUs");
  return warning("a job may ask for " + max + " GPUs (max= in " + place(*line) + "), and gets " + ours +
                     " at most (extensions.max_gpus in " + facts.config_path() + ")",
                 {in_line(*line, "max=" + ours)});
}

Finding launcher(const Facts& facts) {
  const PlugstackLine* line = first_line(facts);
  if (line == nullptr) return skipped("plugstack.conf does not name espalier.so");
  const auto path = facts.plugins->argument("launcher");
  if (!path) return ok("the launcher is where the plugin was built to find it");
  if (facts.plugins->launcher_there) return ok(*path + " can be executed");
  const std::string found = *path + ", which " + place(*line) + " names, cannot be executed here";
  if (facts.slurm && !facts.is_node() && facts.administrator && *path == facts.prefix + "/bin/espalier-launch")
    return skipped(found + ", but this host is none of the nodes");
  return fault(found + ": elastic jobs run without elasticity",
               {in_line(*line, "launcher=" + facts.prefix + "/bin/espalier-launch")});
}

Finding option(const Facts& facts) {
  if (!facts.srun_knows_elastic) return fault(facts.srun_knows_elastic.why, {command("srun --help")});
  if (*facts.srun_knows_elastic) return ok("srun --help has --elastic");
  return fault("srun does not know --elastic on this host: the plugin was not loaded",
               {plugstack_line(facts), command("srun -vv true  # says what plugins it loads, and why not")});
}

// Ranks run in containers where the site has pyxis. A rank enters a container that a step holds, and Slurm ends that
// step at a preemption's notice if its processes are found by their parents only.
Finding containers(const Facts& facts, const Slurm& slurm) {
  if (!facts.plugins) return skipped(facts.plugins.why);
  if (facts.plugins->pyxis.empty())
    return ok("plugstack.conf does not name spank_pyxis.so: jobs of this site run outside of containers");
  const PlugstackLine& line = facts.plugins->pyxis.front();
  if (!line.plugin.exists)
    return fault(line.plugin.path + ", which " + place(line) + " names, is not there or cannot be read",
                 {{place(line), "/usr/local/lib/slurm/spank_pyxis.so", "spank_pyxis.so"}});
  if (const std::string type = slurm.setting("ProctrackType"); type != "proctrack/cgroup")
    return warning(place(line) + " names pyxis, and ProctrackType is " + type +
                       ": a job in a container loses it when Slurm gives notice of a preemption",
                   {{facts.slurm_conf(), "ProctrackType=proctrack/cgroup", ""}});
  return ok(place(line) + " names pyxis: elastic jobs take --container-image");
}

Finding submit(const Facts& facts, const Slurm& slurm) {
  if (loads_submit_plugin(slurm)) return ok("JobSubmitPlugins=" + slurm.setting("JobSubmitPlugins"));
  return warning(
      "JobSubmitPlugins does not have espalier: elastic requests that cannot be met are not refused at once, "
      "jobs cannot be elastic by their comment, and espalierd hears of new jobs late",
      {submit_plugin_line(facts, slurm)});
}

Finding submit_plugin(const Facts& facts, const Slurm& slurm) {
  const bool used = loads_submit_plugin(slurm);
  if (!facts.plugins) return skipped(facts.plugins.why);
  const PluginFile& plugin = facts.plugins->submit;
  if (!plugin.exists) {
    if (!used) return skipped("the site does not use it");
    const std::string folder = facts.submit_file.substr(0, facts.submit_file.rfind('/'));
    return fault(
        "JobSubmitPlugins has espalier, but no folder of PluginDir has job_submit_espalier.so: slurmctld does "
        "not start again",
        {{facts.slurm_conf(), "PluginDir=" + folder + ":" + slurm.setting("PluginDir"), ""}});
  }
  const std::string version = slurm.setting("SLURM_VERSION");
  const std::string built = plugin.built_for ? version_text(*plugin.built_for) : "no Slurm that it tells";
  if (built == version || version.starts_with(built + "-")) return ok(plugin.path + " was built for Slurm " + built);
  const std::string found = plugin.path + " was built for " + built + ", slurmctld is " + version;
  const std::vector<Remedy> remedies{command("make clean && make install  # with the headers of Slurm " + version)};
  return used ? fault(found + ": slurmctld does not start with it", remedies) : warning(found, remedies);
}

}  // namespace

bool loads_submit_plugin(const Slurm& slurm) {
  return ("," + slurm.setting("JobSubmitPlugins") + ",").find(",espalier,") != std::string::npos;
}

Remedy submit_plugin_line(const Facts& facts, const Slurm& slurm) {
  const std::string others = slurm.setting("JobSubmitPlugins");
  return {facts.slurm_conf(), "JobSubmitPlugins=" + (others.empty() ? "" : others + ",") + "espalier", ""};
}

std::span<const Check> plugin_checks() {
  static const Check table[] = {
      {"plugstack", Audience::everyone, plugstack},
      {"spank-plugin", Audience::everyone, spank_plugin},
      {"elastic-option", Audience::everyone, option},
      {"containers", Audience::everyone, containers},
      {"spank-planner", Audience::administrator, spank_planner},
      {"spank-limit", Audience::administrator, spank_limit},
      {"launcher", Audience::everyone, launcher},
      {"job-submit", Audience::administrator, submit},
      {"submit-plugin", Audience::administrator, submit_plugin},
  };
  return table;
}

}  // namespace espalier::cli::doctor
