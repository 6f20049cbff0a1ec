// A random pipeline on one node, one GPU a stage, planned with the fastest known schedule under a random memory limit.
// The unit tests use it, too.
#pragma once

#include "planner/core/pipeline/improve.hpp"
#include "planner/core/schedule/job_problem.hpp"

namespace espalier::bench {

struct PipelineSizes {
  int stages_beyond_one = 7;        // at most; at least one
  int rounds_of_micro_batches = 4;  // at most so many micro-batches for each stage; at least one
  int kinds_of_layers = 5;          // a stage has 4, 5, ... layers in the mean: so many different numbers
};

// Of a measured job, with heavier edges and more or less work that may be deferred. The GPU types are left to the
// caller.
JobCoefficients random_pipeline_job(pipeline::Chance& chance, int layers, int micro_batches);

struct RandomPipeline {
  Hardware hardware;
  Topology topology;
  JobCoefficients known;
  PlanBounds bounds;
  PlanSketch sketch;
  Plan plan;
  bool fits = false;  // false: the memory is too small for every known schedule

  explicit RandomPipeline(pipeline::Chance& chance, PipelineSizes sizes = {});
  Problem problem() const { return {hardware, topology, known, bounds, forms_of(kAutomaticSchedule, 0, false)}; }
};

}  // namespace espalier::bench
