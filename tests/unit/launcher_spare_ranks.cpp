// Spares: only the job's own program is one, and not a program that some script has started.
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "launcher/world/server/spare_origin.hpp"
#include "launcher/world/server/spare_ranks.hpp"

using namespace espalier;
using namespace std::chrono_literals;
using launcher::SpareRanks;

namespace {

// Says that it has loaded, takes its environment as a worker does, and writes the value of WHO to the file $0. A spare
// that nobody needs writes nothing.
const std::string kProgram =
    R"(printf r >&"$ESPALIER_SPARE"; who=$(tr '\0' '\n' <&"$ESPALIER_SPARE" | sed -n 's/^WHO=//p'); )"
    R"([ -z "$who" ] || echo "$who" > "$0")";

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// One spare of `program` is kept until it has loaded, and is then asked for. What it writes to `path`; "none" when no
// spare is given.
std::string outcome(const std::vector<std::string>& program, const std::string& path) {
  wire::Loop loop;
  SpareRanks spares(loop);
  wire::KeepSpares request;
  request.count = 1;
  request.program = program;
  request.environment = {"PATH=/usr/bin:/bin"};
  request.folder = "/";
  bool over = false;
  std::string found = "none";
  std::optional<launcher::RankProcess> taken;
  spares.keep(request, {}, nullptr, true);
  // A refused one is ended by the loop: count() tells. A good one is there and can be taken.
  const auto look = loop.every(10ms, [&] {
    if (!taken) taken = spares.take(program, "/", {"WHO=rank 3"});
    if (!taken && spares.count() == 0) over = true;
    if (taken && !taken->process->running()) {
      over = true;
      found = content(path);
    }
    if (over) loop.stop();
  });
  const auto limit = loop.after(60s, [&] { loop.stop(); });
  loop.run();
  CHECK(over);
  return found;
}

}  // namespace

TEST_CASE("a spare of the job's own program becomes a rank") {
  const std::string path = "/tmp/espalier-spare-" + std::to_string(::getpid());
  CHECK(outcome({"/bin/bash", "-c", kProgram, path}, path) == "rank 3\n");
  ::unlink(path.c_str());
}

TEST_CASE("while a generation starts, no spare is started; the next request starts them") {
  wire::Loop loop;
  SpareRanks spares(loop);
  const auto folder = std::filesystem::temp_directory_path() / ("espalier-spares-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto until = [&](const std::function<bool()>& condition) {
    const auto look = loop.every(10ms, [&] {
      if (condition()) loop.stop();
    });
    const auto limit = loop.after(60s, [&] { loop.stop(); });
    loop.run();
    return condition();
  };
  wire::KeepSpares request;
  request.count = 3;
  // The n-th one has loaded when the file "go<n>" is there, and then makes the file "loaded<n>".
  request.program = {"/bin/bash", "-c",
                     R"(: > "$0/$$"; n=$(ls "$0" | grep -c '^[0-9]'); until [ -e "$0/go$n" ]; do sleep 0.01; done; )"
                     R"(printf r >&"$ESPALIER_SPARE"; : > "$0/loaded$n"; read -r who <&"$ESPALIER_SPARE"; exit)",
                     folder};
  request.environment = {"PATH=/usr/bin:/bin"};
  request.folder = "/";
  spares.keep(request, {}, nullptr, true);
  REQUIRE(until([&] { return !std::filesystem::is_empty(folder); }));
  CHECK(spares.count() == 1);
  spares.hold();  // it has not loaded
  CHECK(spares.count() == 0);
  for (const auto& one : std::filesystem::directory_iterator(folder)) std::filesystem::remove(one);
  std::ofstream(folder / "go1").close();
  spares.keep(request, {}, nullptr, true);
  REQUIRE(until([&] { return spares.count() == 2; }));  // one after the other
  spares.hold();
  CHECK(spares.take(request.program, "/", {"WHO=rank 3"}));
  std::ofstream(folder / "go2").close();
  REQUIRE(until([&] { return std::filesystem::exists(folder / "loaded2"); }));
  int turns = 0;  // of the loop: the word of the second one has been read
  until([&] { return ++turns > 5; });
  CHECK(spares.count() == 1);
  spares.keep(request, {}, nullptr, true);
  CHECK(until([&] { return spares.count() == 2; }));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a program behind a script is no spare: the script may have set variables by the rank") {
  const std::string path = "/tmp/espalier-spare-" + std::to_string(::getpid());
  SUBCASE("a script that becomes the program") {
    CHECK(outcome({"/bin/bash", "-c", "export WHERE=$RANK; exec bash -c \"$1\" \"$0\"", path, kProgram}, path) ==
          "none");
  }
  SUBCASE("a script that waits for the program") {
    CHECK(outcome({"/bin/bash", "-c", "export WHERE=$RANK; bash -c \"$1\" \"$0\"; exit", path, kProgram}, path) ==
          "none");
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_CASE("a command line is the program's, also behind the interpreter of its first line") {
  // This process's own command line, of which the last words are taken.
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  REQUIRE(!words.empty());
  CHECK(launcher::is_command_of(::getpid(), words));
  CHECK_FALSE(launcher::is_command_of(::getpid(), {}));
  auto more = words;
  more.push_back("another");
  CHECK_FALSE(launcher::is_command_of(::getpid(), more));
  CHECK_FALSE(launcher::is_command_of(::getpid(), {words.back().substr(1)}));  // no whole word
  CHECK_FALSE(launcher::is_command_of(-1, words));
}
