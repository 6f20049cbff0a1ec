// How long messages and sums take on the cluster's network: by the bandwidths that `espalier calibrate` measured, with
// the saturation of small all-reduces in between (Suika App. A.2).
#pragma once

#include "planner/core/model/placed_plan.hpp"

namespace espalier {

// Bytes/ms of one rail of such a node under its leaf switch. `rail_ms_per_byte`: JobCoefficients::rail_ms_per_byte.
double rail_bandwidth(const NodeKind& kind, double rail_ms_per_byte);

// Ms of one all-reduce of `bytes` among the `tp` ranks of a replica on a node of this kind; 0 at TP 1.
double tensor_sum_ms(const Hardware& hardware, int kind, int tp, double bytes);

// Ms per byte of a stage's gradients (of all TP ranks together) that its replicas sum; 0 without a second replica.
// `rail_ms_per_byte`: JobCoefficients::rail_ms_per_byte.
double gradient_rate(const Hardware& hardware, const StageShape& shape, double rail_ms_per_byte = 0);

// Ms from the end of a micro-batch on stage `from` until its activations have reached `to`, over the boundary
// from.next. `activation_bytes`: per sample.
double send_ms(const Hardware& hardware, double activation_bytes, const PlacedStage& from, const PlacedStage& to,
               double rail_ms_per_byte = 0);

}  // namespace espalier
