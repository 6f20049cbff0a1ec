// Which CPUs the ranks of a node run on. Slurm binds a task to CPUs near its GPU. It does not know the ranks, so that
// the rank server does this. A rank that runs on the other socket copies to and from its GPU at half the speed and
// takes its memory there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace espalier::launcher {

// Whether a rank with this environment is bound: not with ESPALIER_NUMA=off.
bool wants_binding(const std::vector<std::string>& environment);

// By rank: where its GPU is on the PCI bus; empty: unknown. `variables`: with ESPALIER_GPUS, the bus ids of this job's
// GPUs here. `places`: by rank, which of them it has.
std::vector<std::string> bus_ids_of(const std::vector<std::string>& variables, const std::vector<int>& places);

// By rank: the CPUs of the NUMA node that its GPU is attached to, of those in `allowed`. Empty: the rank is not bound.
// `bus_ids`: by rank, as "0000:41:00.0"; empty: unknown. A rank whose NUMA node is unknown is not bound. Where the
// ranks of a NUMA node would get less than three quarters of their even share of `allowed`, they get the CPUs of its
// socket; where those are too few as well, or all of `allowed`, they are not bound. On a machine with one NUMA node
// nothing is.
std::vector<std::vector<int>> cpus_near(const std::vector<std::string>& bus_ids, const std::set<int>& allowed,
                                        const std::filesystem::path& sys = "/sys");

// The CPUs that this process may use.
std::set<int> allowed_cpus();

// Binds all threads of a process. What cannot be bound runs on as it is.
void bind_to(pid_t process, const std::vector<int>& cpus);

}  // namespace espalier::launcher
