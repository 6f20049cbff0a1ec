// What a worker's `hello` says of its kind, beside what all workers say.
#pragma once

#include <string>
#include <vector>

#include "planner/wire/messages.hpp"

namespace espalier::wire {

// The field `capabilities` of a hello. Every field of it, and it itself, may be absent: the program then runs any plan.
struct Capabilities {
  // "parallel": "data", not "plan". Every plan has one stage, whose TP degree is one of `units`. A replica is so many
  // GPUs of one node, among which the program divides its work as it likes. Such a hello has no model, but the global
  // batch.
  bool data_only = false;
  // Of the field `units`, or else the field `unit` alone. The first one is the field `unit`, which the program prefers.
  std::vector<int> units{1};
  int global_batch = 0;   // samples of a step
  std::string program;    // the same text for jobs that train the same model with the same code; empty: not told
  bool in_place = false;  // it can go on with another plan that keeps its places, without another generation
  bool lists = false;     // with in_place: it takes the lists of a pipeline's schedule with a `switch`
  int start_seconds = 0;  // the program's own limit for the start of its workers, if the site's is shorter; 0: none
  // So many missed heartbeats lose the generation, where that is more than ten; 0: ten do. A program whose heartbeats
  // stop during a long call needs it.
  int missed_heartbeats = 0;
  bool operator==(const Capabilities&) const = default;
};

struct WorkerHello {
  Hello hello;  // of a program that is data-parallel only with the model that it is planned as (data_parallel.hpp)
  Capabilities can;
};

// Throws Error that names the field.
WorkerHello read_hello(const Frame& frame);

}  // namespace espalier::wire
