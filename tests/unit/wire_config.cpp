#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/wire/config.hpp"
#include "planner/wire/scheduler_options.hpp"

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
  for (const char* network :
       {"10.0.0.0", "10.0.0.0/", "/x", "10.0.0/8", "10.0.0.0/33", "10.0.0.0/0", "10.0.0.0/8x", "eth0"})
    CHECK(refusal("[launch]\nnetwork = \"" + std::string(network) + "\"\n") ==
          ":2: launch.network: must be an IPv4 network such as \"10.0.0.0/16\", or empty");
  for (const char* address : {"7322", "localhost:7322", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000",
                              "127.0.0.1:1x", "::1:7322", "[127.0.0.1]:7322", "[]:7322"})
    CHECK(refusal("[metrics]\naddress = \"" + std::string(address) + "\"\n") ==
          ":2: metrics.address: must be a numeric address and a port such as \"127.0.0.1:7322\", or empty");
  CHECK(refusal("[metrics]\njobs = -1\n") == ":2: metrics.jobs: must be between 0 and 100000");
  CHECK(refusal("planner = 1\n") == ":1: planner: must be a table");
  CHECK(refusal("[planner\n").find("no valid TOML") != std::string::npos);
}

TEST_CASE("[share] is read, and refused by name") {
  const auto share = load_config(File("[share]\nweight = \"equal\"\naccount_gpus = 8\n[share.accounts]\nphysics = 4\n"
                                      "[[share.rules]]\nname = \"a\"\nnodes = \"n[1-2]\"\naccounts = [\"physics\"]\n"
                                      "[[share.rules]]\nname = \"b\"\nof_partitions = [\"old\"]\nqos = [\"high\"]\n"
                                      "partitions = [\"main\"]\n")
                                     .path)
                         .share;
  CHECK(!share.fair_share);
  CHECK(share.account_gpus == 8);
  CHECK(share.accounts == std::map<std::string, int>{{"physics", 4}});
  REQUIRE(share.rules.size() == 2);
  CHECK(share.rules[0] == espalier::ShareRule{"a", "n[1-2]", {}, {"physics"}, {}, {}});
  CHECK(share.rules[1] == espalier::ShareRule{"b", "", {"old"}, {}, {"high"}, {"main"}});
  CHECK(load_config(File("").path).share == espalier::ShareRules());
  CHECK(refusal("[share]\nwieght = 1\n") == ":2: share.wieght: unknown key; see espalier.toml(5)");
  CHECK(refusal("[share]\nweight = \"fair\"\n") == ":2: share.weight: must be fairshare or equal");
  CHECK(refusal("[share]\naccount_gpus = -1\n") == ":2: share.account_gpus: must be between 0 and 1000000");
  CHECK(refusal("[share]\naccounts = 3\n") == ":2: share.accounts: must be a table of accounts with their limits");
  CHECK(refusal("[share.accounts]\nphysics = \"4\"\n") == ":2: share.accounts.physics: must be a whole number");
  CHECK(refusal("[share]\nrules = 3\n") == ":2: share.rules: must be written as [[share.rules]]");
  const std::string rule = "[[share.rules]]\nname = \"a\"\n", nodes = "nodes = \"n1\"\n", who = "qos = [\"high\"]\n";
  CHECK(refusal("[[share.rules]]\n" + nodes + who) ==
        ":1: share.rules: a rule needs a name, by which `espalier explain` calls it");
  CHECK(refusal(rule + who) == ":1: share.rules: rule \"a\" names no nodes; give nodes or of_partitions");
  CHECK(refusal(rule + nodes) == ":1: share.rules: rule \"a\" admits everybody; give accounts, qos or partitions");
  CHECK(refusal(rule + nodes + "users = [\"ann\"]\n") == ":4: share.rules.users: unknown key; see espalier.toml(5)");
  CHECK(refusal(rule + nodes + "qos = \"high\"\n") == ":4: share.rules.qos: must be a list of strings");
  CHECK(refusal(rule + nodes + who + rule + nodes + who) == ":5: share.rules: there are two rules \"a\"");
  std::string many;
  for (int i = 0; i < 257; ++i) many += "[[share.rules]]\nname = \"" + std::to_string(i) + "\"\n" + nodes + who;
  CHECK(refusal(many).find(": share.rules: has more than 256 rules") != std::string::npos);
}

TEST_CASE("[objective] is read, and refused by name") {
  const auto config = load_config(File("[objective]\nkind = \"fairness\"\nlate_deadlines = \"warn\"\n"
                                       "account_weights = { physics = 2.0, \"a.b\" = 0.5 }\n"
                                       "[objective.qos_weights]\nhigh = 3\n")
                                      .path);
  CHECK(config.objective.kind == espalier::ObjectiveKind::fairness);
  CHECK(!config.refuses_late_deadlines);
  CHECK(config.objective.account_weights == std::map<std::string, double>{{"a.b", 0.5}, {"physics", 2}});
  CHECK(config.objective.qos_weights == std::map<std::string, double>{{"high", 3}});
  CHECK(load_config(File("").path).objective == espalier::Objective());
  CHECK(load_config(File("").path).refuses_late_deadlines);
  CHECK(refusal("[objective]\nknid = 1\n") == ":2: objective.knid: unknown key; see espalier.toml(5)");
  CHECK(refusal("[objective]\nkind = \"fast\"\n") ==
        ":2: objective.kind: must be throughput, jct, deadline or fairness");
  CHECK(refusal("[objective]\nkind = 1\n").find(":2: objective.kind: must be") == 0);
  CHECK(refusal("[objective]\nlate_deadlines = \"drop\"\n") == ":2: objective.late_deadlines: must be refuse or warn");
  CHECK(refusal("[objective]\naccount_weights = 3\n") ==
        ":2: objective.account_weights: must be a table of weights, as in { physics = 2.0 }");
  CHECK(refusal("[objective.qos_weights]\nhigh = \"3\"\n") == ":2: objective.qos_weights.high: must be a number");
  CHECK(refusal("[objective.qos_weights]\nhigh = 0.0\n") ==
        ":2: objective.qos_weights.high: must be between 0.010000 and 100.000000");
  CHECK(refusal("[objective.account_weights]\n\"a b\" = 1.0\n") ==
        ":2: objective.account_weights: \"a b\" is no name of an account; it must not be empty or have spaces, commas "
        "or quotes");
  std::string many = "[objective.account_weights]\n";
  for (int i = 0; i < 1025; ++i) many += "a" + std::to_string(i) + " = 1.0\n";
  CHECK(refusal(many).find("objective.account_weights: has more than 1024 weights") != std::string::npos);
  CHECK(refusal("[planner]\npolicy = \"suika\"\n[objective]\nkind = \"fairness\"\n") ==
        ":3: objective.kind: \"fairness\" is of policy espalier, but planner.policy is \"suika\"; leave one of them "
        "out");
}

TEST_CASE("[health] is read, and refused by name") {
  const auto config =
      load_config(File("[health]\ncommand = \"/usr/sbin/check\"\ntimeout_seconds = 5\nvalid_minutes = 1.5\n").path);
  CHECK(config.health_command == "/usr/sbin/check");
  CHECK(config.health_timeout_seconds == 5);
  CHECK(config.health_valid_minutes == 1.5);
  CHECK(config.health_gpu_errors);
  CHECK_FALSE(load_config(File("[health]\ngpu_errors = false\n").path).health_gpu_errors);
  CHECK(refusal("[health]\ngpu_errors = \"no\"\n") == ":2: health.gpu_errors: must be true or false");
  CHECK(load_config(File("[health]\ncommand = \"\"\n").path).health_command.empty());
  CHECK(refusal("[health]\ncommand = \"check -a\"\n") ==
        ":2: health.command: must be the whole path of a program, without arguments");
  CHECK(refusal("[health]\ntimeout_seconds = 0\n") == ":2: health.timeout_seconds: must be between 1 and 600");
  CHECK(refusal("[health]\nvalid_minutes = 0\n") ==
        ":2: health.valid_minutes: must be between 0.100000 and 1440.000000");
}

TEST_CASE("[profiling] bounds the GPUs and the time of profile jobs; 0 GPUs switches them off") {
  CHECK(load_config(File("\n").path).profiling_gpus == 4);
  const auto config = load_config(File("[profiling]\ngpus = 0\nper_user = 1\nminutes = 3\n").path);
  CHECK(config.profiling_gpus == 0);
  CHECK(config.profiling_per_user == 1);
  CHECK(config.profiling_minutes == 3);
  CHECK(refusal("[profiling]\ngpus = -1\n").find(":2: profiling.gpus: must be") == 0);
  CHECK(refusal("[profiling]\nper_user = \"two\"\n").find(":2: profiling.per_user: ") == 0);
  CHECK(refusal("[profiling]\nminutes = 0\n").find(":2: profiling.minutes: must be") == 0);
  CHECK(refusal("[profiling]\nhours = 1\n").find(":2: profiling.hours: ") == 0);
}

TEST_CASE("[metrics] is read") {
  for (const char* address : {"", "0.0.0.0:80", "[::1]:65535"}) {
    const auto config = load_config(File("[metrics]\naddress = \"" + std::string(address) + "\"\njobs = 5\n").path);
    CHECK(config.metrics_address == address);
    CHECK(config.metrics_jobs == 5);
  }
}

TEST_CASE("every key of the scheduler is read, and has a default") {
  const auto defaults = load_config(File("").path);
  CHECK(defaults.lambda == 1);
  CHECK(defaults.hysteresis == 0.1);
  CHECK(defaults.trade == 2);
  CHECK(defaults.least_gain == 1.02);
  CHECK(defaults.idle_seconds == 300);
  CHECK(espalier::wire::scheduler_options(defaults).idle_forecast == espalier::IdleForecastLimits{});
  CHECK(defaults.reclaim);
  CHECK(defaults.policy == "espalier");
  const File file(
      "[planner]\nlambda = 8\ntrade = 3\nhysteresis = 0.25\nleast_gain = 1.5\nidle_seconds = 60\nreclaim = false\n"
      "idle_forecast = false\npolicy = \"suika\"\n");
  const auto config = load_config(file.path);
  CHECK(config.lambda == 8);
  CHECK(config.hysteresis == 0.25);
  CHECK(config.trade == 3);
  CHECK(config.least_gain == 1.5);
  CHECK(config.idle_seconds == 60);
  CHECK_FALSE(espalier::wire::scheduler_options(config).idle_forecast);
  CHECK_FALSE(config.reclaim);
  CHECK(config.policy == "suika");
}

TEST_CASE("[flextrain] is the policy's, and has the paper's figures as defaults") {
  const auto defaults = load_config(File("").path);
  CHECK_FALSE(espalier::wire::scheduler_options(defaults).flextrain);
  const File file(
      "[planner]\npolicy = \"flextrain-dp\"\n[flextrain]\nmost_times = 2\nleast_probability = 0.8\nwindow_hours = 1.5\n"
      "least_gpus = 8\n");
  const auto options = espalier::wire::scheduler_options(load_config(file.path)).flextrain;
  REQUIRE(options);
  CHECK(options->elasticity == espalier::Elasticity::pipeline_and_data);
  CHECK(options->most_times == 2);
  CHECK(options->least_probability == 0.8);
  CHECK(options->window_seconds == 5400);
  CHECK(options->least_gpus == 8);
  const auto paper =
      espalier::wire::scheduler_options(load_config(File("[planner]\npolicy = \"flextrain\"\n").path)).flextrain;
  REQUIRE(paper);
  CHECK(paper->elasticity == espalier::Elasticity::pipeline);
  CHECK(paper->most_times == 4);
  CHECK(paper->least_probability == 0.6);
  CHECK(paper->window_seconds == 8 * 3600);
  CHECK(paper->least_gpus == 32);
  CHECK(refusal("[flextrain]\nmost_times = 0.5\n") ==
        ":2: flextrain.most_times: must be between 1.000000 and 1000.000000");
  CHECK(refusal("[flextrain]\nleast_probability = 1\n") ==
        ":2: flextrain.least_probability: must be between 0.001000 and 0.999000");
  CHECK(refusal("[flextrain]\nwindow_hours = 25\n") ==
        ":2: flextrain.window_hours: must be between 0.010000 and 24.000000");
  CHECK(refusal("[flextrain]\nleast_gpus = 0\n") == ":2: flextrain.least_gpus: must be between 1 and 1000000");
}

TEST_CASE("a wrong key of the scheduler names file, line and key") {
  CHECK(refusal("[planner]\nlambda = \"bold\"\n") == ":2: planner.lambda: must be a number");
  CHECK(refusal("[planner]\nlambda = -1\n") == ":2: planner.lambda: must be between 0.000000 and 1000.000000");
  CHECK(refusal("[planner]\nlambda = nan\n") == ":2: planner.lambda: must be between 0.000000 and 1000.000000");
  CHECK(refusal("[planner]\ntrial_percent = -1\n") ==
        ":2: planner.trial_percent: must be between 0.000000 and 1000.000000");
  CHECK(refusal("[planner]\nplan_trials = 17\n") == ":2: planner.plan_trials: must be between 0 and 16");
  CHECK(refusal("[planner]\nmigrate_gain = -1\n") ==
        ":2: planner.migrate_gain: must be between 0.000000 and 1000.000000");
  CHECK(refusal("[planner]\ntrade = -1\n") == ":2: planner.trade: must be between 0.000000 and 1000.000000");
  CHECK(refusal("[planner]\nhysteresis = 1.5\n") == ":2: planner.hysteresis: must be between 0.000000 and 1.000000");
  CHECK(refusal("[planner]\nleast_gain = 0.9\n") == ":2: planner.least_gain: must be between 1.000000 and 10.000000");
  CHECK(refusal("[planner]\nidle_seconds = -5\n") ==
        ":2: planner.idle_seconds: must be between 0.000000 and 31536000.000000");
  CHECK(refusal("[planner]\nidle_forecast = 600\n") == ":2: planner.idle_forecast: must be true or false");
  CHECK(refusal("[planner]\nreclaim = 1\n") == ":2: planner.reclaim: must be true or false");
  CHECK(refusal("[planner]\npolicy = 1\n") == ":2: planner.policy: must be a string");
  CHECK(refusal("[planner]\npolicy = \"nearest\"\n") ==
        ":2: planner.policy: must be espalier, suika, flextrain, flextrain-dp or arena");
}

TEST_CASE("[arena] is the policy's, and has the artifact's search depth as default") {
  CHECK_FALSE(espalier::wire::scheduler_options(load_config(File("").path)).arena);
  const auto plain = espalier::wire::scheduler_options(load_config(File("[planner]\npolicy = \"arena\"\n").path));
  REQUIRE(plain.arena);
  CHECK_FALSE(plain.flextrain);
  CHECK_FALSE(plain.as_printed);
  CHECK(plain.arena->search_depth == 10);
  CHECK(plain.arena->migrate_gain == 1.1);
  const File file("[planner]\npolicy = \"arena\"\nmigrate_gain = 1.5\n[arena]\nsearch_depth = 3\n");
  const auto given = espalier::wire::scheduler_options(load_config(file.path)).arena;
  REQUIRE(given);
  CHECK(given->search_depth == 3);
  CHECK(given->migrate_gain == 1.5);
  CHECK(refusal("[arena]\nsearch_depth = 0\n") == ":2: arena.search_depth: must be between 1 and 1000");
}

TEST_CASE("every key of [network] and [gpu.NAME] is read") {
  const File file(
      "[network]\ntp_gb_s = 300\ndp_gb_s = 250.5\nnic_gb_s = 40\nnics = 4\ncrossing = 0.75\nv0_mb = 2\nv_sat_mb = 64\n"
      "[gpu.h100]\ntflops = 800\nmemory_gb = 94\nmemory_bandwidth_gb_s = 3900\n[gpu.\"a b\"]\nmemory_gb = 10\n"
      "nic_gb_s = 5\nnics = 2\n"
      "[planner]\nstore_mb = 64\ntopology_file = \"/etc/slurm/topology.conf\"\n");
  const auto config = load_config(file.path);
  const espalier::HardwareOverrides& hardware = config.hardware;
  CHECK(hardware.tp_gb_s == 300);
  CHECK(hardware.dp_gb_s == 250.5);
  CHECK(hardware.nic_gb_s == 40);
  CHECK(hardware.nics == 4);
  CHECK(hardware.crossing == 0.75);
  CHECK(hardware.v0_mb == 2);
  CHECK(hardware.v_sat_mb == 64);
  CHECK(hardware.gpus.size() == 2);
  CHECK(hardware.gpus.at("h100") == espalier::GpuOverride{800, 94, 3900});
  CHECK(hardware.gpus.at("a b") == espalier::GpuOverride{0, 10, 0, {}, 5, 2});
  CHECK(config.topology_file == "/etc/slurm/topology.conf");
  CHECK(config.store_mb == 64);
}

TEST_CASE("a wrong [network] or [gpu.NAME] names file, line and key") {
  CHECK(refusal("[network]\ntp_gbs = 1\n") == ":2: network.tp_gbs: unknown key; see espalier.toml(5)");
  CHECK(refusal("[network]\ntp_gb_s = \"fast\"\n") == ":2: network.tp_gb_s: must be a number");
  CHECK(refusal("[network]\ntp_gb_s = -1\n") == ":2: network.tp_gb_s: must be between 0.000000 and 100000.000000");
  CHECK(refusal("[network]\ndp_gb_s = inf\n") == ":2: network.dp_gb_s: must be between 0.000000 and 100000.000000");
  CHECK(refusal("[network]\nnic_gb_s = 0\n") == ":2: network.nic_gb_s: must be between 0.001000 and 100000.000000");
  CHECK(refusal("[network]\nnics = 1.5\n") == ":2: network.nics: must be a whole number");
  CHECK(refusal("[network]\nnics = 65\n") == ":2: network.nics: must be between 0 and 64");
  CHECK(refusal("[network]\ncrossing = 1.1\n") == ":2: network.crossing: must be between 0.010000 and 1.000000");
  CHECK(refusal("[network]\nv0_mb = 0\n") == ":2: network.v0_mb: must be between 0.001000 and 10000.000000");
  CHECK(refusal("[network]\nv_sat_mb = nan\n") == ":2: network.v_sat_mb: must be between 0.001000 and 1000000.000000");
  CHECK(refusal("[network]\nv_sat_mb = 1\n") == ": network.v_sat_mb: must be larger than network.v0_mb");
  CHECK(refusal("gpu = 1\n") == ":1: gpu: must be a table");
  CHECK(refusal("[gpu]\nh100 = 1\n") == ":2: gpu.h100: must be a table");
  CHECK(refusal("[gpu.h100]\ntflop = 1\n") == ":2: gpu.h100.tflop: unknown key; see espalier.toml(5)");
  CHECK(refusal("[gpu.h100]\ntflops = 0\n") == ":2: gpu.h100.tflops: must be between 0.001000 and 1000000.000000");
  CHECK(refusal("[gpu.h100]\nmemory_gb = true\n") == ":2: gpu.h100.memory_gb: must be a number");
  CHECK(refusal("[gpu.h100]\nmemory_bandwidth_gb_s = 0\n") ==
        ":2: gpu.h100.memory_bandwidth_gb_s: must be between 0.100000 and 1000000.000000");
  CHECK(refusal("[planner]\nstore_mb = 1\n") == ":2: planner.store_mb: must be between 16 and 1000000");
  CHECK(refusal("[planner]\ntopology_file = 1\n") == ":2: planner.topology_file: must be a string");
}

TEST_CASE("a named file that is missing is an error, the default one is not") {
  CHECK_THROWS_WITH_AS(load_config("/no/such.toml"), "/no/such.toml: cannot be read; check the path and its mode",
                       Error);
}
