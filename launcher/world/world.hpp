// One generation: its ranks and the control sockets of its workers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/world/ranks.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

// How a world ended before its time.
struct Loss {
  std::string why;
  int code = 1;            // the job's exit code, should it end of this
  bool own = false;        // a worker said that it failed by itself: the program's fault, no loss
  bool memory = false;     // ... for it got no memory
  std::set<GpuId> died;    // whose ranks ended without a word or fell silent
  std::set<GpuId> absent;  // whose ranks ended before they said hello: nothing is known to have used those GPUs
  // A rank server is gone, and its ranks with it: no GPU is to blame.
  bool of_server = false;
};

// Callbacks run on the loop, never from inside a call to the World; a World may be destroyed from its own callback only
// through Loop::defer.
struct WorldCallbacks {
  std::function<void(const wire::Hello&)> hello;            // of each worker, before it is assigned anything
  std::function<void()> ready, standing, switched, loaded;  // all workers said so
  std::function<void(const std::string& why)> stays;        // all have answered, and their state cannot be had
  std::function<void(const wire::Step&)> step;
  std::function<void(int rank, const wire::Frame&)> profiled;  // unread: a bad one loses no world
  std::function<void(JobId)> noticed;                          // Slurm signalled this extension's step
  std::function<void(int code)> finished;                      // the program ended by itself
  std::function<void(const Loss&)> lost;                       // a worker or a rank server failed
  std::function<void()> gone;                                  // a retired world has ended
};

class World {
 public:
  using StartRanks = std::function<std::unique_ptr<Ranks>(const WorldRequest&, RanksCallbacks)>;
  // `start` starts the ranks (RankServers::run). Throws Error.
  World(wire::Loop& loop, const WorldRequest& request, const StartRanks& start, WorldCallbacks callbacks);
  ~World();  // SIGKILL to the ranks
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int generation() const { return generation_; }
  const wire::GpuJobs& jobs() const { return jobs_; }
  int size() const { return size_; }
  bool anyone_said_hello() const { return !workers_.empty(); }
  bool everyone_said_hello() const { return static_cast<int>(workers_.size()) == size_; }
  std::int64_t boundary() const { return boundary_; }    // after `standing` or `switched`
  const wire::Loaded& taken() const { return *taken_; }  // after `loaded`: the step, and where the state came from
  // After `loaded`: the longest that any rank took, by phase.
  std::map<std::string, double> load_phases_ms() const;
  struct MovedBytes {
    std::int64_t adopted = 0, copied = 0, sent = 0;
    std::int64_t most_to_a_node = 0;  // of `sent`
    std::int64_t sent_early = 0;      // beside `sent`: before the old generation stood
  };
  MovedBytes moved_bytes() const;  // after `loaded`

  // Takes over an authenticated worker's connection. `in_place`: as in its capabilities. Throws Error when the hello
  // does not fit.
  void adopt(const wire::ConnectionPtr& connection, const wire::Hello& hello, bool in_place = false);
  // All workers can go on with another plan that keeps their places.
  bool replans_in_place() const { return all(&Worker::in_place); }
  void assign(const Plan& plan, std::optional<wire::Assign::Source> source, Accuracy accuracy);
  // Asks for a boundary. Each switch is answered once by every rank, also after a resume; `switched` is called when all
  // have answered the latest; `standing` before it where something leaves nodes.
  void request_switch(const Plan& next, int generation, const wire::GpuJobs& jobs);
  void send_all(const wire::Frame& frame);
  template <class Message>
  void send_all(const Message& message) {
    send_all(wire::to_frame(message));
  }
  // Tells the workers to leave. Ranks that are still there after `patience` get SIGTERM, and SIGKILL soon after. A
  // program that does not speak the worker protocol has the same time. Only `gone` is called afterwards.
  void retire(wire::Loop::Milliseconds patience);
  void signal(int number) const { ranks_->signal(number); }
  // Once every heartbeat interval: a worker that sends heartbeats and was not heard for ten of them is lost.
  void beat();

 private:
  struct Worker {
    wire::ConnectionPtr connection;
    std::string node;
    bool ready = false, standing = false, switched = false, loaded = false, done = false;
    bool told = false;   // why it leaves
    bool beats = false;  // it sends heartbeats
    bool in_place = false;
    int missed = 0;            // of them
    int unanswered = 0;        // switches
    std::string problem = {};  // with the latest one
    wire::Loaded report = {};
  };
  void handle(int rank, const wire::Frame& frame);
  void closed(int rank);
  void rank_ended(int rank, int code);
  void ranks_lost(const std::vector<int>& ranks, const std::string& why);
  void all_ended(int code);
  void lose(const std::string& why, int code);
  Loss loss(const std::string& why, int code) const;
  void take_last_words(int rank, const wire::Failed& words);
  void take_boundary(std::int64_t step);
  void take_loaded(const wire::Loaded& loaded);
  bool all(bool Worker::*flag) const;
  void give_assignment(int rank);
  void end_ranks();
  void conclude();

  wire::Loop& loop_;
  int generation_;
  std::vector<GpuId> gpus_;  // by rank
  std::vector<int> places_;  // of these, by rank: visible_places()
  wire::GpuJobs jobs_;
  int size_;
  WorldCallbacks callbacks_;
  std::map<int, Worker> workers_;
  std::optional<wire::Assign> assignment_;
  std::int64_t boundary_ = 0;
  std::optional<wire::Loaded> taken_;
  bool retired_ = false, lost_ = false;
  bool own_failure_ = false, lacked_memory_ = false, server_gone_ = false;
  std::map<int, std::string> died_;  // rank -> in words
  std::set<int> absent_;             // ranks that ended before their hello
  std::set<int> aborted_;            // ranks that called MPI_Abort
  int first_code_ = 0;               // of the first rank whose exit code was not 0
  std::optional<int> exit_code_;     // of all ranks, once they have ended
  std::chrono::steady_clock::time_point conclude_by_{};
  std::string last_words_;
  std::unique_ptr<Ranks> ranks_;
  wire::Watch patience_, kill_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace espalier::launcher
