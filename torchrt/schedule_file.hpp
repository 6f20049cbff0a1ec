// espalier-train --schedule FILE.
#pragma once

#include <string>

#include "torchrt/config.hpp"

namespace espalier::torchrt {

// Reads a schedule (planner/core/pipeline/csv.hpp) and makes it the configuration's: its plans get the file's chunks,
// and run the file's lists where they have its number of stages and micro-batches. Other plans run training.schedule,
// or where that runs other chunks, "interleaved" or "zb-v". Throws Error when the file cannot be read, is unsound,
// contradicts parallel.chunks, or has its chunks neither round the stages nor as a V.
void use_schedule_file(Config& config, const std::string& path);

}  // namespace espalier::torchrt
