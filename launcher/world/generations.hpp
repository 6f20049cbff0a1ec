// The generations of a job: the running one, the next one, and the one that leaves. Makes them, and puts one in the
// place of another.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/node/directory.hpp"
#include "launcher/recovery/earlier_generations.hpp"
#include "launcher/slurm/job_context.hpp"
#include "launcher/world/world.hpp"

namespace espalier::launcher {

class Generations {
 public:
  struct Callbacks {
    std::function<std::vector<Holding>()> holdings;            // of the job, also those just acquired
    std::function<std::vector<std::string>(int)> environment;  // of a generation's ranks
    World::StartRanks run;
    // What ranks say of what they reach, and what is known of that.
    std::function<void(const ServerId&, const wire::Ready&)> heard_ready;
    std::function<wire::GpuIslands(const std::vector<Holding>&)> reach;
    // As WorldCallbacks.
    std::function<void(const wire::Hello&, bool of_current)> hello;
    std::function<void(const wire::Step&)> step;                 // of the running generation
    std::function<void()> progressed;                            // the running generation, with work that is no step
    std::function<void(int rank, const wire::Frame&)> profiled;  // of the running generation
    std::function<void(JobId)> noticed;
    std::function<void(bool first)> ready;
    std::function<void()> standing, switched, loaded, gone;
    std::function<void(const std::string& why)> stays;
    std::function<void(bool is_next, int code)> finished;
    std::function<void(bool is_next, const Loss&)> lost;
  };
  Generations(wire::Loop& loop, const JobContext& context, const Directory& directory, EarlierGenerations& earlier,
              Callbacks callbacks);

  // The running generation, the next one, and the one that was running. Null: there is none.
  World* current() const { return current_.get(); }
  World* next() const { return next_.get(); }
  World* leaving() const { return leaving_.get(); }
  World* of(int number) const;  // the next or the running one; null: it is neither

  int number() const { return number_; }            // of the running one
  int last_number() const { return last_number_; }  // the last that was given out
  int next_number() const;                          // of the next one, started or not
  const Plan& plan() const { return plan_; }        // of the running one
  void set_plan(const Plan& plan) { plan_ = plan; }
  const EarlierGenerations& earlier() const { return earlier_; }
  // True if two generations share GPUs, or did until a moment ago. A lack of memory may then be the other one's fault.
  bool crowded() const;

  // The ranks of the first generation, on `plan`. Throws Error.
  void start_first(const Plan& plan);
  // The first generation did not train. It starts once more, under another number and without a plan. Where an earlier
  // launcher of the job was lost, which had started generations up to `last`, the numbers go on there.
  void begin_over(int last = 0);
  // An earlier launcher of the job was lost, and had started generations up to `last`. `running` was its running
  // generation, of which only state is left.
  void take_over(int last, const wire::Assign::Source& running);
  // The ranks of the next generation. They take the state of `source`; without: they start from the newest checkpoint.
  // Throws Error.
  void start_next(const Plan& plan, const std::optional<wire::Assign::Source>& source);
  // The running generation ends, and leaves within `patience`.
  void retire_current(wire::Loop::Milliseconds patience);
  // Makes the next generation the running one. It begins after `step`.
  void succeed(const Plan& plan, std::int64_t step);
  // Kill what is left of it.
  void drop_current() { drop(current_); }
  void drop_next() { drop(next_); }
  void drop_leaving() { drop(leaving_); }
  void end();   // for the end of the job: only the running generation stays
  void beat();  // once every heartbeat interval

 private:
  std::unique_ptr<World> make(int number, const Plan& plan, bool first);
  void drop(std::unique_ptr<World>& world);

  wire::Loop& loop_;
  const JobContext& context_;
  const Directory& directory_;
  EarlierGenerations& earlier_;
  Callbacks callbacks_;
  std::unique_ptr<World> current_, next_, leaving_;
  Plan plan_;
  int number_ = 0, last_number_ = 0;                       // of the running one; last number given out
  std::chrono::steady_clock::time_point crowded_until_{};  // when another one was last beside the running one
};

}  // namespace espalier::launcher
