#include <doctest/doctest.h>

#include "launcher/world/server/cuda_defaults.hpp"

using namespace espalier::launcher;

TEST_CASE("cuda defaults: many queues where the user has not said how many") {
  using Variables = std::vector<std::string>;
  CHECK(with_cuda_defaults({"HOME=/h"}) == Variables{"CUDA_DEVICE_MAX_CONNECTIONS=32", "HOME=/h"});
  CHECK(with_cuda_defaults({}) == Variables{"CUDA_DEVICE_MAX_CONNECTIONS=32"});
  for (const char* own : {"CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_DEVICE_MAX_CONNECTIONS="})
    CHECK(with_cuda_defaults({"HOME=/h", own}) == Variables{"HOME=/h", own});
  CHECK(with_cuda_defaults({"CUDA_DEVICE_MAX_CONNECTIONS_OF_MINE=1"}).size() == 2);
}
