// Grants of extensions: who can make one, what a changed one is worth, how often it is good; the file with the key.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>

#include "planner/daemon/grants.hpp"
#include "planner/wire/grant.h"
#include "spank/used_grants.h"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

const std::string kHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

void write_key(const std::string& path, const std::string& text, mode_t mode = 0600) {
  ::unlink(path.c_str());
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

espalier_grant example() {
  espalier_grant grant{};
  std::strcpy(grant.id, "0123456789abcdef");
  grant.uid = 1000;
  grant.anchor = 10;
  std::strcpy(grant.node, "n1");
  grant.gpus = 4;
  grant.minutes = 60;
  grant.expiry = 1'000'000;
  return grant;
}

espalier_grant_key key_of(unsigned char byte) {
  espalier_grant_key key{};
  std::memset(key.key, byte, sizeof key.key);
  return key;
}

std::string made(const espalier_grant& grant, const espalier_grant_key& key) {
  char text[ESPALIER_GRANT_MAX];
  return espalier_grant_make(&grant, &key, text) == 0 ? text : "";
}

bool opens(const std::string& text, const espalier_grant_key& key) {
  espalier_grant grant{};
  return espalier_grant_open(text.c_str(), &key, &grant) == 0;
}

}  // namespace

TEST_CASE("a grant is read as it was made") {
  const espalier_grant_key key = key_of(7);
  espalier_grant read{};
  REQUIRE(espalier_grant_open(made(example(), key).c_str(), &key, &read) == 0);
  CHECK(std::string(read.id) == "0123456789abcdef");
  CHECK(read.uid == 1000);
  CHECK(read.anchor == 10);
  CHECK(std::string(read.node) == "n1");
  CHECK(read.gpus == 4);
  CHECK(read.minutes == 60);
  CHECK(read.expiry == 1'000'000);
}

TEST_CASE("a grant of another key, or with any byte changed, added or left out, is none") {
  const espalier_grant_key key = key_of(7);
  const std::string text = made(example(), key);
  CHECK(opens(text, key));
  CHECK_FALSE(opens(text, key_of(8)));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    CHECK_FALSE(opens(other, key));
    CHECK_FALSE(opens(text.substr(0, at), key));
    CHECK_FALSE(opens(text.substr(0, at) + "0" + text.substr(at), key));
  }
  CHECK_FALSE(opens("", key));
  CHECK_FALSE(opens(std::string(10000, ':'), key));
}

TEST_CASE("what does not fit into a grant gets none") {
  const espalier_grant_key key = key_of(7);
  const auto refused = [&](auto change) {
    espalier_grant grant = example();
    change(grant);
    return made(grant, key).empty();
  };
  CHECK(refused([](espalier_grant& g) { std::strcpy(g.id, "0123"); }));
  CHECK(refused([](espalier_grant& g) { g.id[3] = ':'; }));
  CHECK(refused([](espalier_grant& g) { g.node[0] = '\0'; }));
  CHECK(refused([](espalier_grant& g) { std::strcpy(g.node, "n1:8"); }));
  CHECK(refused([](espalier_grant& g) { g.gpus = 0; }));
  CHECK(refused([](espalier_grant& g) { g.minutes = 0; }));
}

TEST_CASE("a grant is good for one job that starts at once and, after that, for one that waits") {
  const auto id = [](int number) {
    char text[ESPALIER_GRANT_ID + 1];
    std::snprintf(text, sizeof text, "%016x", number);
    return std::string(text);
  };
  CHECK(espalier_use_grant(id(1).c_str(), 1, 100, 200) == 0);
  CHECK(espalier_use_grant(id(1).c_str(), 1, 101, 200) == -1);
  CHECK(espalier_use_grant(id(1).c_str(), 0, 102, 200) == 0);
  CHECK(espalier_use_grant(id(1).c_str(), 0, 103, 200) == -1);
  CHECK(espalier_use_grant(id(2).c_str(), 0, 104, 200) == 0);
  CHECK(espalier_use_grant(id(2).c_str(), 1, 105, 200) == -1);
  // Those that have expired make room.
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 4000; ++i)
      REQUIRE(espalier_use_grant(id(1000 + i).c_str(), 1, 1000 * (round + 1), 1000 * (round + 1) + 120) == 0);
}

TEST_CASE("the key is read from a file that is its owner's alone, of the daemon's partition") {
  const Folder folder;
  const std::string path = folder.file("grant.key");
  const std::string good = "partition=elastic\nkey=" + kHex + "\n";
  espalier_grant_key key{};
  char why[512] = "";
  const auto read = [&] { return espalier_grant_key_read(path.c_str(), &key, why, sizeof why); };
  CHECK(read() == 0);
  write_key(path, good);
  REQUIRE(read() == 1);
  CHECK(std::string(key.partition) == "elastic");
  CHECK(key.key[1] == 1);
  CHECK(key.key[31] == 31);
  for (const mode_t mode : {0640, 0604, 0660}) {
    write_key(path, good, mode);
    CHECK(read() == -1);
    CHECK(std::string(why).find("chmod 0600") != std::string::npos);
  }
  for (const std::string& bad : {std::string(), std::string("key=" + kHex), std::string("partition=\nkey=" + kHex),
                                 std::string("partition=elastic\n"), std::string("partition=elastic\nkey=00\n"),
                                 std::string("partition=elastic\nkey=" + kHex.substr(1) + "g\n"),
                                 "partition=" + std::string(100, 'p') + "\nkey=" + kHex}) {
    write_key(path, bad);
    CHECK(read() == -1);
    CHECK(std::string(why).find(path + ": has no line") == 0);
  }
  write_key(path, good);
  CHECK(make_grants(path, "other") == nullptr);
  CHECK(make_grants(folder.file("none"), "elastic") == nullptr);
  const MakeGrant grants = make_grants(path, "elastic");
  REQUIRE(grants);
  REQUIRE(read() == 1);
  espalier_grant grant{};
  REQUIRE(espalier_grant_open(grants(1000, 10, {"n2", 3, 3, 0, 30}).c_str(), &key, &grant) == 0);
  CHECK(grant.uid == 1000);
  CHECK(grant.anchor == 10);
  CHECK(std::string(grant.node) == "n2");
  CHECK(grant.gpus == 3);
  CHECK(grant.minutes == 30);
  CHECK(grants(1000, 10, {"n2", 3, 3, 0, 30}) != grants(1000, 10, {"n2", 3, 3, 0, 30}));
}

TEST_CASE("a younger extension with the comment of another is a stray") {
  SlurmSnapshot slurm;
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0, 1}}}));
  run_job(slurm, slurm_job(20, 1000, {{20, "n1", {2}}}, "espalier:ext:10:0123456789abcdef"));
  run_job(slurm, slurm_job(21, 1000, {{21, "n1", {3}}}, "espalier:ext:10:0123456789abcdef"));
  std::map<JobId, LiveJob> jobs;
  jobs[10].job = job(10, "n1", {0, 1});
  jobs[10].job.phase = JobPhase::running;
  jobs[10].job.extensions = {{20, "n1", {2}}, {21, "n1", {3}}};
  jobs[10].link = std::make_shared<TestLink>(1000);
  Strays strays("elastic");
  slurm.time = 1000;
  CHECK(strays.look(slurm, jobs, 64).empty());
  slurm.time = 1011;
  const auto found = strays.look(slurm, jobs, 64);
  REQUIRE(found.size() == 1);
  CHECK(found[0].extension == 21);
}
