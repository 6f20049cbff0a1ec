#include "launcher/world/server/mpi_environment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "launcher/world/server/pmix_server.hpp"
#include "launcher/world/server/variables.hpp"

using namespace espalier::launcher;

TEST_CASE("the ranks of a node are those of all rank servers there, whichever Slurm job they belong to") {
  PmixNamespace space{
      "world", {{"n1.7", {0, 1}}, {"n2.8", {2, 5}}, {"n1.9", {3, 4}}, {"n1.example.10", {6}}}, 0, "/tmp"};
  CHECK(space.ranks_of_this_node() == std::vector<int>{0, 1, 3, 4});
  space.here = 1;
  CHECK(space.ranks_of_this_node() == std::vector<int>{2, 5});
  space.here = 2;
  CHECK(space.ranks_of_this_node() == std::vector<int>{0, 1, 3, 4});
  space.here = 3;  // another node, whose name has a dot
  CHECK(space.ranks_of_this_node() == std::vector<int>{6});
}

TEST_CASE("ranks are of one Slurm job where all their servers are, on whichever nodes") {
  CHECK(PmixNamespace{"world", {{"n1.7", {0, 1}}, {"n2.example.7", {2}}}, 0, "/tmp"}.of_one_job());
  CHECK_FALSE(PmixNamespace{"world", {{"n1.7", {0, 1}}, {"n1.17", {2}}}, 0, "/tmp"}.of_one_job());
  CHECK_FALSE(PmixNamespace{"world", {{"n1.7", {0}}, {"n2.7", {1}}, {"n3.8", {2}}}, 1, "/tmp"}.of_one_job());
}

TEST_CASE("a rank is told to use TCP alone only where it must") {
  const auto has = [](bool tcp_alone, const std::string& variable) {
    const auto list = mpi_environment({3, 8, 1, 2}, "/scratch/g1", "10.0.0.0/16", tcp_alone);
    return std::find(list.begin(), list.end(), variable) != list.end();
  };
  CHECK(has(true, "OMPI_MCA_btl=self,tcp"));
  CHECK_FALSE(has(false, "OMPI_MCA_btl=self,tcp"));
  CHECK(has(false, "OMPI_COMM_WORLD_RANK=3"));
  CHECK(has(false, "OMPI_MCA_btl_tcp_if_include=10.0.0.0/16"));
}

TEST_CASE("what a user says of the lengths of messages that are sent at once holds") {
  const std::string mine = "OMPI_MCA_btl_tcp_eager_limit=4096";
  const auto list = merged(mpi_defaults(), {"HOME=/home/me", mine});
  CHECK(std::count(list.begin(), list.end(), mine) == 1);
  CHECK(std::count(list.begin(), list.end(), "OMPI_MCA_btl_vader_eager_limit=262144") == 1);
  CHECK(std::count_if(list.begin(), list.end(), [](const std::string& variable) {
          return variable.starts_with("OMPI_MCA_btl_tcp_eager_limit=");
        }) == 1);
}
