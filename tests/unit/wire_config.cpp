#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/wire/config.hpp"

using espalier::Error;
using espalier::wire::load_config;

namespace {

struct File {
  std::string path;
  explicit File(const std::string& text) {
    char name[] = "/tmp/espalier-config-XXXXXX";
    ::close(::mkstemp(name));
    path = name;
    std::ofstream(path) << text;
  }
  ~File() { std::remove(path.c_str()); }
};

std::string refusal(const std::string& text) {
  const File file(text);
  try {
    load_config(file.path);
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(message.starts_with(file.path));
    return message.substr(std::min(message.size(), file.path.size()));
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a configuration is read whole") {
  const File file(
      "[planner]\nhost = \"ctl\"\nport = 1234\npoll_seconds = 1\n[extensions]\nmax_gpus = 8\n[launch]\nnetwork = "
      "\"10.0.0.0/8\"\n");
  const auto config = load_config(file.path);
  CHECK(config.planner_host == "ctl");
  CHECK(config.planner_port == 1234);
  CHECK(config.poll_seconds == 1.0);
  CHECK(config.max_gpus == 8);
  CHECK(config.network == "10.0.0.0/8");
  CHECK(config.path == file.path);
}

TEST_CASE("a wrong configuration names file, line and key") {
  CHECK(refusal("[planner]\nhots = \"ctl\"\n") == ":2: planner.hots: unknown key; see espalier.toml(5)");
  CHECK(refusal("\n[plonner]\n") == ":2: plonner: unknown table; see espalier.toml(5)");
  CHECK(refusal("[planner]\n\nport = \"7321\"\n") == ":3: planner.port: must be a whole number");
  CHECK(refusal("[planner]\nport = 70000\n") == ":2: planner.port: must be between 1 and 65535");
  CHECK(refusal("[planner]\nhost = 5\n") == ":2: planner.host: must be a string");
  CHECK(refusal("[planner]\nhost = \"\"\n") == ":2: planner.host: must not be empty");
  CHECK(refusal("[planner]\nlog_level = \"loud\"\n") == ":2: planner.log_level: must be debug, info, warning or error");
  CHECK(refusal("[planner]\npoll_seconds = true\n") == ":2: planner.poll_seconds: must be a number");
  CHECK(refusal("planner = 1\n") == ":1: planner: must be a table");
  CHECK(refusal("[planner\n").find("no valid TOML") != std::string::npos);
}

TEST_CASE("a named file that is missing is an error, the default one is not") {
  CHECK_THROWS_WITH_AS(load_config("/no/such.toml"), "/no/such.toml: cannot be read; check the path and its mode",
                       Error);
}
