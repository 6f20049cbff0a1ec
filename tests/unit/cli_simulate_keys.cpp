// The messages of `espalier simulate` for each wrong key in its files.
#include <doctest/doctest.h>

#include "planner/cli/plan_cluster_file.hpp"
#include "planner/cli/simulate_model_table.hpp"
#include "tests/unit/plan_files.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::cli;
using namespace espalier::plan_files;
using namespace espalier::sim_cases;

namespace {

// The message for a cluster file. The wrong part begins in line 5.
std::string of_cluster(const std::string& redeploy) {
  const Folder folder;
  return complaint(folder, [&] {
    read_plan_cluster(folder.write("c.toml", "[[nodes]]\nname = \"n1\"\ngpus = 8\ngpu_type = \"h100\"\n" + redeploy));
  });
}

// The message for a table of kinds, for a cluster of one node of 8 GPUs.
std::string of_table(const std::string& text) {
  const Folder folder;
  const ClusterView cluster = cluster_of(1, 8);
  std::vector<std::string> notes;
  return complaint(folder,
                   [&] { read_model_table(folder.write("jobs.toml", text), *site_of(cluster), cluster, notes); });
}

std::string kind(const std::string& wrong_key, const std::string& value) {
  std::string text = "[[jobs]]\n";
  for (const auto& [key, right] : {std::pair<std::string, std::string>{"model", "\"gpt2-1.3b\""},
                                   {"size", "\"S\""},
                                   {"pp", "1"},
                                   {"dp", "4"},
                                   {"tp", "1"},
                                   {"global_batch", "64"}}) {
    const std::string& given = key == wrong_key ? value : right;
    if (!given.empty()) text += key + " = " + given + "\n";
  }
  return text;
}

}  // namespace

TEST_SUITE("simulate") {
  TEST_CASE("each wrong key of [redeploy] is named with its line") {
    const auto at = [](const std::string& key, const std::string& problem) {
      return "c.toml:6: redeploy." + key + ": " + problem;
    };
    CHECK(of_cluster("redeploy = 1\n") != "accepted");
    CHECK(of_cluster("[redeploy]\nspeed = 1\n") == at("speed", "unknown key; see espalier-plan(1)"));
    for (const char* key : {"profile_seconds", "start_seconds", "switch_seconds", "adopt_switch_seconds"}) {
      const std::string table = std::string("[redeploy]\n") + key + " = ";
      CHECK(of_cluster(table + "-1\n") == at(key, "must be between 0.000000 and 1000000.000000"));
      CHECK(of_cluster(table + "\"x\"\n") == at(key, "must be a number"));
    }
    for (const char* key : {"storage_gb_s", "local_gb_s"}) {
      const std::string table = std::string("[redeploy]\n") + key + " = ";
      CHECK(of_cluster(table + "0\n") == at(key, "must be between 0.001000 and 1000000.000000"));
      CHECK(of_cluster(table + "\"x\"\n") == at(key, "must be a number"));
    }
    CHECK(of_cluster("[redeploy]\nnetwork_share = 2\n") ==
          at("network_share", "must be between 0.010000 and 1.000000"));
    CHECK(of_cluster("[redeploy]\nnetwork_share = true\n") == at("network_share", "must be a number"));
  }

  TEST_CASE("each wrong key of a measured method is named with its line") {
    for (const std::string method : {"checkpoint", "overlap", "device", "adopt"}) {
      const std::string table = "[redeploy." + method + "]\n", key = "redeploy." + method;
      CHECK(of_cluster(table + "pause_seconds = 1\n") ==
            "c.toml:5: " + key + ".overlap_seconds: missing; a measured method needs both");
      CHECK(of_cluster(table + "overlap_seconds = 1\n") ==
            "c.toml:5: " + key + ".pause_seconds: missing; a measured method needs both");
      CHECK(of_cluster(table + "pause = 1\n") == "c.toml:6: " + key + ".pause: unknown key; see espalier-plan(1)");
      CHECK(of_cluster(table + "overlap_seconds = 1\npause_seconds = -1\n") ==
            "c.toml:7: " + key + ".pause_seconds: must be between 0.000000 and 1000000.000000");
      CHECK(of_cluster(table + "overlap_seconds = 1\npause_seconds = 1\noverlap_seconds_per_gpu = -1\n") ==
            "c.toml:8: " + key + ".overlap_seconds_per_gpu: must be between 0.000000 and 1000000.000000");
      CHECK(of_cluster(table + "overlap_seconds = \"x\"\npause_seconds = 1\n") ==
            "c.toml:6: " + key + ".overlap_seconds: must be a number");
      CHECK(of_cluster("[redeploy]\n" + method + " = 1\n") == "c.toml:6: " + key + ": must be a table");
    }
    CHECK(of_cluster("[redeploy.teleport]\npause_seconds = 1\n")
              .ends_with(": redeploy.teleport: unknown key; see espalier-plan(1)"));
  }

  TEST_CASE("a table of kinds that is none is told") {
    CHECK(of_table("[[kinds]]\n") == "jobs.toml:1: kinds: unknown table; see espalier-simulate(1)");
    CHECK(of_table("jobs = 1\n") == "jobs.toml:1: jobs: must be a list of tables; write [[jobs]]");
    CHECK(of_table("jobs = [1]\n") == "jobs.toml:1: jobs: must be a table");
    CHECK(of_table("") == "jobs.toml: jobs: none that the cluster can hold; describe them by [[jobs]]");
    CHECK(of_table(kind("tp", "4")) == "jobs.toml: jobs: none that the cluster can hold; describe them by [[jobs]]");
  }

  TEST_CASE("each wrong key of a table of kinds is named with its line") {
    const auto at = [](int line, const std::string& key, const std::string& problem) {
      return "jobs.toml:" + std::to_string(line) + ": jobs." + key + ": " + problem;
    };
    const std::string right = kind("", "");
    CHECK(of_table(right) == "accepted");
    CHECK(of_table(right + "colour = 1\n") == at(8, "colour", "unknown key; see espalier-simulate(1)"));
    CHECK(of_table(right + "sequence = 0\n") == at(8, "sequence", "must be between 1 and 16777216"));
    CHECK(of_table(right + "sequence = 1.5\n") == at(8, "sequence", "must be a whole number"));
    CHECK(of_table(right + "utilization = 2\n") == at(8, "utilization", "must be between 0.001000 and 1.000000"));
    CHECK(of_table(right + "utilization = \"x\"\n") == at(8, "utilization", "must be a number"));
    CHECK(of_table(right + "recompute = 1\n") == at(8, "recompute", "must be true or false"));
    CHECK(of_table(right + "zero1 = 1\n") == at(8, "zero1", "must be true or false"));
    for (const char* key : {"model", "size", "pp", "dp", "tp", "global_batch"})
      CHECK(of_table(kind(key, "")) == at(1, key, "missing; a kind needs model, size, pp, dp, tp and global_batch"));
    CHECK(of_table(kind("model", "\"\"")) == at(2, "model", "must not be empty"));
    CHECK(of_table(kind("model", "7")) == at(2, "model", "must be a string"));
    CHECK(of_table(kind("model", "\"bert-1.3b\""))
              .starts_with(at(2, "model", "model \"bert-1.3b\": its shape is unknown; use one of ")));
    CHECK(of_table(kind("size", "\"Z\"")) == at(3, "size", "must be S, M, L or XL"));
    CHECK(of_table(kind("size", "1")) == at(3, "size", "must be a string"));
    CHECK(of_table(kind("pp", "0")) == at(4, "pp", "must be between 1 and 128"));
    CHECK(of_table(kind("pp", "\"x\"")) == at(4, "pp", "must be a whole number"));
    CHECK(of_table(kind("dp", "0")) == at(5, "dp", "must be between 1 and 65536"));
    CHECK(of_table(kind("tp", "257")) == at(6, "tp", "must be between 1 and 256"));
    CHECK(of_table(kind("global_batch", "0")) == at(7, "global_batch", "must be between 1 and 1048576"));
    CHECK(of_table(kind("global_batch", "2")) ==
          "jobs.toml:1: jobs: gpt2-1.3b: its plan pp1 dp4 tp1 does not fit: no micro-batch feeds it; give it another "
          "plan");
  }

  TEST_CASE("each wrong key of [slurm] is named with its line") {
    for (const char* key : {"queue_seconds", "batch_sched_seconds", "release_seconds", "acquire_seconds",
                            "launch_seconds", "end_seconds", "priority_weight_age", "priority_weight_job_size",
                            "priority_max_age_seconds", "bf_interval", "bf_max_job_test"})
      CHECK(of_cluster("[slurm]\n" + std::string(key) + " = -1\n").find("c.toml:6: slurm." + std::string(key)) == 0);
    CHECK(of_cluster("[slurm]\npreempt = \"newest\"\n").find("c.toml:6: slurm.preempt: ") == 0);
    CHECK(of_cluster("[slurm]\npriority_favor_small = 1\n").find("c.toml:6: slurm.priority_favor_small: ") == 0);
    CHECK(of_cluster("[slurm]\nspeed = 1\n").find("c.toml:6: slurm.speed: ") == 0);
    for (const char* key : {"profile_steps", "settle_steps"})
      CHECK(of_cluster("[redeploy]\n" + std::string(key) + " = -1\n").find("c.toml:6: redeploy." + std::string(key)) ==
            0);
  }

  TEST_CASE("a measured kind needs a name and a record") {
    CHECK(of_table("[[jobs]]\nmeasured = \"job.json\"\n").find("jobs.model: missing") != std::string::npos);
    CHECK(of_table("[[jobs]]\nmodel = \"m\"\nmeasured = \"none.json\"\n") ==
          "jobs.toml:3: jobs.measured: none.json cannot be read");
  }
}
