// How plans of one job compare in time, from nothing but their shape: the bubble of 1F1B and the slowest stage.
#pragma once

#include "planner/core/plan.hpp"

namespace espalier {

// Relative duration of one iteration: (N_b + PP - 1) slots, each as long as the slowest stage, whose time goes with its
// layers and its largest micro-batch share and against its TP degree. Only the ratio of two plans of one job means
// anything. Communication, embedding and LM head are left out: the measured time of the present plan carries them.
double relative_step_time(const Plan& plan);

// Seconds an iteration should take on `next`, given that it takes `measured` seconds on `present`.
double predict_step_seconds(double measured, const Plan& present, const Plan& next);

// Marginal benefit of extra GPUs (Suika §3.2): B = (|R0| / |d|) (T(R0 + d) / T(R0) - 1), with T the throughput.
double marginal_benefit(int present_gpus, int extra_gpus, double present_seconds, double next_seconds);

}  // namespace espalier
