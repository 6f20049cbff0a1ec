// The ranks of one generation on one rank server: their processes, their output and their PMIx namespace.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/process/child.hpp"
#include "launcher/world/server/container_step.hpp"
#include "launcher/world/server/pmix_server.hpp"
#include "launcher/world/server/spare_ranks.hpp"
#include "planner/wire/rank_messages.hpp"

namespace espalier::launcher {

class HostedWorld {
 public:
  struct Callbacks {
    std::function<void(const wire::RankEnded&)> ended;
    std::function<void(const wire::RankOutput&)> wrote;
    // The program of a rank could not be started. The owner destroys this object, but not in this callback.
    std::function<void(const std::string& why)> refused;
  };
  // Starts the ranks of request.places[request.here], as far as possible with spares. `local`: variables of this node
  // and Slurm job, which stand before those of the request. `container`: the ranks enter it; null: none. Throws Error;
  // then no rank runs. The PmixServer and the container outlive this object.
  HostedWorld(wire::Loop& loop, PmixServer& pmix, SpareRanks& spares, const wire::RunRanks& request,
              const std::vector<std::string>& local, const ContainerStep* container, Callbacks callbacks);
  ~HostedWorld();  // SIGKILL to all ranks
  HostedWorld(const HostedWorld&) = delete;
  HostedWorld& operator=(const HostedWorld&) = delete;

  const std::string& name() const { return name_; }
  void signal(int number) const;
  void pause_output(bool paused);
  void connected(int rank) { ranks_.at(rank)->connected = true; }
  void finalized(int rank) { ranks_.at(rank)->finalized = true; }
  bool has(int rank) const { return ranks_.contains(rank); }
  bool launcher_reads_base64() const { return base64_; }
  std::int64_t next_fence() { return fences_++; }
  std::map<std::int64_t, std::int64_t> tickets;  // of PMIx, by the number of the fence

 private:
  struct Rank : RankProcess {
    bool connected = false, finalized = false;
  };
  void start(wire::Loop& loop, SpareRanks& spares, const wire::RunRanks& request, int rank,
             const std::vector<std::string>& environment, const std::vector<int>& cpus);
  void ended(int rank, int status);
  void end_ranks();  // SIGKILL

  PmixServer& pmix_;
  const ContainerStep* container_;
  int generation_;
  bool base64_;
  std::string name_;
  Callbacks callbacks_;
  std::map<int, std::unique_ptr<Rank>> ranks_;
  std::int64_t fences_ = 0;
};

}  // namespace espalier::launcher
