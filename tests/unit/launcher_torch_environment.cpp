#include <doctest/doctest.h>

#include <algorithm>

#include "launcher/world/server/torch_environment.hpp"

using namespace espalier::launcher;

TEST_CASE("torch environment: a rank finds the names of torchrun, each once") {
  // The second of three ranks that a rank server of a world of eight has, on the fourth GPU that it sees.
  const RankPosition position{5, 8, 1, 3};
  CHECK(torch_environment(position, 3, {"10.0.0.7", 40123}) ==
        std::vector<std::string>{"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=3", "MASTER_ADDR=10.0.0.7",
                                 "MASTER_PORT=40123"});
}

TEST_CASE("torch environment: LOCAL_WORLD_SIZE counts the ranks of the rank server, not those of the world") {
  for (const int here : {1, 4, 8}) {
    const auto list = torch_environment({0, 8, 0, here}, 0, {"n1", 1});
    CHECK(std::count(list.begin(), list.end(), "LOCAL_WORLD_SIZE=" + std::to_string(here)) == 1);
    CHECK(std::count(list.begin(), list.end(), "WORLD_SIZE=8") == 1);
  }
}
