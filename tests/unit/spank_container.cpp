// Which of srun's arguments start a step in a container, and which only belong to the user's program.
#include <doctest/doctest.h>

#include <algorithm>
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

// What is left of the arguments, each ended by a blank, "|", and what was taken.
std::string taken_of(std::vector<std::string> words, std::size_t room = 4096) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> rest(arguments.size());
  std::string text(room, 'x');
  const int count = espalier_container_take(arguments.data(), rest.data(), text.data(), text.size());
  if (count < 0) return "refused";
  std::string all;
  for (std::size_t i = 0; rest.at(i) != nullptr; ++i) all += std::string(rest[i]) + " ";
  all += "|" + std::string(text.c_str());
  CHECK(count == std::count(all.begin(), all.end(), '\n'));
  return all;
}

}  // namespace

TEST_CASE("pyxis's options are taken out, with their values, and nothing else") {
  CHECK(taken_of({"srun", "--container-image", "a b", "-n", "2", "--elastic=2:4", "program"}) ==
        "srun -n 2 --elastic=2:4 program |--container-image=a b\n");
  CHECK(taken_of({"srun", "-n2", "--container-mounts=/a:/b,/c", "--no-container-mount-home", "--container-image=x",
                  "p"}) == "srun -n2 p |--container-mounts=/a:/b,/c\n--no-container-mount-home\n--container-image=x\n");
  CHECK(taken_of({"srun", "--container-writable", "program", "--container-image=x"}) ==
        "srun program --container-image=x |--container-writable\n");
  CHECK(taken_of({"srun", "--container-id", "1", "--container=/bundle", "p"}) ==
        "srun --container-id 1 --container=/bundle p |");
  CHECK(taken_of({"srun", "--comment", "--container-image=x", "p"}) == "srun --comment --container-image=x p |");
  CHECK(taken_of({"srun", "--container-workdir=/w", "--", "--container-image=x"}) ==
        "srun -- --container-image=x |--container-workdir=/w\n");
  CHECK(taken_of({"srun", "--container-name"}) == "srun |--container-name\n");
  CHECK(taken_of({"srun"}) == "srun |");
  // A flag that is not known here, and options that have a value.
  CHECK(taken_of({"srun", "--stepmgr", "--container-image=x", "p"}) == "srun --stepmgr p |--container-image=x\n");
  CHECK(taken_of({"srun", "--of-some-plugin", "--container-image", "x", "p"}) ==
        "srun --of-some-plugin p |--container-image=x\n");
  CHECK(taken_of({"srun", "--of-some-plugin", "v", "--container-image=x", "p"}) ==
        "srun --of-some-plugin v p |--container-image=x\n");
}

TEST_CASE(
    "pyxis's options that cannot be handed on are refused: too long, two lines, a file that every node would write") {
  CHECK(taken_of({"srun", "--container-image=" + std::string(100, 'i'), "p"}, 100) == "refused");
  CHECK(taken_of({"srun", "--container-image=a\nb", "p"}) == "refused");
  CHECK(taken_of({"srun", "--container-image=a", "--container-save=/x", "p"}) == "refused");
}

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
