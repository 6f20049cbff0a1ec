#include "launcher/world/server/mpi_environment.hpp"

namespace espalier::launcher {

std::vector<std::string> mpi_environment(const RankPosition& position, const std::string& directory,
                                         const std::string& network, bool tcp_alone) {
  std::vector<std::string> list{
      // Programs read these to learn their rank before or without MPI.
      "OMPI_COMM_WORLD_RANK=" + std::to_string(position.rank), "OMPI_COMM_WORLD_SIZE=" + std::to_string(position.size),
      "OMPI_COMM_WORLD_LOCAL_RANK=" + std::to_string(position.local_rank),
      "OMPI_COMM_WORLD_LOCAL_SIZE=" + std::to_string(position.local_size),
      "OMPI_COMM_WORLD_NODE_RANK=" + std::to_string(position.local_rank),
      "OMPI_UNIVERSE_SIZE=" + std::to_string(position.size),
      // Open MPI 4.1 takes a process without this for a world of its own. The address is never contacted.
      "OMPI_MCA_orte_local_daemon_uri=1.0;tcp://127.0.0.1:1",
      // Shared memory files of two generations must not meet: 4.1 calls the transport vader, later versions sm.
      "OMPI_MCA_btl_vader_backing_directory=" + directory, "OMPI_MCA_btl_sm_backing_directory=" + directory,
      // The posix component tries itself out with a file /dev/shm/open_mpi.0000, which a rank that is killed then
      // leaves.
      "OMPI_MCA_shmem=mmap",
      // Copies from another process's memory need ptrace rights, which ranks of different Slurm steps may lack.
      "OMPI_MCA_btl_vader_single_copy_mechanism=none", "OMPI_MCA_smsc=^cma,knem,xpmem",
      "OMPI_MCA_hwloc_base_binding_policy=none",
      // More ranks than cores are the rule on CPU, and two generations share the cores during every hand-off.
      "OMPI_MCA_mpi_yield_when_idle=1"};
  if (tcp_alone) list.emplace_back("OMPI_MCA_btl=self,tcp");
  if (!network.empty()) list.push_back("OMPI_MCA_btl_tcp_if_include=" + network);
  return list;
}

std::vector<std::string> mpi_defaults() {
  // A longer message waits until its sender looks after MPI once more, and a rank that computes does not. The boundary
  // of a micro-batch is often longer than Open MPI's 4 KiB within a node and 64 KiB between nodes.
  std::vector<std::string> list{"OMPI_MCA_btl_tcp_eager_limit=1048576", "OMPI_MCA_btl_tcp_rndv_eager_limit=1048576",
                                "OMPI_MCA_btl_tcp_max_send_size=1048576", "OMPI_MCA_btl_tcp_free_list_inc=8"};
  for (const char* const transport : {"vader", "sm"}) {  // 4.1 and later
    const std::string prefix = std::string("OMPI_MCA_btl_") + transport;
    for (const char* const limit : {"_eager_limit=262144", "_rndv_eager_limit=262144", "_max_send_size=262144",
                                    "_free_list_inc=8", "_segment_size=33554432"})
      list.push_back(prefix + limit);
  }
  return list;
}

}  // namespace espalier::launcher
