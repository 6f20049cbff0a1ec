// The arguments of `espalier-bench handoff`.
#pragma once

#include <string>

#include "planner/core/plan.hpp"
#include "torchrt/model/model_config.hpp"

namespace espalier::bench {

// `name`: a published model, or the path of a Hugging Face config.json. Throws Error.
torchrt::ModelConfig handoff_model(const std::string& name);

// "8x4x8" means PP x DP x TP on nodes n0, n1, ... of `node_gpus` GPUs, filled in order. Any other
// text is the path of a plan in JSON. Throws Error when the plan does not fit `layers` layers.
Plan handoff_plan(const std::string& text, int layers, int node_gpus);

}  // namespace espalier::bench
