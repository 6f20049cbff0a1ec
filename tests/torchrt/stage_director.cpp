// Plays the launcher in tests of the training runtime. The workers, mpirun and the wire protocol
// are real. A script says what happens when.
//   stage_director SCRIPT.json SUMMARY.json -- espalier-train ARGUMENTS
// SCRIPT: play_script.hpp.
// The play ends at a boundary, kEpilogue (director.cpp) steps after the last act. A fixed number of steps would
// not do, because the number of steps during a generation's start depends on the machine. A play
// without acts ends with the training. A play fails when it takes longer than
// STAGE_DIRECTOR_SECONDS (an environment variable; default 240 s). STAGE_DIRECTOR_GPUS: how many GPUs a node has; ranks
// are then told which one is theirs, and nodes are called a, b, ... in their order.
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include "tests/torchrt/director.hpp"

using namespace espalier;

int main(int argc, char** argv) {
  if (argc < 5 || std::string(argv[3]) != "--") {
    std::fprintf(stderr, "usage: stage_director SCRIPT.json SUMMARY.json -- PROGRAM ARGUMENTS\n");
    return 2;
  }
  try {
    std::ifstream script(argv[1]);
    return test::Director(Json::parse(script), argv[2], {argv + 4, argv + argc}).run();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "stage_director: %s\n", problem.what());
    return 1;
  }
}
