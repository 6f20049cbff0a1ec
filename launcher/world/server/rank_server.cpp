#include "launcher/world/server/rank_server.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "launcher/node/directory.hpp"
#include "launcher/node/own_address.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

namespace fs = std::filesystem;

// Slurm ends a step by signals to all of its processes. What they mean is the launcher's to say.
wire::Descriptor catch_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGURG, SIGCHLD}) sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return wire::Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

RankServer::RankServer(RankServerSettings settings)
    : settings_(std::move(settings)),
      signals_(catch_signals()),
      spares_(loop_, {[this](const wire::RunRanks& request) { start_world(request); },
                      [this] { launcher_.tell(wire::SparesFork{}); }}),
      launcher_(loop_, settings_.heartbeat,
                {[this] {
                   return wire::RankServerHello{settings_.job, settings_.node, ::getpid(), gpu_faults_, true};
                 },
                 [this](const wire::Frame& frame) { handle(frame); }, [this] { loop_.stop(); }}) {
  const fs::path own = fs::path(settings_.directory) / ("ranks-" + std::to_string(settings_.job));
  in_use_ = use_generation_directory(own);
  PmixServer::Callbacks on;
  on.fence = [this](const std::string& name, std::int64_t ticket, const std::string& data) {
    fence(name, ticket, data);
  };
  on.wanted = [this](const std::string& name, int rank, std::int64_t ticket) { wanted(name, rank, ticket); };
  on.connected = [this](const std::string& name, int rank) {
    if (HostedWorld* const world = worlds_.with(name, rank)) world->connected(rank);
  };
  on.finalized = [this](const std::string& name, int rank) {
    if (HostedWorld* const world = worlds_.with(name, rank)) world->finalized(rank);
  };
  on.aborted = [this](const std::string& name, int rank, int code) {
    launcher_.tell(wire::RankAborted{worlds_.generation_of(name), rank, code});
  };
  const std::string name = settings_.node + "." + std::to_string(settings_.job);
  pmix_ = std::make_unique<PmixServer>(loop_, name, own.string(), std::move(on));
}

int RankServer::run() {
  signalled_ = loop_.on_readable(signals_.get(), [this] { take_signals(); });
  check_gpus();
  prepare_node();
  loop_.run();
  gpu_check_.reset();
  worlds_.clear();
  setup_.reset();
  container_.end();
  std::error_code ignored;
  if (!settings_.with_launcher) {  // the launcher removes its own
    fs::remove_all(fs::path(settings_.directory) / ("ranks-" + std::to_string(settings_.job)), ignored);
    in_use_.reset();
    remove_if_abandoned(settings_.directory);
  }
  return code_;
}

// Beside the preparation of the node. The launcher hears of faults with this server's hello, before it counts the node
// as there.
void RankServer::check_gpus() {
  if (settings_.checked_gpus.empty()) return;
  try {
    gpu_check_ = std::make_unique<GpuCheck>(loop_, GpuCheck::own_command(), settings_.node, settings_.checked_gpus,
                                            [this](std::vector<wire::GpuFault> faults) {
                                              gpu_faults_ = std::move(faults);
                                              if (prepared_ && !launcher_.dialled()) find_launcher();
                                            });
  } catch (const Error& error) {
    std::fprintf(stderr,
                 "espalier: ranks: %s: the errors of its GPUs are not known: %s; training starts without a look at "
                 "them, which health.gpu_errors = false leaves out\n",
                 settings_.node.c_str(), error.what());
  }
}

// The node setup comes before the container: it may make folders that are mounted there.
void RankServer::prepare_node() {
  const auto go_on = [this] { settings_.container.empty() ? find_launcher() : make_container(); };
  if (settings_.node_setup.empty()) return go_on();
  NodeSetup::Callbacks on{go_on, [this](const std::string& why) { give_up(why); }};
  try {
    setup_ = std::make_unique<NodeSetup>(loop_, settings_.node_setup, clean_environment(local_variables(settings_)),
                                         settings_.node_setup_limit, std::move(on));
  } catch (const Error& error) {
    loop_.defer([this, why = "node_setup " + settings_.node_setup + ": " + error.what()] { give_up(why); });
  }
}

// The launcher hears of it by the end of this process.
void RankServer::give_up(const std::string& why) {
  std::fprintf(stderr, "espalier: ranks: no ranks can run on %s: %s\n", settings_.node.c_str(), why.c_str());
  code_ = wire::kCannotRun;
  loop_.stop();
}

void RankServer::make_container() {
  ContainerStep::Callbacks on;
  on.ready = [this] {
    if (!launcher_.dialled()) return find_launcher();
    spares_.ranks().start_anew();  // they are in a container whose files are removed
    for (wire::RunRanks& request : container_.take_waiting()) start_when_ready(std::move(request));
  };
  on.failed = [this](const std::string& why) { give_up(why + "; check the image and its options"); };
  container_.start(loop_, fifo_of(settings_), settings_.container, std::move(on));
}

void RankServer::find_launcher() {
  prepared_ = true;
  if (gpu_check_ && !gpu_check_->done()) return;
  launcher_.dial({wire::Service::ranks, settings_.anchor, settings_.token, {::getuid()}}, settings_.host,
                 settings_.port);
}

void RankServer::handle(const wire::Frame& frame) {
  if (frame.type == wire::RunRanks::type) return run_ranks(wire::from_frame<wire::RunRanks>(frame));
  if (frame.type == wire::EndRanks::type) return end(wire::from_frame<wire::EndRanks>(frame).generation);
  if (frame.type == wire::ModexWanted::type) return answer_wanted(wire::from_frame<wire::ModexWanted>(frame));
  if (frame.type == wire::KeepSpares::type) return keep_spares(wire::from_frame<wire::KeepSpares>(frame));
  if (frame.type == wire::SignalRanks::type) {
    const auto message = wire::from_frame<wire::SignalRanks>(frame);
    if (const HostedWorld* const world = worlds_.of(message.generation)) world->signal(message.number);
  } else if (frame.type == wire::FenceDone::type) {
    const auto done = wire::from_frame<wire::FenceDone>(frame);
    HostedWorld* const world = worlds_.of(done.generation);
    if (world == nullptr || !world->tickets.contains(done.number)) return;
    pmix_->answer(world->tickets.at(done.number), done.complete, wire::bytes_of(done));
    world->tickets.erase(done.number);
  } else if (frame.type == wire::ModexFound::type) {
    const auto found = wire::from_frame<wire::ModexFound>(frame);
    pmix_->answer(found.ticket, found.found, wire::text_to_bytes(found.data));
  } else if (frame.type == wire::OutputTaken::type) {
    worlds_.passed_on(wire::from_frame<wire::OutputTaken>(frame).bytes);
  } else if (frame.type == wire::GiveBack::type || frame.type == wire::Refused::type) {
    loop_.stop();
  }
  // Heartbeats need no answer, and neither does what a launcher of a newer version adds.
}

void RankServer::run_ranks(wire::RunRanks request) {
  try {
    if (worlds_.of(request.generation) != nullptr || spares_.awaits(request.generation))
      throw Error("they run already");
    if (request.here < 0 || static_cast<std::size_t>(request.here) >= request.places.size() ||
        request.places[static_cast<std::size_t>(request.here)].ranks.empty() || request.program.empty())
      throw Error("the request names no rank or no program");
    const std::vector<int>& ranks = request.places[static_cast<std::size_t>(request.here)].ranks;
    if (std::find(ranks.begin(), ranks.end(), 0) != ranks.end()) {
      request.address = own_address(request.network, settings_.node);
      request.port = unused_port();
      launcher_.tell(wire::Rendezvous{request.generation, request.address, request.port});
    }
    const auto made = use_generation_directory(request.directory);
    // MPI's shared memory files are numbered by the rank's place on its server, and another server of the same node
    // begins with the same number: each has a directory of its own.
    request.directory = (fs::path(request.directory) / std::to_string(settings_.job)).string();
    make_within_directory(request.directory);
    if (setup_) request.environment = setup_->changes().applied(request.environment);
    start_when_ready(std::move(request));
  } catch (const Error& error) {
    launcher_.tell(wire::RanksRefused{request.generation, error.what()});
  }
}

void RankServer::start_when_ready(wire::RunRanks request) {
  if (container_.is_replaced()) container_.wait(std::move(request));
  else spares_.run(std::move(request));
}

void RankServer::start_world(const wire::RunRanks& request) {
  if (container_.is_replaced()) return container_.wait(request);  // it has gone while the request waited for spares
  try {
    HostedWorld::Callbacks on;
    on.ended = [this](const wire::RankEnded& ended) { launcher_.tell(ended); };
    on.wrote = [this](const wire::RankOutput& output) { wrote(output); };
    on.refused = [this, generation = request.generation](const std::string& why) {
      loop_.defer([this, generation, why] {
        if (worlds_.remove(generation)) launcher_.tell(wire::RanksRefused{generation, why});
      });
    };
    worlds_.add(request.generation, std::make_unique<HostedWorld>(loop_, *pmix_, spares_.ranks(), request,
                                                                  own_variables(), container_.step(), std::move(on)));
  } catch (const Error& error) {
    worlds_.remove(request.generation);
    launcher_.tell(wire::RanksRefused{request.generation, error.what()});
  }
}

// What the node setup says of TMPDIR counts more than what Slurm has set.
std::vector<std::string> RankServer::own_variables() const {
  std::vector<std::string> list = local_variables(settings_);
  if (setup_)
    std::erase_if(list, [this](const std::string& one) { return setup_->changes().has(one.substr(0, one.find('='))); });
  return list;
}

void RankServer::keep_spares(wire::KeepSpares request) {
  if (setup_) request.environment = setup_->changes().applied(request.environment);
  spares_.ranks().keep(std::move(request), own_variables(), container_.step(), !worlds_.empty());
}

void RankServer::end(int generation) {
  const bool waited = container_.forget(generation) || spares_.forget(generation);
  if ((!worlds_.remove(generation) && !waited) || settings_.with_launcher) return;
  // Another server of this node may still use the directory above.
  const fs::path shared = fs::path(settings_.directory) / ("g" + std::to_string(generation));
  std::error_code ignored;
  fs::remove_all(shared / std::to_string(settings_.job), ignored);
  fs::remove(shared, ignored);
}

// PMIx asks for the fences of a world in the same order on every server.
void RankServer::fence(const std::string& name, std::int64_t ticket, const std::string& data) {
  const int generation = worlds_.generation_of(name);
  HostedWorld* const world = worlds_.of(generation);
  if (world == nullptr || !launcher_.connected()) return pmix_->answer(ticket, false, "");
  const std::int64_t number = world->next_fence();
  world->tickets[number] = ticket;
  launcher_.tell(wire::with_bytes(wire::FenceEntered{generation, number}, data, world->launcher_reads_base64()));
}

void RankServer::wanted(const std::string& name, int rank, std::int64_t ticket) {
  const int generation = worlds_.generation_of(name);
  if (generation < 0 || !launcher_.connected()) return pmix_->answer(ticket, false, "");
  launcher_.tell(wire::ModexWanted{generation, rank, ticket});
}

void RankServer::answer_wanted(const wire::ModexWanted& question) {
  const HostedWorld* const world = worlds_.of(question.generation);
  if (world == nullptr || !world->has(question.rank))
    return launcher_.tell(wire::ModexFound{question.generation, question.ticket, false, ""});
  pmix_->look_up(world->name(), question.rank, [this, question](bool known, const std::string& data) {
    launcher_.tell(wire::ModexFound{question.generation, question.ticket, known, wire::bytes_to_text(data)});
  });
}

void RankServer::wrote(const wire::RankOutput& output) {
  launcher_.tell(output);
  worlds_.sent(output.text.size());
}

void RankServer::take_signals() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info)
    if (info.ssi_signo == SIGCHLD) spares_.reap_orphans();
    else if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGURG) launcher_.tell(wire::Notice{settings_.job});
}

}  // namespace espalier::launcher
