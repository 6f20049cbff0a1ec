// espalier-bench-world RANKS ROUNDS FOLDER PROBE: run in a step of a Slurm job of several nodes, which has GPUs on
// each. Starts MPI worlds of RANKS ranks in turn: under mpirun with an agent that calls srun, as Espalier did before it
// had rank servers; on rank servers that are started for it (cold); and on rank servers that are there (warm). Prints
// one JSON object: milliseconds from the start to the end of MPI_Init in the last rank.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "launcher/node/directory.hpp"
#include "launcher/process/child.hpp"
#include "launcher/slurm/slurm.hpp"
#include "launcher/world/rank_servers.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"

namespace {

namespace fs = std::filesystem;
using namespace espalier;
using namespace espalier::launcher;

long long now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw Error(std::string(name) + ": not set; run this in a Slurm step");
  return value;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

struct Bench {
  wire::Loop loop;
  std::string node = variable("SLURMD_NODENAME"), token = wire::fresh_nonce();
  JobId job = static_cast<JobId>(std::stoul(variable("SLURM_JOB_ID")));
  std::vector<Holding> holdings;
  fs::path folder;
  std::string probe, self;
  int ranks = 0, runs = 0;
  std::unique_ptr<Directory> directory;
  std::unique_ptr<wire::Listener> listener;
  std::unique_ptr<RankServers> servers;

  std::vector<GpuId> gpus(int count) const {
    std::vector<GpuId> list;
    for (const Holding& holding : holdings)
      for (const int index : holding.gpus)
        if (static_cast<int>(list.size()) < count) list.push_back({holding.node, index});
    if (static_cast<int>(list.size()) < count) throw Error("the job has too few GPUs");
    return list;
  }

  std::vector<std::string> environment() const {
    return {"ESPALIER_LAUNCHER=" + node + ":" + std::to_string(listener->port()),
            "ESPALIER_TOKEN=" + token,
            "ESPALIER_DIRECTORY=" + (directory->path() / "g0").string(),
            "ESPALIER_HEARTBEAT=1",
            "ESPALIER_ANCHOR=" + std::to_string(job),
            "ESPALIER_ACTIVE=" + std::to_string(job)};
  }

  void start_servers() {
    listener = wire::listen_tcp(loop, {{wire::Service::ranks}, job, token, ::getuid()}, "0.0.0.0", 0,
                                [this](const wire::ConnectionPtr& made) {
                                  made->on_frame = [this, made](const wire::Frame& frame) {
                                    if (frame.type == wire::RankServerHello::type)
                                      servers->adopt(made, wire::from_frame<wire::RankServerHello>(frame));
                                  };
                                });
    RankServersSettings settings;
    settings.launcher = self;
    settings.node = node;
    settings.anchor = job;
    settings.holdings = holdings;
    settings.environment = environment();
    servers = std::make_unique<RankServers>(loop, settings, [](JobId) {});
    servers->start();
  }
  void stop_servers() {
    servers->leave();
    const auto look = loop.every(std::chrono::milliseconds(5), [this] {
      if (servers->left()) loop.stop();
    });
    loop.run();
    servers.reset();
    listener.reset();
  }

  fs::path fresh_folder() {
    const fs::path made = folder / std::to_string(++runs);
    fs::remove_all(made);
    fs::create_directories(made);
    return made;
  }
  // Milliseconds until the last rank had MPI initialised.
  double initialised(const fs::path& times, long long start) const {
    long long last = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      long long done = 0;
      std::ifstream file(times / std::to_string(rank));
      if (!(file >> done))
        throw Error("rank " + std::to_string(rank) + " of run " + times.string() + " has not started");
      last = std::max(last, done);
    }
    return static_cast<double>(last - start) / 1e6;
  }

  std::unique_ptr<Ranks> start_world(const fs::path& times, int count, const std::string& mode,
                                     std::function<void(int)> over) {
    WorldRequest request;
    request.generation = runs;
    request.gpus = gpus(count);
    request.holdings = holdings;
    request.program = {probe, times.string()};
    if (!mode.empty()) request.program.push_back(mode);
    request.environment = clean_environment(environment());
    request.directory = directory->generation(runs).string();
    RanksCallbacks on;
    on.ended = [](int, int) {};
    on.lost = [](const std::vector<int>&, const std::string& why) { std::fprintf(stderr, "lost: %s\n", why.c_str()); };
    on.all_ended = std::move(over);
    return servers->run(request, std::move(on));
  }
  double served(bool cold) {
    const fs::path times = fresh_folder();
    const long long start = now();
    if (cold) start_servers();
    int code = 0;
    const auto world = start_world(times, ranks, "", [&](int status) {
      code = status;
      loop.stop();
    });
    loop.run();
    if (code != 0) throw Error("the ranks ended with code " + std::to_string(code));
    return initialised(times, start);
  }

  double under_mpirun() {
    const fs::path times = fresh_folder(), agent = times / "agent";
    std::ofstream(agent) << "#!/bin/sh\nhost=$1; shift\nexec srun --jobid=" << job
                         << " --overlap --mpi=none --mem=0 --input=none --quiet -N1 -n1 -w $host --gres=gpu:"
                         << holdings.front().gpus.size() << " /bin/sh -c \"$*\"\n";
    fs::permissions(agent, fs::perms::owner_all);
    std::vector<std::string> command{"mpirun", "--leave-session-attached", "--bind-to",
                                     "none",   "--oversubscribe",          "--quiet"};
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"plm", "rsh"},
                                                          {"plm_rsh_agent", agent.string()},
                                                          {"plm_rsh_no_tree_spawn", "1"},
                                                          {"ras", "^slurm"},
                                                          {"orte_tmpdir_base", times.string()},
                                                          {"btl_vader_backing_directory", "/tmp"},
                                                          {"btl_vader_single_copy_mechanism", "none"},
                                                          {"mpi_yield_when_idle", "1"}})
      command.insert(command.end(), {"--mca", name, value});
    bool more = false;
    int left = ranks;
    for (const Holding& holding : holdings) {
      const int here = std::min(left, static_cast<int>(holding.gpus.size()));
      if (here <= 0) continue;
      left -= here;
      if (std::exchange(more, true)) command.emplace_back(":");
      command.insert(command.end(), {"-np", std::to_string(here), "--host", holding.node + ":" + std::to_string(here),
                                     probe, times.string()});
    }
    const long long start = now();
    int status = 0;
    Child mpirun(loop, command, clean_environment({"ESPALIER_ACTIVE=" + std::to_string(job)}), {}, [&](int ended) {
      status = ended;
      loop.stop();
    });
    loop.run();
    if (status != 0) throw Error("mpirun ended with code " + std::to_string(exit_code(status)));
    return initialised(times, start);
  }

  // How much longer the steps of two running ranks take while a world of the others starts, by the medians.
  double slowdown() {
    const fs::path times = fresh_folder();
    const auto spinning = start_world(times, 2, "spin", [](int) {});
    const auto wait = [this](int ms) {
      const auto watch = loop.after(std::chrono::milliseconds(ms), [this] { loop.stop(); });
      loop.run();
    };
    wait(4000);
    std::vector<std::pair<long long, long long>> busy;
    for (int i = 0; i < 3; ++i) {
      const long long start = now();
      served(false);
      busy.emplace_back(start, now());
      wait(1000);
    }
    std::ofstream(times / "stop") << "";
    wait(1000);
    std::vector<double> calm, meanwhile;
    std::ifstream file(times / "steps.0");
    for (long long start = 0, took = 0; file >> start >> took;) {
      const bool starting = std::any_of(busy.begin(), busy.end(),
                                        [&](const auto& span) { return start >= span.first && start < span.second; });
      (starting ? meanwhile : calm).push_back(static_cast<double>(took));
    }
    return std::accumulate(meanwhile.begin(), meanwhile.end(), 0.0) / static_cast<double>(meanwhile.size()) /
           (std::accumulate(calm.begin(), calm.end(), 0.0) / static_cast<double>(calm.size()));
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fputs("Usage: espalier-bench-world RANKS ROUNDS FOLDER PROBE\n", stderr), 2;
  std::signal(SIGPIPE, SIG_IGN);
  try {
    Bench bench;
    bench.ranks = std::atoi(argv[1]);
    bench.folder = argv[3];
    bench.probe = argv[4];
    bench.self = fs::read_symlink("/proc/self/exe").parent_path() / "espalier-launch";
    const auto job = load_job(bench.job);
    if (!job) throw Error("slurm: the job is unknown");
    bench.holdings = job->holdings;
    bench.directory = std::make_unique<Directory>("/tmp", bench.job, 0);
    std::vector<double> mpirun, cold, warm;
    for (int round = 0; round < std::atoi(argv[2]); ++round) {
      mpirun.push_back(bench.under_mpirun());
      cold.push_back(bench.served(true));
      warm.push_back(bench.served(false));
      bench.stop_servers();
    }
    bench.start_servers();
    const double slowdown = bench.slowdown();
    bench.stop_servers();
    const nlohmann::json figures{{"mpirun_ms", median(mpirun)},
                                 {"start_ms", median(cold)},
                                 {"warm_ms", median(warm)},
                                 {"mpi_init_ratio_to_mpirun", median(cold) / median(mpirun)},
                                 {"warm_ratio_to_mpirun", median(warm) / median(mpirun)},
                                 {"slowdown_while_starting", slowdown}};
    std::printf("%s\n", figures.dump(2).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier-bench-world: %s\n", error.what());
    return 1;
  }
}
