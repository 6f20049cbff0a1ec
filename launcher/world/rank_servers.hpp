// The launcher's side of its rank servers: it starts one for each Slurm job on each node, takes their connections on,
// and runs generations on them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "launcher/process/blocking_thread.hpp"
#include "launcher/process/child.hpp"
#include "launcher/world/ranks.hpp"
#include "launcher/world/start_gate.hpp"
#include "planner/wire/rank_messages.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

class ServedRanks;

struct RankServersSettings {
  std::string launcher;  // path of espalier-launch; espalier-ranks is beside it
  std::string node;      // this one
  JobId anchor = 0;
  bool own_step_here = false;     // the anchor's server on this node is a step, too: a child would not see all GPUs
  std::vector<Holding> holdings;  // of the anchor
  bool binds_cpus = false;        // the site's TaskPlugin does, and must not
  std::vector<std::string> environment;  // what a rank server needs to find the launcher
  std::vector<std::string> container;    // options of the container that ranks enter (container.hpp); empty: none
  std::chrono::milliseconds heartbeat{1000};
  std::vector<std::int64_t> limits;  // soft resource limits of ranks, as in Child::Traits
  std::chrono::seconds start{60};    // a server that has not come by then is given up by the world that waits for it
  std::size_t at_once = 64;          // so many steps start at a time
  // A step that has neither come nor ended by then makes room for another: what prepares its node may take minutes.
  std::chrono::milliseconds makes_room{2000};
  // From SIGTERM to what holds a step until SIGKILL. Longer than its srun has to end the step (tether.hpp).
  std::chrono::milliseconds term_to_kill{5000};
  std::uint64_t seed = 0;  // of what is random in the waits before servers are started again
};

class RankServers {
 public:
  // `noticed`: a server heard that Slurm takes its job back.
  RankServers(wire::Loop& loop, RankServersSettings settings, std::function<void(JobId)> noticed);
  ~RankServers();  // all ranks end
  RankServers(const RankServers&) = delete;
  RankServers& operator=(const RankServers&) = delete;

  // Starts those of the anchor's nodes. Throws Error when that on this node cannot be started.
  void start();
  // A server introduced itself. Throws Error when it is there already.
  void adopt(const wire::ConnectionPtr& connection, const wire::RankServerHello& hello);
  // Starts the server of an extension, whose keeper is there, as a step of it. The launcher and not the keeper does so:
  // when Slurm ends a job it signals its batch script too, and an srun there would kill the step at once.
  void serve(const ServerId& id, int gpus);
  // The extension leaves: a server of it that ends is not started again.
  void forget(JobId job);
  // Slurm has taken these nodes, and no others, from `job`: they are down. A server there that ends is not started
  // again until ranks are to run there, or Slurm says that the job has the node.
  void withdraw(JobId job, const std::set<std::string>& nodes);

  // Starts the ranks of a generation, each as soon as its server is there. Calls none of `callbacks` before it returns.
  // Throws Error.
  std::unique_ptr<Ranks> run(const WorldRequest& request, RanksCallbacks callbacks);
  // From now on each server keeps as many spares of the program as it has GPUs (KeepSpares), also servers that come
  // later and start no ranks at once, or can fork several. A server starts no more spares once it starts ranks of a
  // generation: call this again when that generation trains, or was given up.
  void keep_spares(const std::vector<std::string>& program, const std::vector<std::string>& environment);
  // For the end of the job: the servers are told to end; left() when those that this object has started have.
  void leave();
  bool left() const;
  // For the end of the job: waits until the output that has come is written, at most `limit`.
  void finish_output(std::chrono::milliseconds limit);

 private:
  struct Server {
    int gpus = 0;
    wire::ConnectionPtr connection;
    bool base64 = false;           // it reads FenceDone::base64
    int missed = 0;                // heartbeats
    int failures = 0;              // ends, and failed starts, since it was last there
    bool loss_known = false;       // its connection is lost, and its process has not been seen to end since
    bool given_up = false;         // likewise, and the launcher has closed the connection: it may hang for ever
    bool away = false;             // Slurm has taken its node from the job
    bool leaves = false;           // it is not started again
    bool refuses = false;          // it said that no ranks can run there (kCannotRun); it is not started again either
    std::unique_ptr<Child> child;  // what holds its step, or the server itself (is_child)
    wire::Watch restart;
    wire::Watch kill;  // the child was told to end
  };
  // `waits`: for the start of the server's program.
  void launch(const ServerId& id, int gpus, bool waits);
  bool is_here(const ServerId& id) const { return id.node == settings_.node && id.job == settings_.anchor; }
  bool is_child(const ServerId& id) const { return is_here(id) && !settings_.own_step_here; }
  void start_soon(const ServerId& id, int gpus);
  void try_launch(const ServerId& id, int gpus);
  void not_started(const ServerId& id, int gpus, const std::string& why);
  void restart_later(const ServerId& id, int gpus);
  void restart_now(const ServerId& id);
  void give_up(const ServerId& id, const std::string& why);
  void end(const ServerId& id);
  void ended(const ServerId& id, int gpus, int code);
  void send_spares(const Server& server);
  void handle(const ServerId& id, const wire::Frame& frame);
  void lose(const ServerId& id, const std::string& why);
  void beat();

  wire::Loop& loop_;
  RankServersSettings settings_;
  std::function<void(JobId)> noticed_;
  std::map<ServerId, Server> servers_;
  std::map<int, ServedRanks*> worlds_;  // by generation; they enter and leave by themselves
  BlockingThread output_;               // writes what ranks have written
  std::unique_ptr<StartGate> gate_;     // for steps
  std::mt19937_64 random_{settings_.seed};
  wire::Watch heartbeat_;
  std::optional<wire::KeepSpares> spares_;
  bool spares_fork_ = false;  // a server has said so (SparesFork)
  bool ending_ = false;
};

}  // namespace espalier::launcher
