#include "launcher/world/server/hosted_world.hpp"

#include <csignal>

#include "launcher/world/container.hpp"
#include "launcher/world/server/cuda_defaults.hpp"
#include "launcher/world/server/numa_binding.hpp"
#include "launcher/world/server/torch_environment.hpp"
#include "launcher/world/server/variables.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

PmixNamespace namespace_of(const wire::RunRanks& request, const ContainerStep* container) {
  PmixNamespace space{request.name, {}, static_cast<std::size_t>(request.here), request.directory};
  if (container != nullptr) space.user = container->uid(), space.group = container->gid();
  for (const wire::RankPlace& place : request.places) space.places.push_back({place.server, place.ranks});
  return space;
}

}  // namespace

HostedWorld::HostedWorld(wire::Loop& loop, PmixServer& pmix, SpareRanks& spares, const wire::RunRanks& request,
                         const std::vector<std::string>& local, const ContainerStep* container, Callbacks callbacks)
    : pmix_(pmix),
      container_(container),
      generation_(request.generation),
      base64_(request.base64),
      name_(request.name),
      callbacks_(std::move(callbacks)) {
  const PmixNamespace space = namespace_of(request, container);
  pmix_.add(space);
  const std::vector<int>& devices = request.places.at(space.here).devices;
  try {
    const std::vector<int>& ranks = space.places.at(space.here).ranks;
    const auto own = container == nullptr ? request.environment : container->environment(request.environment);
    const std::vector<std::string> node = merged(with_cuda_defaults(own, space.of_one_job()), local);
    const bool tcp_alone = peers_by_node() && space.ranks_of_this_node() != ranks;
    std::vector<int> places = devices;
    places.resize(ranks.size(), -1);
    const bool binds = wants_binding(request.environment);
    const auto near =
        cpus_near(bus_ids_of(local, binds ? places : std::vector<int>(places.size(), -1)), allowed_cpus());
    for (std::size_t at = 0; at < ranks.size(); ++at) {
      const RankPosition position{ranks[at], space.size(), static_cast<int>(at), static_cast<int>(ranks.size())};
      auto environment = merged(merged(mpi_defaults(), node),
                                mpi_environment(position, request.directory, request.network, tcp_alone));
      const int device = at < devices.size() ? devices[at] : static_cast<int>(at);
      environment = merged(environment, torch_environment(position, device, {request.address, request.port}));
      start(loop, spares, request, ranks[at], merged(environment, pmix_.environment(name_, ranks[at])), near[at]);
    }
  } catch (const Error&) {
    end_ranks();
    throw;
  }
}

HostedWorld::~HostedWorld() { end_ranks(); }

// One by one, ranks that hang in the kernel would be waited for until the launcher took this rank server for lost, and
// with it the ranks of other generations.
void HostedWorld::end_ranks() {
  std::vector<Child*> processes;
  for (const auto& [rank, one] : ranks_) processes.push_back(one->process.get());
  Child::end_all(processes);
  ranks_.clear();  // before PMIx forgets them
  pmix_.remove(name_);
}

void HostedWorld::start(wire::Loop& loop, SpareRanks& spares, const wire::RunRanks& request, int rank,
                        const std::vector<std::string>& environment, const std::vector<int>& cpus) {
  auto made = std::make_unique<Rank>();
  const auto deliver = [this](bool error) {
    return [this, error](const std::string& text) { callbacks_.wrote({error, wire::bytes_to_text(text)}); };
  };
  const auto on_exit = [this, rank](int status) { ended(rank, status); };
  if (auto spare = request.first ? std::nullopt : spares.take(request.program, request.folder, environment, cpus)) {
    static_cast<RankProcess&>(*made) = std::move(*spare);
    made->output->deliver_to(deliver(false));
    made->errors->deliver_to(deliver(true));
    made->process->on_exit(on_exit);
    ranks_[rank] = std::move(made);
    return;
  }
  made->output = std::make_unique<RankOutput>(loop, true, deliver(false));
  made->errors = std::make_unique<RankOutput>(loop, false, deliver(true));
  Child::Traits traits;
  traits.keeps_stdin = request.first && rank == 0;
  // A rank of an extension must outlive Slurm's notice; it unblocks the signal when it can handle it. The program of
  // generation 0 may be one that knows nothing of us.
  traits.blocks_term = !request.first;
  traits.output = made->output->writer();
  traits.errors = made->errors->writer();
  if (container_ == nullptr) traits.folder = request.folder;
  else traits.entry = container_->entry(), traits.paths = paths_of(request.program.front(), environment);
  traits.limits = request.limits;
  traits.cpus = cpus;
  traits.refused = [this](const std::string& why) { callbacks_.refused(why); };
  made->process = std::make_unique<Child>(loop, request.program, environment, traits, on_exit);
  made->output->started();
  made->errors->started();
  ranks_[rank] = std::move(made);
}

void HostedWorld::ended(int rank, int status) {
  Rank& one = *ranks_.at(rank);
  one.output->drain();
  one.errors->drain();
  pmix_.flush();  // the word that the rank has finalized MPI comes on another descriptor
  callbacks_.ended({generation_, rank, exit_code(status), !one.connected || one.finalized});
}

void HostedWorld::signal(int number) const {
  for (const auto& [rank, one] : ranks_) one->process->signal(number);
}

void HostedWorld::pause_output(bool paused) {
  for (const auto& [rank, one] : ranks_) {
    one->output->pause(paused);
    one->errors->pause(paused);
  }
}

}  // namespace espalier::launcher
