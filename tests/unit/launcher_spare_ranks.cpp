// Spares: only the job's own program is one, and not a program that some script has started.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "launcher/world/server/numa_binding.hpp"
#include "launcher/world/server/spare_origin.hpp"
#include "launcher/world/server/spare_ranks.hpp"
#include "tests/unit/loop_until.hpp"

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
  SpareRanks spares(loop, {[] {}, [] {}});
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
  SpareRanks spares(loop, {[] {}, [] {}});
  const auto folder = std::filesystem::temp_directory_path() / ("espalier-spares-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto until = [&](const std::function<bool()>& condition) { return test::until(loop, condition); };
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

namespace {

// Python's os.fork() as the package's fork server uses it, without torch. What a spare is told it writes to its output.
// The file `path`.loads gets a line for each process that loads.
const std::string kForks = R"(
import array, os, socket, sys
open(sys.argv[1] + ".loads", "a").write("one\n")
s = socket.socket(fileno=int(os.environ["ESPALIER_SPARE"]))
s.send(b"f" if "ESPALIER_SPARE_FORKS" in os.environ else b"r")
def told(s):
    text = b""
    while True:
        block = s.recv(4096)
        if not block: break
        text += block
    if text: os.write(1, text.split(b"WHO=")[1].split(b"\0")[0] * len(os.sched_getaffinity(0)))
    os._exit(0)
if "ESPALIER_SPARE_FORKS" not in os.environ: told(s)
parent = os.getppid()
while True:
    byte, data, _, _ = s.recvmsg(1, socket.CMSG_SPACE(12))
    if not byte: os._exit(0)
    fds = array.array("i"); fds.frombytes(data[0][2])
    r, w = os.pipe()
    if os.fork() == 0:
        if os.fork(): os._exit(0)
        os.close(w); os.read(r, 1)
        os.setpgid(0, 0); os.dup2(fds[1], 1); os.dup2(fds[2], 2)
        for fd in fds[1:]: os.close(fd)
        s.close(); s = socket.socket(fileno=fds[0]); s.send(b"r"); told(s)
    os.close(r); os.wait(); os.close(w)
    for fd in fds: os.close(fd)
)";

struct Forking {
  wire::Loop loop;
  int changes = 0, can_fork = 0;
  SpareRanks spares{loop, {[this] { ++changes; }, [this] { ++can_fork; }}};
  wire::KeepSpares request;
  std::string path =
      (std::filesystem::temp_directory_path() / ("espalier-forks-" + std::to_string(::getpid()))).string();
  Forking() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    request.program = {"/usr/bin/python3", "-c", kForks, path};
    request.environment = {"PATH=/usr/bin:/bin"};
    request.folder = "/";
    request.count = 2;
    request.forks = true;
  }
  ~Forking() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    ::unlink((path + ".loads").c_str());
  }
  bool until(const std::function<bool()>& condition) { return test::until(loop, condition); }
  SpareRanks::Soon how(std::size_t count) { return spares.soon(count, request.program, request.folder); }
  bool soon(std::size_t count) { return how(count) != SpareRanks::Soon::no; }
  // Of this process's children the oldest that runs the program; 0: there is none.
  pid_t first_child() const {
    std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    for (pid_t child = 0; children >> child;)
      if (content("/proc/" + std::to_string(child) + "/cmdline").find(path) != std::string::npos) return child;
    return 0;
  }
  // On one CPU: what a spare says of itself it says once for each.
  auto take(const std::string& who) {
    return spares.take(request.program, request.folder, {"WHO=" + who}, {*launcher::allowed_cpus().begin()});
  }
};

}  // namespace

TEST_CASE("spares are forked by the first that has loaded, as many as are needed, and become ranks") {
  Forking one;
  one.spares.keep(one.request, {}, nullptr, true);
  CHECK(one.how(3) == SpareRanks::Soon::loads);
  CHECK_FALSE(one.soon(1));  // a single rank loads as fast
  CHECK(one.spares.soon(3, {"another"}, "/") == SpareRanks::Soon::no);
  REQUIRE(one.until([&] { return !one.soon(3); }));
  CHECK(one.can_fork == 1);
  CHECK(one.spares.count() == 3);
  one.spares.hold();
  std::string said;
  std::vector<launcher::RankProcess> ranks;
  for (const char* const who : {"a", "b", "c"}) {
    auto rank = one.take(who);
    REQUIRE(rank);
    rank->output->deliver_to([&said](const std::string& text) { said += text; });
    ranks.push_back(std::move(*rank));
  }
  CHECK_FALSE(one.take("d"));
  CHECK(one.until([&] {
    return std::none_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.process->running(); }) &&
           said.size() == 3;
  }));
  std::sort(said.begin(), said.end());
  CHECK(said == "abc");
  one.spares.keep(one.request, {}, nullptr, true);
  CHECK(one.until([&] { return !one.soon(2) && one.spares.count() == 2; }));
  CHECK(content(one.path + ".loads") == "one\n");
}

TEST_CASE("nothing waits for a first spare that loads while no other node has seen the program fork") {
  Forking one;
  one.request.forks = false;
  one.spares.keep(one.request, {}, nullptr, true);
  CHECK_FALSE(one.soon(2));
}

TEST_CASE(
    "when fork servers are killed their spares are still used, and after the third the spares load by themselves") {
  Forking one;
  for (int time = 1; time <= 3; ++time) {
    CAPTURE(time);
    one.spares.keep(one.request, {}, nullptr, true);
    REQUIRE(one.until([&] { return one.can_fork == time && !one.soon(2); }));
    const pid_t server = one.first_child();  // it has loaded before there were spares
    REQUIRE(server > 0);
    const int before = one.changes;
    ::kill(server, SIGKILL);
    REQUIRE(one.until([&] { return one.changes > before; }));
    CHECK_FALSE(one.soon(3));
    CHECK(one.take("a"));
    CHECK(one.take("b"));
    CHECK_FALSE(one.take("c"));
  }
  one.spares.keep(one.request, {}, nullptr, true);
  CHECK(one.until([&] { return content(one.path + ".loads") == "one\none\none\none\none\n"; }));  // two more
  CHECK(one.can_fork == 3);
}

TEST_CASE("a fork server that does not answer is given up, and the third time no other one is tried") {
  Forking one;
  const auto at = one.request.program[2].find("while True:\n    byte");
  REQUIRE(at != std::string::npos);
  one.request.program[2].insert(at, "import time; time.sleep(600)\n");
  for (int time = 1; time <= 3; ++time) {
    CAPTURE(time);
    one.spares.keep(one.request, {}, nullptr, true);
    REQUIRE(one.until([&] { return one.can_fork == time; }));
    CHECK(one.how(2) == SpareRanks::Soon::forks);
    one.spares.give_up();
    CHECK_FALSE(one.soon(2));
    CHECK_FALSE(one.take("a"));
  }
  one.spares.keep(one.request, {}, nullptr, true);
  CHECK(one.until([&] { return one.spares.count() == 2; }));
  CHECK(one.can_fork == 3);
}

TEST_CASE("a fork that fails is told once, and not asked for again before the next request") {
  Forking one;
  const auto at = one.request.program[2].find("    r, w = os.pipe()");
  REQUIRE(at != std::string::npos);
  one.request.program[2].insert(
      at, "    for fd in fds: os.close(fd)\n    open(sys.argv[1] + '.asked', 'a').write('x'); continue\n");
  one.spares.keep(one.request, {}, nullptr, true);
  REQUIRE(one.until([&] { return one.can_fork == 1 && one.spares.count() == 0; }));
  CHECK_FALSE(one.soon(2));
  CHECK(content(one.path + ".asked").size() == 2);
  ::unlink((one.path + ".asked").c_str());
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
