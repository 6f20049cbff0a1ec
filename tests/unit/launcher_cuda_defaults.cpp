#include <doctest/doctest.h>

#include "launcher/world/server/cuda_defaults.hpp"

using namespace espalier::launcher;

TEST_CASE("cuda defaults: many queues where the user has not said how many") {
  using Variables = std::vector<std::string>;
  CHECK(with_cuda_defaults({"HOME=/h"}, true) == Variables{"CUDA_DEVICE_MAX_CONNECTIONS=32", "HOME=/h"});
  CHECK(with_cuda_defaults({}, true) == Variables{"CUDA_DEVICE_MAX_CONNECTIONS=32"});
  for (const char* own : {"CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_DEVICE_MAX_CONNECTIONS="})
    CHECK(with_cuda_defaults({"HOME=/h", own}, true) == Variables{"HOME=/h", own});
  CHECK(with_cuda_defaults({"CUDA_DEVICE_MAX_CONNECTIONS_OF_MINE=1"}, true).size() == 2);
}

TEST_CASE("cuda defaults: no NVLink between nodes where ranks are of several Slurm jobs, unless the user wants it") {
  using Variables = std::vector<std::string>;
  CHECK(with_cuda_defaults({"CUDA_DEVICE_MAX_CONNECTIONS=1"}, false) ==
        Variables{"NCCL_MNNVL_ENABLE=0", "CUDA_DEVICE_MAX_CONNECTIONS=1"});
  CHECK(with_cuda_defaults({"NCCL_MNNVL_ENABLE=2"}, false) ==
        Variables{"CUDA_DEVICE_MAX_CONNECTIONS=32", "NCCL_MNNVL_ENABLE=2"});
}
