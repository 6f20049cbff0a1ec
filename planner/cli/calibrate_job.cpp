#include "planner/cli/calibrate_job.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "planner/cli/salloc.hpp"
#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::cli {
namespace {

// Inside the allocation. $1: how ranks are started, or nothing; $2: ranks of a node; then the ranks'
// command. Slurm may have PMIx and yet fail to start ranks with it, so it is tried first.
constexpr const char* kStartRanks =
    "how=$1 gpus=$2; shift 2\n"
    "ranks=\"srun --mpi=pmix --cpu-bind=none --kill-on-bad-exit=1 --ntasks-per-node=$gpus\"\n"
    "if [ \"$how\" = pmix ] || [ -z \"$how\" ] && srun --mpi=list 2>&1 | grep -q pmix && tried=$($ranks true 2>&1)\n"
    "then exec $ranks \"$@\"; fi\n"
    "if [ \"$how\" = mpirun ] || [ -z \"$how\" ] && command -v mpirun > /dev/null; then\n"
    "  exec mpirun --oversubscribe --bind-to none --map-by \"ppr:$gpus:node\" \"$@\"\n"
    "fi\n"
    "echo \"$tried\" >&2\n"
    "echo \"espalier: calibrate: ranks cannot be started${how:+ by $how}: srun --mpi=pmix does not work, or there is no"
    " mpirun here; install one of them, and see --mpi\" >&2\n"
    "exit 127\n";

// MPI as the launcher sets it up (launcher/world/server/mpi_environment.cpp).
void set_environment(const CalibrateJob& job) {
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  ::setenv("OMPI_MCA_smsc", "^cma,knem,xpmem", 1);
  ::setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
  if (!job.network.empty()) {
    ::setenv("OMPI_MCA_btl_tcp_if_include", job.network.c_str(), 1);
    ::setenv("OMPI_MCA_oob_tcp_if_include", job.network.c_str(), 1);
  }
  if (::geteuid() != 0) return;
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);  // the administrator's own choice
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

}  // namespace

std::vector<std::string> salloc_command(const CalibrateJob& job) {
  const std::string gpus = std::to_string(job.gpus);
  std::vector<std::string> command{"salloc",
                                   "--job-name=espalier-calibrate",
                                   "--nodes=" + std::to_string(job.nodes.size()),
                                   "--nodelist=" + fold_hosts(job.nodes),
                                   "--ntasks-per-node=" + gpus,
                                   "--gres=gpu:" + gpus,
                                   "--exclusive",
                                   "--mem=0",
                                   "--time=" + std::to_string(job.minutes),
                                   "--immediate=" + std::to_string(job.wait_seconds)};
  if (!job.partition.empty()) command.push_back("--partition=" + job.partition);
  command.insert(command.end(), job.extra.begin(), job.extra.end());
  for (const std::string& word :
       {std::string("bash"), std::string("-c"), std::string(kStartRanks), std::string("calibrate"), job.mpi, gpus,
        job.program, std::string("--calibrate"), to_text(job.request)})
    command.push_back(word);
  return command;
}

ProbeReport run_calibrate_job(const CalibrateJob& job) {
  const EndingSignals signals;
  Salloc salloc(
      salloc_command(job), [&] { set_environment(job); }, signals);
  // salloc gives up by itself after wait_seconds, and Slurm ends the job after its minutes.
  salloc.watch(Salloc::Clock::now() + std::chrono::seconds(job.wait_seconds + 60 * job.minutes + 60), signals);
  if (salloc.job_id() == 0)
    throw Error("Slurm gave no nodes within " + std::to_string(job.wait_seconds) + " s (" + fold_hosts(job.nodes) +
                ", whole nodes); wait longer with --wait, or name idle nodes with --nodes; " + salloc.told());
  if (salloc.failed()) throw Error("job " + std::to_string(salloc.job_id()) + " failed; " + salloc.told());
  ProbeReport report = probe_report(salloc.output);
  if (!report.ended) throw Error("job " + std::to_string(salloc.job_id()) + " ended early; " + salloc.told());
  return report;
}

}  // namespace espalier::cli
