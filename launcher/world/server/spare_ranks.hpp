// Processes of the job's program that were started ahead: they have loaded their libraries, hold nothing on a device,
// and wait to be told which rank of which generation they are.
//
// A spare finds the number of a socket in ESPALIER_SPARE. It writes one byte there when it has loaded. It reads its
// whole environment there, "NAME=value" ended by a zero byte each, until the end of the stream. When the stream ends
// without a byte, it leaves.
//
// The first spare may say that it can fork, by the byte 'f'. Then it is the fork server: it never becomes a rank, and
// the spares are copies of it. So a node loads the libraries once, and not once for each rank.
//
// A script that starts the program may set variables by the rank, which a spare does not have yet: for example
// `export CUDA_VISIBLE_DEVICES=$LOCAL_RANK; exec python3 train.py`. So spares are kept only where the process that has
// loaded is the one that was forked, and its command line is the job's.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/child.hpp"
#include "launcher/world/server/container_step.hpp"
#include "launcher/world/server/rank_output.hpp"
#include "planner/wire/rank_messages.hpp"

namespace espalier::launcher {

// A process with the reading ends of its output.
struct RankProcess {
  std::unique_ptr<RankOutput> output, errors;
  std::unique_ptr<Child> process;
};

class SpareRanks {
 public:
  struct Callbacks {
    std::function<void()> changed;   // what soon() says may have changed
    std::function<void()> can_fork;  // the program is a fork server here, for the first time
  };
  // This process must be a "child subreaper" (PR_SET_CHILD_SUBREAPER), or no spare can fork.
  SpareRanks(wire::Loop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}
  SpareRanks(const SpareRanks&) = delete;
  SpareRanks& operator=(const SpareRanks&) = delete;

  // From now on this many of this program; others end. `local`: variables of this node, which stand before the
  // request's. `container`: they enter it; null: none. Those that cannot be forked load one after the other while
  // `gently`, so that running ranks keep their cores.
  void keep(wire::KeepSpares request, const std::vector<std::string>& local, const ContainerStep* container,
            bool gently);
  // Others in their place.
  void start_anew();
  // A generation starts here: no more spares are started until keep(). They would take its ranks' cores. So would those
  // that still load, which take() does not give before one of them has loaded: they end.
  void hold();
  enum class Soon { no, loads, forks };
  // Whether `count` spares of that program will be there in less time than it takes to start processes. loads: what may
  // be their fork server loads, as it has on another node; that takes as long as the program needs. forks: they are
  // being forked. `changed` tells when to ask again. Asks the fork server for those that lack.
  Soon soon(std::size_t count, const std::vector<std::string>& program, const std::string& folder);
  // What may be the fork server loads.
  bool is_loading() const;
  // What soon() promised has not come in time: what loads or forks is dropped. No other fork server is tried when one
  // has hung while it loaded, or for the third time.
  void give_up();
  // A spare of that program, which goes on with `environment` on these CPUs (empty: where it may); nullopt when there
  // is none.
  std::optional<RankProcess> take(const std::vector<std::string>& program, const std::string& folder,
                                  const std::vector<std::string>& environment, const std::vector<int>& cpus = {});
  std::size_t count() const { return spares_.size(); }  // also those that load; without the fork server

 private:
  static constexpr int kTries = 3;
  struct Spare {
    RankProcess rank;  // a fork has no process before its first word
    wire::Descriptor socket;
    wire::Watch loaded;
    bool is_loaded = false;
    bool may_fork = false;  // it was told that it may be the fork server
    bool is_lost = false;
  };
  using At = std::list<Spare>::iterator;
  bool is_of(const std::vector<std::string>& program, const std::string& folder) const;
  bool loads() const;
  void drop(const std::function<bool(const Spare&)>& which);
  void start_next();
  At prepare(wire::Descriptor& theirs);
  void start_one();
  void fork_one();
  void has_loaded(At spare);
  void has_forked(At spare, pid_t pid);
  void serves(At spare);
  void lose(At spare);
  void end_all();

  wire::Loop& loop_;
  const Callbacks callbacks_;
  wire::KeepSpares wanted_;
  std::vector<std::string> local_;
  const ContainerStep* container_ = nullptr;
  bool gently_ = true;
  bool held_ = false;
  bool direct_ = false;  // one of wanted_.program has loaded, and no script stood between
  bool unfit_ = false;   // a script stands between: no more of this program
  int tries_ = kTries;   // for a fork server; 0: the program cannot fork, or its fork servers end
  std::list<Spare> spares_;
  std::optional<Spare> fork_server_;
};

}  // namespace espalier::launcher
