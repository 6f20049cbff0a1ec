// Processes of the job's program that were started ahead: they have loaded their libraries, hold nothing on a device,
// and wait to be told which rank of which generation they are.
//
// A spare finds the number of a socket in ESPALIER_SPARE. It writes one byte there when it has loaded. It reads its
// whole environment there, "NAME=value" ended by a zero byte each, until the end of the stream. When the stream ends
// without a byte, it leaves.
//
// A script that starts the program may set variables by the rank, which a spare does not have yet: for example
// `export CUDA_VISIBLE_DEVICES=$LOCAL_RANK; exec python3 train.py`. So spares are kept only where the process that has
// loaded is the one that was forked, and its command line is the job's.
#pragma once

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
  explicit SpareRanks(wire::Loop& loop) : loop_(loop) {}
  SpareRanks(const SpareRanks&) = delete;
  SpareRanks& operator=(const SpareRanks&) = delete;

  // From now on this many of this program; others end. `local`: variables of this node, which stand before the
  // request's. `container`: they enter it; null: none. They load one after the other while `gently`, so that running
  // ranks keep their cores.
  void keep(wire::KeepSpares request, const std::vector<std::string>& local, const ContainerStep* container,
            bool gently);
  // Others in their place.
  void start_anew();
  // A generation starts here: no more spares are started until keep(). They would take its ranks' cores. So would those
  // that still load, which take() does not give before one of them has loaded: they end.
  void hold();
  // A spare of that program, which goes on with `environment`; nullopt when there is none.
  std::optional<RankProcess> take(const std::vector<std::string>& program, const std::string& folder,
                                  const std::vector<std::string>& environment);
  std::size_t count() const { return spares_.size(); }

 private:
  struct Spare {
    RankProcess rank;
    wire::Descriptor socket;
    wire::Watch loaded;
    bool is_loaded = false;
  };
  void start_next();
  void start_one();
  void has_loaded(std::list<Spare>::iterator spare);

  wire::Loop& loop_;
  wire::KeepSpares wanted_;
  std::vector<std::string> local_;
  const ContainerStep* container_ = nullptr;
  bool gently_ = true;
  bool held_ = false;
  bool direct_ = false;    // one of wanted_.program has loaded, and no script stood between
  bool scripted_ = false;  // a script stands between: no more of this program
  std::list<Spare> spares_;
};

}  // namespace espalier::launcher
