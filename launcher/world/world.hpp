// One generation: its ranks and the control sockets of its workers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/world/departure.hpp"
#include "launcher/world/load_reports.hpp"
#include "launcher/world/loss.hpp"
#include "launcher/world/switch_answers.hpp"
#include "launcher/world/workers.hpp"

namespace espalier::launcher {

// Callbacks run on the loop, never from inside a call to the World; a World may be destroyed from its own callback only
// through Loop::defer.
struct WorldCallbacks {
  std::function<void(const wire::Hello&)> hello;                  // of each worker, before it is assigned anything
  std::function<void(int rank, const wire::Ready&)> heard_ready;  // of each worker
  std::function<void()> ready, standing, switched, loaded;        // all workers said so
  std::function<void(const std::string& why)> stays;              // all have answered, and their state cannot be had
  std::function<void(const wire::Step&)> step;
  std::function<void()> progressed;                            // a worker gets on with work that is no step
  std::function<void(int rank, const wire::Frame&)> profiled;  // unread: a bad one loses no world
  std::function<void(JobId)> noticed;                          // Slurm signalled this extension's step
  std::function<void(int code)> finished;                      // the program ended by itself
  std::function<void(const Loss&)> lost;                       // a worker or a rank server failed
  std::function<void()> gone;                                  // a retired world has ended
};

class World {
 public:
  // Starts ranks. It must not call one of the callbacks before it returns: the World that they call is not whole yet.
  // Throws Error.
  using StartRanks = std::function<std::unique_ptr<Ranks>(const WorldRequest&, RanksCallbacks)>;
  // `start`: RankServers::run. Throws Error where `start` does.
  World(wire::Loop& loop, const WorldRequest& request, const StartRanks& start, WorldCallbacks callbacks);
  ~World();  // SIGKILL to the ranks
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int generation() const { return generation_; }
  const wire::GpuJobs& jobs() const { return jobs_; }
  const Workers& workers() const { return workers_; }
  const LoadReports& loads() const { return loads_; }                   // after `loaded`
  std::int64_t boundary() const { return switch_answers_.boundary(); }  // after `standing` or `switched`

  // Takes over an authenticated worker's connection. Throws Error when the hello does not fit.
  void adopt(const wire::ConnectionPtr& connection, const wire::Hello& hello, const wire::Capabilities& can = {});
  void assign(const Plan& plan, std::optional<wire::Assign::Source> source, Accuracy accuracy);
  // Asks for a boundary. Each switch is answered once by every rank, also after a resume; `switched` is called when all
  // have answered the latest; `standing` before it where something leaves nodes.
  // `lists`: of the pipeline's schedule, as CSV, for a program that says that it takes them; empty: none.
  void request_switch(const Plan& next, int generation, const wire::GpuJobs& jobs, const std::string& lists = "");
  // Gives the switch up that was asked for last: the ranks train on with the plan that they have. Answers to it that
  // are still on their way call nothing.
  void give_up_switch();
  void send_all(const wire::Frame& frame) { workers_.send_all(frame); }
  template <class Message>
  void send_all(const Message& message) {
    send_all(wire::to_frame(message));
  }
  // Tells the workers to leave. Ranks that are still there after `patience` get SIGTERM, and SIGKILL soon after. A
  // program that does not speak the worker protocol has the same time. Only `gone` is called afterwards.
  void retire(wire::Loop::Milliseconds patience);
  void signal(int number) const { departure_.signal(number); }
  // Once every heartbeat interval: a worker that sends heartbeats and was not heard for ten of them, or as many as it
  // said, is lost.
  void beat();

 private:
  std::unique_ptr<Ranks> started(const WorldRequest& request, const StartRanks& start);
  void handle(int rank, const wire::Frame& frame);
  void read(int rank, const wire::Frame& frame);
  void closed(int rank);
  void rank_ended(int rank, int code, const std::string& node);
  void ranks_lost(const std::vector<int>& ranks, const std::string& why);
  void all_ended(int code);
  void lose(const std::string& why);
  void conclude(std::chrono::steady_clock::time_point by);

  wire::Loop& loop_;
  const int generation_;
  const wire::GpuJobs jobs_;
  WorldCallbacks callbacks_;
  Workers workers_;
  SwitchAnswers switch_answers_;
  LoadReports loads_;
  LossEvidence evidence_;
  bool lost_ = false;
  wire::Watch verdict_;  // a wait for last words, before this generation is lost or has finished
  Departure departure_;
};

}  // namespace espalier::launcher
