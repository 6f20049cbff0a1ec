#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/gres.hpp"

using espalier::parse_gpu_gres;
using Indices = std::vector<int>;

TEST_CASE("Slurm's GRES texts") {
  CHECK(parse_gpu_gres("").count == 0);
  CHECK(parse_gpu_gres("(null)").count == 0);
  CHECK(parse_gpu_gres("gpu:4").count == 4);
  CHECK(parse_gpu_gres("gpu:h100:4(S:0-1)") == espalier::GpuGres{"h100", 4, {}});
  CHECK(parse_gpu_gres("gpu:h100:2(IDX:0-1)") == espalier::GpuGres{"h100", 2, {0, 1}});
  CHECK(parse_gpu_gres("gpu:h100:3(IDX:0,2-3),gpu:a100:1(IDX:7)") == espalier::GpuGres{"h100", 4, {0, 2, 3, 7}});
  CHECK(parse_gpu_gres("shard:8,gpu:a100:1(IDX:1),nic:2").indices == Indices{1});
  CHECK(parse_gpu_gres("gres:gpu:2").count == 2);
  CHECK(parse_gpu_gres("gpu:0(IDX:N/A)") == espalier::GpuGres{"", 0, {}});
  CHECK_THROWS_AS(parse_gpu_gres("gpu:2(IDX:a-b)"), espalier::Error);
  CHECK_THROWS_AS(parse_gpu_gres("gpu:2(IDX:0-99999999999)"), espalier::Error);
}
