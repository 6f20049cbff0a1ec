#include "spank/gpu_request.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "spank/elastic_option.h"

namespace {

struct Request {
  const char *job = nullptr, *node = nullptr, *socket = nullptr, *task = nullptr;
  long nodes = 0, tasks = 0, sockets = 0, tasks_per_gpu = 0;
  bool exact = true;
};

long gpus_of(const Request& r) {
  const espalier_shape shape{r.job, r.node, r.socket, r.task, r.nodes, r.tasks, r.sockets, r.tasks_per_gpu};
  int exact = -1;
  const long gpus = espalier_gpus_requested(&shape, &exact);
  CHECK(exact == (r.exact ? 1 : 0));
  return gpus;
}

}  // namespace

TEST_CASE("GPUs are counted in every form Slurm gives a TRES string") {
  CHECK(espalier_gpus_in(nullptr) == 0);
  CHECK(espalier_gpus_in("") == 0);
  CHECK(espalier_gpus_in("gpu") == 1);
  CHECK(espalier_gpus_in("gres:gpu") == 1);
  CHECK(espalier_gpus_in("gres:gpu:2") == 2);
  CHECK(espalier_gpus_in("gres/gpu:2") == 2);
  CHECK(espalier_gpus_in("gres/gpu=4") == 4);
  CHECK(espalier_gpus_in("gres/gpu:h100=4") == 4);
  CHECK(espalier_gpus_in("gres:gpu:h100:2") == 2);
  CHECK(espalier_gpus_in("gres:gpu:h100") == 1);
  CHECK(espalier_gpus_in("gres:gpu:h100:2,gres:gpu:a100:3") == 5);
  CHECK(espalier_gpus_in("gpu:1;nic:2") == 1);
  CHECK(espalier_gpus_in("cpu=4,mem=10G,gres/gpu=2") == 2);
  CHECK(espalier_gpus_in("gres:gpu:0") == 0);
  CHECK(espalier_gpus_in("gres:gpu:1K") == 1024);
}

TEST_CASE("other resources, and those whose names only begin alike, are no GPUs") {
  CHECK(espalier_gpus_in("gres:nic:2") == 0);
  CHECK(espalier_gpus_in("gres:gpumem:80") == 0);
  CHECK(espalier_gpus_in("shard:4,mps:100") == 0);
  CHECK(espalier_gpus_in("gres:") == 0);
  CHECK(espalier_gpus_in(",;,") == 0);
}

TEST_CASE("a count that is too large is cut, not wrapped") {
  CHECK(espalier_gpus_in("gpu:99999999999999999999999") == ESPALIER_GPUS_LIMIT);
  CHECK(espalier_gpus_in("gpu:999999,gpu:999999") == ESPALIER_GPUS_LIMIT);
}

TEST_CASE("a request per node or per task is multiplied by the job's shape") {
  CHECK(gpus_of({.job = "gpu:6", .node = "gpu:2", .nodes = 3}) == 6);
  CHECK(gpus_of({.node = "gpu:2", .nodes = 3}) == 6);
  CHECK(gpus_of({.node = "gpu:2"}) == 2);
  CHECK(gpus_of({.task = "gpu:1", .nodes = 2, .tasks = 8}) == 8);
  CHECK(gpus_of({.socket = "gpu:2", .nodes = 2, .sockets = 2}) == 8);
  CHECK(gpus_of({.nodes = 4, .tasks = 4}) == 0);
}

TEST_CASE("a shape that a user made up overflows nothing") {
  const long huge = std::numeric_limits<std::uint32_t>::max() - 2L;
  CHECK(gpus_of({.node = "gpu:1000000", .nodes = huge}) == ESPALIER_GPUS_LIMIT);
  CHECK(gpus_of({.task = "gpu:1000000", .tasks = std::numeric_limits<long>::max() / 2}) == ESPALIER_GPUS_LIMIT);
  CHECK(gpus_of({.socket = "gpu:1000000", .nodes = huge, .sockets = 65533}) == ESPALIER_GPUS_LIMIT);
  std::string many = "gpu:1000000";
  for (int i = 0; i < 1000; ++i) many += ",gpu:1000000";
  CHECK(espalier_gpus_in(many.c_str()) == ESPALIER_GPUS_LIMIT);
}

TEST_CASE("where no GPUs are named, tasks that share one ask for them") {
  CHECK(gpus_of({.nodes = 1, .tasks = 8, .tasks_per_gpu = 4}) == 2);
  CHECK(gpus_of({.nodes = 2, .tasks = 2, .tasks_per_gpu = 1}) == 2);
  CHECK(gpus_of({.nodes = 1, .tasks_per_gpu = 4}) == 1);
  CHECK(gpus_of({.job = "gpu:4", .nodes = 1, .tasks = 8, .tasks_per_gpu = 2}) == 4);
  CHECK(gpus_of({.tasks = std::numeric_limits<long>::max(), .tasks_per_gpu = 1}) == ESPALIER_GPUS_LIMIT);
}

TEST_CASE("a request per socket without a number of sockets is a lower bound, and says so") {
  CHECK(gpus_of({.socket = "gpu:2", .nodes = 2, .exact = false}) == 4);
}

TEST_CASE("requests for parts of GPUs are told from those for whole ones") {
  for (const char* whole : {"", "gpu", "gres:gpu:2", "gres/gpu:h100=4", "gres:gpu:gb200:4", "gres:gpu:rtx_4090_24gb:1",
                            "gres:nic:1g.5gb", "gres:shards:2", "gpu:2g", "gpu:g.5gb", "gpu:3g.gb"})
    CHECK(espalier_gpu_parts_in(whole) == nullptr);
  CHECK(espalier_gpu_parts_in(nullptr) == nullptr);
  const auto says = [](const char* tres) {
    const char* found = espalier_gpu_parts_in(tres);
    return std::string(found == nullptr ? "" : found);
  };
  for (const char* shards : {"shard", "gres:shard:4", "gres/shard=4", "gres:gpu:1,gres:shard:2"})
    CHECK(says(shards) == "shards are parts of GPUs");
  CHECK(says("gres:mps:50") == "MPS shares are parts of GPUs");
  for (const char* slice :
       {"gres:gpu:1g.5gb:1", "gres/gpu:a100_3g.20gb=2", "gpu:nvidia_h100_1g.10gb", "gpu:1g.10gb+me:1"})
    CHECK(says(slice) == "MIG slices are parts of GPUs");
}
