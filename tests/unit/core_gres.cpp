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
  using Types = std::set<std::string>;
  CHECK(espalier::gpu_types("gpu:h100:4(S:0-1),gpu:a100:1,nic:mlx:2") == Types{"a100", "h100"});
  CHECK(espalier::gpu_types("gres:gpu:h100:4") == Types{"h100"});
  CHECK(espalier::gpu_types("gres/gpu:h100=4") == Types{"h100"});
  CHECK(espalier::gpu_types("gres:gpu:h100") == Types{"h100"});
  for (const char* untyped : {"gres:gpu:4", "gres/gpu=4", "gpu:2K", "gpu", "", "(null)"})
    CHECK(espalier::gpu_types(untyped).empty());
  CHECK_THROWS_AS(parse_gpu_gres("gpu:2(IDX:a-b)"), espalier::Error);
  CHECK_THROWS_AS(parse_gpu_gres("gpu:2(IDX:0-99999999999)"), espalier::Error);
  std::string many = "gpu:100000", wide = "gpu:1(IDX:0-9999";
  for (int i = 0; i < 30000; ++i) many += ",gpu:100000";
  for (int i = 0; i < 30; ++i) wide += ",0-9999";
  CHECK_THROWS_AS(parse_gpu_gres(many), espalier::Error);
  CHECK_THROWS_AS(espalier::gpu_counts(many), espalier::Error);
  CHECK_THROWS_AS(parse_gpu_gres(wide + ")"), espalier::Error);
}

TEST_CASE("GPUs of several types on a node: one type is lent, and no slice") {
  using Counts = std::map<std::string, int>;
  CHECK(espalier::gpu_counts("gpu:h100:4(S:0-1),gpu:a100:2,nic:1") == Counts{{"a100", 2}, {"h100", 4}});
  CHECK(espalier::gpu_counts("gpu:4") == Counts{{"", 4}});
  CHECK(espalier::gpu_counts("(null)").empty());
  CHECK(espalier::gpu_counts("gpu:h100:1(IDX:0),gpu:a100:0(IDX:N/A)") == Counts{{"h100", 1}});
  CHECK(espalier::lent_type("gpu:h100:4") == "h100");
  CHECK(espalier::lent_type("gpu:4") == "");
  CHECK(espalier::lent_type("gpu:a100:2,gpu:h100:4") == "h100");
  CHECK(espalier::lent_type("gpu:h100:2,gpu:a100:2") == "a100");
  CHECK(espalier::lent_type("gpu:a100_1g.5gb:7,gpu:a100:1") == "a100");
  CHECK_FALSE(espalier::lent_type("gpu:1g.10gb:7"));
  CHECK_FALSE(espalier::lent_type("shard:8"));
  for (const char* slice : {"1g.5gb", "a100_3g.20gb", "nvidia_h100_1g.10gb.me"}) CHECK(espalier::is_gpu_slice(slice));
  for (const char* whole : {"", "h100", "gb200", "a100-80gb", "g.5gb", "3g.gb", "3g.20"})
    CHECK_FALSE(espalier::is_gpu_slice(whole));
}

TEST_CASE("GPUs that jobs use by shares") {
  using espalier::shared_gres;
  using Each = std::vector<int>;
  CHECK(shared_gres("gpu:h100:1(IDX:0)").empty());
  CHECK(shared_gres("gpu:h100:0(IDX:N/A),shard:h100:5(4/8,1/8)").at(0) == espalier::SharedGres{5, {4, 1}});
  CHECK(shared_gres("gpu:0,mps:200(100/400,100/400)").at(0) == espalier::SharedGres{200, Each{100, 100}});
  CHECK(shared_gres("shard:8(IDX:N/A)").at(0) == espalier::SharedGres{8, {}});
  CHECK(shared_gres("shard:0").at(0) == espalier::SharedGres{0, {}});
  CHECK(shared_gres("shard:5(a/8)").at(0) == espalier::SharedGres{5, {}});
  CHECK_THROWS_AS(shared_gres("shard:5(9999999/8)"), espalier::Error);
}
