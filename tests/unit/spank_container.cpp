// Which of srun's arguments start a step in a container, and which only belong to the user's program.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "spank/container.h"

namespace {

std::string option_of(std::vector<std::string> words) {
  std::vector<char*> arguments;
  std::string srun = "srun";
  arguments.push_back(srun.data());
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int elastic = 0;
  const char* option = espalier_container_option(arguments.data(), &elastic);
  return (option == nullptr ? "" : option) + std::string(elastic ? "+" : "");
}

}  // namespace

TEST_CASE("a container option of srun is found wherever it stands") {
  CHECK(option_of({"--container-image=x", "--elastic=2:4", "true"}) == "--container-image+");
  CHECK(option_of({"--elastic=2:4", "--container-image", "x", "true"}) == "--container-image+");
  CHECK(option_of({"-n", "2", "--gres", "gpu:2", "--container=/bundle", "true"}) == "--container");
  CHECK(option_of({"-n2", "-l", "--elastic", "--container-name=x", "true"}) == "--container-name+");
  CHECK(option_of({"--exclusive", "--container", "/bundle", "true"}) == "--container");
}

TEST_CASE("what a program is given is no option of srun") {
  CHECK(option_of({"--elastic=2:4", "program", "--container=x"}) == "+");
  CHECK(option_of({"--elastic", "program", "--container-image", "x"}) == "+");
  CHECK(option_of({"-l", "program", "--container-image=x"}) == "");
  CHECK(option_of({"-n", "2", "program", "--container-image=x"}) == "");
  CHECK(option_of({"--gres=gpu:2", "--", "--container"}) == "");
  CHECK(option_of({"--comment", "--container=x", "program"}) == "");
  CHECK(option_of({"--gres=gpu:2", "program", "--elastic"}) == "");
  CHECK(option_of({}) == "");
}
