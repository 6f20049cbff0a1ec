#include <cstdio>

#include "planner/cli/doctor/toy_job.hpp"

namespace espalier::cli::doctor {
namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 1 ? "%.2f s" : "%.1f s", seconds);
  return text;
}

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const auto before = text.rfind('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end - begin + 1);
}

// The line that tells most: the launcher's own, else the last one.
std::string reason_in(const std::string& said) {
  const auto at = said.find("espalier: ");
  return at == std::string::npos ? last_line(said) : said.substr(at, said.find('\n', at) - at);
}

Finding started(const ToyRun& run) {
  if (run.id != 0) return ok("job " + std::to_string(run.id) + " started after " + seconds_text(run.waited));
  const std::string asked = "salloc --elastic=1:2 --gres=" + run.job.gres;
  if (run.waited >= 0.9 * run.job.wait_seconds)
    return warning("Slurm gave no GPU within " + std::to_string(run.job.wait_seconds) + " s, so nothing was tried",
                   {command("espalier doctor --run --wait 600  # or --partition, --gres")});
  return fault("Slurm refused the job: " + last_line(run.said),
               {command(asked + "  # and the site's own options, after --")});
}

Finding reported(const ToyRun& run) {
  if (run.seen) {
    const double step = run.seen->value("step_seconds", 0.0);
    if (step > 0) return ok("espalierd saw it train, " + seconds_text(step) + " a step");
    return fault(
        "its launcher has registered with espalierd, and its training reported no step: " + reason_in(run.said),
        {command("srun --elastic=1:2 --gres=" + run.job.gres + " " + run.job.program +
                 " ...  # and read what it says")});
  }
  if (run.steps > 0)
    return fault(
        "it trained without espalierd's knowledge: " + (run.unseen.empty() ? reason_in(run.said) : run.unseen),
        {command("espalier doctor --admin  # on the node that it ran on: the plugin, the launcher, planner-host")});
  return fault("espalierd never heard of it: " + reason_in(run.said), {command("journalctl -u espalierd")});
}

Finding grew(const ToyRun& run) {
  if (run.most_gpus > 1) return ok("it grew to " + std::to_string(run.most_gpus) + " GPUs");
  return skipped("it did not grow, which needs an idle GPU and time; espalier explain " + std::to_string(run.id) +
                 " tells why");
}

Finding ended(const ToyRun& run) {
  const std::string steps = std::to_string(run.steps) + " of " + std::to_string(run.all_steps) + " steps";
  if (!run.failed && run.steps >= run.all_steps) return ok("it did " + steps + " and ended by itself");
  return fault(
      "it did " + steps + " and " + (run.failed ? "failed: " : "ended: ") + reason_in(run.said),
      {command("espalier show job " + std::to_string(run.id)), command("scontrol show job " + std::to_string(run.id))});
}

}  // namespace

std::vector<Finding> judge_run(const ToyRun& run) {
  std::vector<Finding> findings{started(run)};
  findings.back().check = "run-start";
  const auto add = [&](const char* name, Finding (*judge)(const ToyRun&)) {
    findings.push_back(run.id == 0 ? skipped("it did not start") : judge(run));
    findings.back().check = name;
  };
  add("run-report", reported);
  add("run-growth", grew);
  add("run-end", ended);
  return findings;
}

}  // namespace espalier::cli::doctor
