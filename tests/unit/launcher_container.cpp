// The options of a container that ranks enter, the process that holds it, and a rank's environment in there.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "launcher/world/container.hpp"
#include "planner/wire/host_uid.hpp"

using namespace espalier::launcher;
using Words = std::vector<std::string>;

TEST_CASE("options of a container come a line each") {
  CHECK(container_options("") == Words{});
  CHECK(container_options("--container-image=a b\n--container-writable\n") ==
        Words{"--container-image=a b", "--container-writable"});
}

TEST_CASE("mounts of the user and of Espalier are one option") {
  CHECK(with_mounts({"srun", "--container-mounts=/a:/b,/c", "--container-image=x", "--container-mounts=/d"},
                    {"/run/m"}) ==
        Words{"srun", "--container-image=x", "--container-mounts=/a:/b,/c,/d,/run/m:/run/m"});
  CHECK(with_mounts({"--container-image=x"}, {}) == Words{"--container-image=x"});
}

TEST_CASE("the process that holds the container is found in what its program prints") {
  CHECK(container_pid("espalier-container 4711") == 4711);
  for (const char* other : {"", "espalier-container ", "espalier-container 1", "espalier-container -5",
                            "espalier-container 47 11", "espalier-container 4711x", "pyxis: importing", "4711"})
    CHECK_MESSAGE(container_pid(other) == -1, other);
  CHECK(container_program("/a b").at(2).find("espalier-container ") != std::string::npos);
  CHECK(container_program("/a b").back() == "/a b");
}

TEST_CASE("a program without a slash is looked for by the image's PATH") {
  CHECK(paths_of("python", {"A=1", "PATH=/opt/conda/bin::/usr/bin"}) ==
        Words{"/opt/conda/bin/python", "./python", "/usr/bin/python"});
  CHECK(paths_of("./python", {"PATH=/bin"}) == Words{"./python"});
  CHECK(paths_of("python", {}) == Words{"/usr/bin/python", "/bin/python"});
}

TEST_CASE("in the container the image's variables count, apart from what Slurm tells a step and what did not change") {
  const Words given{"PATH=/host", "HOME=/home/u", "SAME=1", "GONE=1"};
  const Words inside{"PATH=/image",     "HOME=/root",  "SAME=1",           "IMAGE=x",
                     "SLURM_STEP_ID=7", "PMIX_RANK=0", "ESPALIER_GUARD=1", "PWD=/",
                     "IMAGE=twice",     "no variable", "SRUN_DEBUG=",      "CUDA_VISIBLE_DEVICES=0,1",
                     "_=/bin/sh"};
  CHECK(
      environment_inside({"PATH=/host", "USER=u", "HOME=/home/u", "SAME=2", "CUDA_VISIBLE_DEVICES=3"}, inside, given) ==
      Words{"USER=u", "SAME=2", "CUDA_VISIBLE_DEVICES=3", "PATH=/image", "HOME=/root", "IMAGE=x"});
  CHECK(environment_inside({"A=1"}, given, given) == Words{"A=1"});
}

TEST_CASE("a process in a container learns from its rank server what its user is called outside") {
  const uid_t own = espalier::wire::host_uid();
  for (const char* bad : {"", "x", "12x", "-1", "99999999999"}) {
    ::setenv("ESPALIER_UID", bad, 1);
    CHECK_MESSAGE(espalier::wire::host_uid() == own, bad);
  }
  ::setenv("ESPALIER_UID", "4242", 1);
  CHECK(espalier::wire::host_uid() == 4242);
  ::unsetenv("ESPALIER_UID");
}
