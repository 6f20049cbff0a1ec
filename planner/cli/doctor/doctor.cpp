// `espalier doctor`: gathers facts, judges them, and prints what it found.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "planner/cli/commands.hpp"
#include "planner/cli/doctor/arguments.hpp"
#include "planner/cli/doctor/checks.hpp"
#include "planner/cli/doctor/gather.hpp"
#include "planner/cli/doctor/report.hpp"

namespace espalier::cli {
namespace {

std::vector<doctor::Finding> run_and_judge(const doctor::Facts& facts, doctor::ToyJob job) {
  const char* home = std::getenv("HOME");
  if (job.folder.empty()) job.folder = home == nullptr ? "." : home;
  if (job.program.empty()) job.program = facts.prefix + "/bin/" + doctor::kToy;
  std::fprintf(stderr, "espalier: doctor: running an elastic job on %s; this takes a minute once it has started\n",
               job.gres.c_str());
  return doctor::judge_run(doctor::run_toy_job(facts, job));
}

}  // namespace

int run_doctor(const std::vector<std::string>& words) {
  using namespace doctor;
  std::string help;
  const auto arguments = parse_arguments(words, help);
  if (!arguments) return std::fputs(help.c_str(), stdout), std::fflush(stdout) == 0 ? 0 : 1;
  Facts facts = gather(arguments->config);
  const bool may = ::geteuid() == 0 || (facts.slurm && ::geteuid() == facts.slurm->slurm_user);
  facts.administrator = arguments->administrator.value_or(may);
  std::vector<Finding> findings = judge(facts);
  if (arguments->run)
    for (Finding& found : run_and_judge(facts, arguments->job)) findings.push_back(std::move(found));
  const std::string text = arguments->json       ? report_json(findings, facts)
                           : arguments->fix_plan ? fix_plan(findings)
                                                 : report_text(findings);
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) return 1;
  return worst(findings) == Verdict::fault ? 1 : 0;
}

}  // namespace espalier::cli
