// The GPUs that the job holds, its own and those of extensions, and which of them can be used.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "launcher/recovery/slurm_answer.hpp"
#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

class HeldGpus {
 public:
  struct Callbacks {
    std::function<std::vector<Holding>(bool with_acquired)> extensions;
    std::function<std::vector<Holding>()> base_before;  // a base that training is leaving
    std::function<bool(JobId)> falters;                 // the extension's keeper is silent
    std::function<bool(const std::string&)> node_lost;  // a node of the anchor, by its keepers
    std::function<std::set<GpuId>()> unfit;             // GPUs on which ranks died again and again, or with errors
    std::function<const Plan&()> plan;                  // of the running generation
  };
  HeldGpus(const JobContext& context, Callbacks callbacks) : context_(context), callbacks_(std::move(callbacks)) {}

  // Slurm has answered: it replaces the answer before.
  void heard(SlurmAnswer answer) { answer_ = std::move(answer); }
  // The job has another base. What Slurm took from the one before says nothing of the new one's nodes.
  void has_new_base() { answer_.withdrawn.clear(); }

  // `with_acquired`: also extensions that the change under way has acquired.
  std::vector<Holding> all(bool with_acquired) const;  // with a second base, and the one before, among them
  std::vector<Holding> extensions(bool with_acquired) const { return callbacks_.extensions(with_acquired); }
  // The anchor's GPUs that can be used. The unfit ones too if there are no others, since a job must be able to give
  // back all that it was lent.
  std::vector<Holding> own() const;
  // `holdings` without GPUs that are unfit or on a lost node of the anchor.
  std::vector<Holding> usable(std::vector<Holding> holdings) const;
  std::set<GpuId> left() const;  // GPUs that are not lost
  // Returns `gpus`, which a next plan can use of the present one. Behind them come GPUs that the present plan leaves
  // idle and that can be used: the anchor's, and those of extensions that the plan uses a part of. None of `without` is
  // added. If these are fewer than MIN of --elastic, the anchor's unfit GPUs are added too: the job would end without.
  std::vector<GpuId> with_idle(std::vector<GpuId> gpus, const std::set<GpuId>& without) const;

 private:
  bool lost(const Holding& holding) const;

  const JobContext& context_;
  Callbacks callbacks_;
  SlurmAnswer answer_;  // the last
};

}  // namespace espalier::launcher
