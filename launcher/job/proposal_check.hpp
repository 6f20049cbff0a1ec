// Whether the launcher carries out a decision of the planner. Pure.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

struct ProposalFacts {
  bool elastic = true;  // the program speaks the worker protocol
  bool busy = false;    // a change is under way, or the job does not train
  JobPhase phase = JobPhase::running;
  ModelShape model;
  Plan plan;                         // of the running generation
  std::set<GpuId> unfit;             // GPUs on which ranks have died again and again, or that are faulty
  std::vector<Holding> own;          // the anchor's GPUs that can be used
  std::function<bool(JobId)> known;  // an extension is this job's
};

// Why the decision is refused; nullopt: it is not.
std::optional<std::string> refusal(const Decision& decision, const JobContext& context, const ProposalFacts& facts);

// Why training does not go over from a base on the nodes `present` to one on `next`; empty: it may. What Slurm grants
// may be on other GPUs than those that were idle or known when the base was asked for.
std::string type_refusal(const ElasticJob& job, const std::vector<NodeView>& present,
                         const std::vector<NodeView>& next);

// The same for one that starts_smaller(); empty: it is not refused.
std::string smaller_base_refusal(const Decision& decision, const JobContext& context);

}  // namespace espalier::launcher
