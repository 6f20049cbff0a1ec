// `espalier simulate`: its arguments, its files and its output.
#include <doctest/doctest.h>

#include <zlib.h>

#include <iterator>
#include <set>
#include <sstream>

#include "planner/cli/plan_cluster_file.hpp"
#include "planner/cli/simulate_model_table.hpp"
#include "planner/cli/simulate_study.hpp"
#include "planner/cli/simulate_trace_file.hpp"
#include "planner/core/coefficients_json.hpp"
#include "tests/unit/plan_files.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::cli;
using namespace espalier::plan_files;
using namespace espalier::sim_cases;

namespace {

std::vector<std::string> with(std::vector<std::string> more) {
  std::vector<std::string> words{"--cluster=cluster-a", "--trace=t.csv", "--policy=fifo"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

SimulateArguments parsed(const std::vector<std::string>& more) {
  std::string help;
  return *parse_simulate(with(more), help);
}

std::string trace(int jobs) {
  std::string text = "id,submit,seconds,gpus\n";
  for (int i = 0; i < jobs; ++i)
    text += "j" + std::to_string(i) + "," + std::to_string(100 * i) + "," + std::to_string(300 + 37 * i) + "," +
            std::to_string(1 << i % 5) + "\n";
  return text;
}

const std::string kKind = "[[jobs]]\nmodel = \"gpt2-1.3b\"\nsize = \"S\"\npp = 1\ndp = 4\ntp = 1\nglobal_batch = 64\n";

}  // namespace

TEST_SUITE("simulate") {
  TEST_CASE("every argument is read") {
    const SimulateArguments all = parsed({"--format=csv",
                                          "--jobs=k.toml",
                                          "--seed=7",
                                          "--from=2026-01-01T00:00:00",
                                          "--to",
                                          "2e9",
                                          "--trace-gpus=128",
                                          "--scale=0.5",
                                          "--load=2",
                                          "--mix=1:2:3:4",
                                          "--mapping=gpus",
                                          "--queue=sjf",
                                          "--config=e.toml",
                                          "--lambda=0.5",
                                          "--error=0.1",
                                          "--bandwidth=0.5",
                                          "--json",
                                          "--latency",
                                          "--quiet",
                                          "--report=r"});
    CHECK(all.format == "csv");
    CHECK(all.jobs == "k.toml");
    CHECK(all.workload.seed == 7);
    CHECK(all.from == 1767225600);
    CHECK(all.to == 2e9);
    CHECK(all.trace_gpus == 128);
    CHECK(all.workload.scale == 0.5);
    CHECK(all.workload.load == 2);
    CHECK(all.workload.mix == std::array<double, 4>{1, 2, 3, 4});
    CHECK(all.mapping == sim::Mapping::gpus);
    CHECK(all.queue == sim::QueueOrder::sjf);
    CHECK(all.config == "e.toml");
    CHECK(all.lambda == 0.5);
    CHECK(all.prediction_error == 0.1);
    CHECK(all.bandwidth == 0.5);
    CHECK(all.json);
    CHECK(all.latency);
    CHECK(all.quiet);
    CHECK(all.report == "r");
    CHECK(parsed({"--busiest=1d"}).busiest_hours == 24);
    CHECK(parsed({"--busiest=8"}).busiest_hours == 8);
    CHECK(parsed({"--from=2026-01-01"}).from == 1767225600);
    CHECK(parsed({"--short-first=0.25"}).short_first == 0.25);
    CHECK(parsed({"--trade=1.5"}).trade == 1.5);
    CHECK(parsed({"--idle-seconds=120"}).idle_seconds == 120);
    CHECK_FALSE(parsed({}).idle_seconds);
    CHECK(parsed({"--sweep=mix=4:1:1,2:3:3"}).sweep->values == std::vector<std::string>{"4:1:1", "2:3:3"});
    std::string help;
    CHECK(!parse_simulate({"--help"}, help));
    CHECK(help.find("--policy") != std::string::npos);
  }

  TEST_CASE("costs of redeployments are read from the cluster's file") {
    const Folder folder;
    const PlanCluster cluster = read_plan_cluster(
        folder.write("c.toml",
                     "[[nodes]]\nname = \"n1\"\ngpus = 8\ngpu_type = \"h100\"\n[redeploy]\nstart_seconds = "
                     "11\nprofile_seconds = 4\nprofile_steps = 2\nsettle_steps = 6\nstorage_gb_s = 3\n"
                     "local_gb_s = 20\nnetwork_share = 0.7\nswitch_seconds = 2.5\nadopt_switch_seconds = 0.1\n"
                     "[redeploy.adopt]\noverlap_seconds = 9\noverlap_seconds_per_gpu = 0.5\npause_seconds = 0.05\n"
                     "[slurm]\nqueue_seconds = 1.5\nbatch_sched_seconds = 4\nrelease_seconds = 3\nacquire_seconds = "
                     "0.5\nlaunch_seconds = 8\nend_seconds = "
                     "2\npreempt = \"youngest\"\n"));
    CHECK(cluster.delays == sim::Delays{1.5, 4, 3, 0.5, 8, 2, sim::Preemption::youngest});
    CHECK(cluster.redeploy.profile_seconds == 4);
    CHECK(cluster.redeploy.profile_steps == 2);
    CHECK(cluster.redeploy.settle_steps == 6);
    CHECK(cluster.redeploy.start_seconds == 11);
    CHECK(cluster.redeploy.storage_gb_s == 3);
    CHECK(cluster.redeploy.local_gb_s == 20);
    CHECK(cluster.redeploy.network_share == 0.7);
    CHECK(cluster.redeploy.switch_seconds == 2.5);
    CHECK(cluster.redeploy.adopt_switch_seconds == 0.1);
    CHECK(cluster.redeploy.measured ==
          std::map<sim::Method, sim::MeasuredCost>{{sim::Method::adopt, sim::MeasuredCost{9, 0.05, 0.5}}});
  }

  TEST_CASE("a table of kinds is read, and what the cluster cannot hold is noted") {
    const Folder folder;
    const ClusterView cluster = cluster_of(1, 8);
    std::vector<std::string> notes;
    const auto kinds = read_model_table(
        folder.write("jobs.toml", kKind + "sequence = 1024\nutilization = 0.3\nrecompute = true\nzero1 = true\n" +
                                      "[[jobs]]\nmodel = \"llama2-13b\"\nsize = \"L\"\npp = 1\ndp = 4\ntp = 4\n"
                                      "global_batch = 256\n"),
        *site_of(cluster), cluster, notes);
    REQUIRE(kinds.size() == 1);
    CHECK(kinds[0].model == "gpt2-1.3b");
    CHECK(kinds[0].gpus() == 4);
    CHECK(kinds[0].shape.sequence == 1024);
    CHECK(kinds[0].shape.global_batch == 64);
    CHECK(kinds[0].coefficients.zero1);
    CHECK(notes == std::vector<std::string>{"llama2-13b: the cluster is too small for its 16 GPUs"});
  }

  TEST_CASE("names of jobs that are no UTF-8 lose nobody the output") {
    const Folder folder;
    const std::string path = folder.write("t.csv", "id,submit,seconds,gpus\nj\xfc,0,100,1\n");
    const auto json = nlohmann::json::parse(
        simulate({"--cluster=cluster-a", "--trace=" + path, "--policy=fifo", "--json", "--quiet"}));
    CHECK(json["policies"][0]["job_list"][0]["trace_id"] == "j\xef\xbf\xbd");
  }

  TEST_CASE("the planner's settings are those of its configuration, but for what is given") {
    const Folder folder;
    const std::string path = folder.write("t.csv", trace(12));
    const auto changes = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"--cluster=cluster-a", "--trace=" + path, "--policy=espalier", "--json", "--quiet"});
      return nlohmann::json::parse(simulate(more))["policies"][0]["redeployments"].get<int>();
    };
    const std::string never = "--config=" + folder.write("e.toml", "planner.lambda = 0\nplanner.least_gain = 10\n");
    CHECK(changes({}) > 0);
    CHECK(changes({never}) == 0);
    CHECK(changes({"--config=" + folder.write("l.toml", "planner.lambda = 0\n"), "--lambda=1"}) > 0);
    const auto most = [&](const std::string& limit) {
      const auto all = nlohmann::json::parse(
          simulate({"--cluster=cluster-a", "--trace=" + path, "--policy=espalier,sia", "--json", "--quiet",
                    "--config=" + folder.write("m.toml", "extensions.max_gpus = " + limit + "\n")}));
      std::vector<int> gpus;
      for (const auto& policy : all["policies"]) {
        gpus.push_back(0);
        for (const auto& job : policy["job_list"]) gpus.back() = std::max(gpus.back(), job["most_gpus"].get<int>());
      }
      return gpus;
    };
    const auto few = most("16"), many = most("64");
    CHECK(few[0] == 16);
    CHECK(many[0] > 16);
    CHECK(few[1] == many[1]);  // the limit is espalierd's own
    CHECK(
        complaint(folder, [&] {
          simulate({"--cluster=cluster-a", "--trace=" + path, "--policy=espalier", "--config=" + folder.path("none")});
        }) != "accepted");
  }

  TEST_CASE("a trace may be gzipped, and what cannot be read is named") {
    const Folder folder;
    const std::string text = trace(3);
    const std::string plain = folder.write("t.csv", text), packed = folder.path("t.csv.gz");
    gzFile file = gzopen(packed.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    CHECK(read_maybe_gzipped(plain) == text);
    CHECK(read_maybe_gzipped(packed) == text);
    std::filesystem::resize_file(packed, 20);
    CHECK(complaint(folder, [&] { read_maybe_gzipped(packed); }) ==
          "t.csv.gz: is a damaged gzip archive; pack or fetch it again");
    CHECK(complaint(folder, [&] { read_maybe_gzipped(folder.path("none")); }) ==
          "none: cannot be read: No such file or directory; name a file of jobs");
    CHECK(complaint(folder, [&] { read_maybe_gzipped(folder.path("")); }) == ": is a folder; name a file of jobs");
  }

  TEST_CASE("the JSON is the same bytes each time, and has what people read") {
    const Folder folder;
    const std::string path = folder.write("t.csv", trace(12) + "bad,row\n");
    const std::vector<std::string> words{"--cluster=cluster-a", "--trace=" + path, "--policy=fifo,suika,espalier",
                                         "--json", "--quiet"};
    const std::string first = simulate(words);
    CHECK(first == simulate(words));
    const auto json = nlohmann::json::parse(first);
    CHECK(json["jobs"] == 12);
    CHECK(json["damaged_rows"] == nlohmann::json::parse(R"([{"line": 14, "why": "2 columns instead of 4"}])"));
    REQUIRE(json["policies"].size() == 3);
    CHECK(json["policies"][0]["avg_jct_speedup_over_fifo"] == 1);
    CHECK(json["policies"][0]["job_list"].size() == 12);
    for (const char* key : {"policy", "avg_jct_s", "weighted_jct_s", "makespan_s", "utilization", "redeployments",
                            "lost_gpu_hours", "worst_delay_s", "avg_queueing_s"})
      CHECK(json["policies"][1].contains(key));
    CHECK(!json["policies"][1].contains("decision_latency_s"));
    CHECK(json["policies"][1]["avg_jct_s"].get<double>() < json["policies"][0]["avg_jct_s"].get<double>());
  }

  TEST_CASE(
      "under --queue=slurm the JSON tells what the queue weighs, time limits, and who orders each policy's jobs") {
    const Folder folder;
    const std::string path = folder.write("t.csv", trace(12));
    const auto with = [&](std::vector<std::string> more) {
      const std::vector<std::string> words{"--cluster=cluster-a", "--trace=" + path, "--json", "--quiet",
                                           "--policy=slurm,espalier,elasticflow,sia"};
      more.insert(more.begin(), words.begin(), words.end());
      return nlohmann::json::parse(simulate(more));
    };
    const auto json = with({"--queue=slurm"});
    CHECK(json["queue"] == "slurm");
    CHECK(json["slurm"] == nlohmann::json::parse(R"({"priority_weight_age": 1000, "priority_weight_job_size": 1000,
      "priority_max_age_s": 1209600, "priority_favor_small": false, "bf_interval_s": 30, "bf_max_job_test": 500})"));
    std::map<std::string, std::string> orders;
    for (const auto& policy : json["policies"]) {
      orders[policy["policy"]] = policy["order"];
      CHECK(policy["job_list"].size() == 12);
      for (const auto& job : policy["job_list"]) CHECK(job["time_limit_s"].get<double>() > 0);
    }
    CHECK(orders == std::map<std::string, std::string>{
                        {"slurm", "slurm"}, {"espalier", "slurm"}, {"elasticflow", "own, slurm"}, {"sia", "own"}});
    const auto fifo = with({});
    CHECK(fifo["queue"] == "fifo");
    CHECK(!fifo.contains("slurm"));
    CHECK(fifo["policies"][1]["order"] == "fifo");
  }

  TEST_CASE("jct is the default objective, and a seed decides the deadlines") {
    const Folder folder;
    const std::string path = folder.write("t.csv", trace(12));
    const auto with = [&](std::vector<std::string> more) {
      const std::vector<std::string> words{"--cluster=cluster-a", "--trace=" + path, "--policy=espalier", "--json",
                                           "--quiet"};
      more.insert(more.begin(), words.begin(), words.end());
      return simulate(more);
    };
    CHECK(with({}) == with({"--objective=jct"}));
    CHECK(!nlohmann::json::parse(with({}))["policies"][0].contains("deadlines_kept"));
    CHECK(nlohmann::json::parse(with({}))["policies"][0]["worst_rho"] > 0);
    std::set<std::string> results;
    for (const std::string kind : {"throughput", "jct", "deadline", "fairness"}) {
      const std::string text = with({"--objective=" + kind, "--deadlines=0.5:1.5"});
      CHECK(text == with({"--objective=" + kind, "--deadlines=0.5:1.5"}));
      const double kept = nlohmann::json::parse(text)["policies"][0]["deadlines_kept"];
      CHECK(kept >= 0);
      CHECK(kept <= 1);
      results.insert(text);
    }
    CHECK(results.size() > 1);
    CHECK(with({"--deadlines=0.5:1.5"}) != with({"--deadlines=0.5:1.5", "--seed=2"}));
  }

  TEST_CASE("arena starts a job that fits on its own type with more GPUs than others get at most") {
    const Folder folder;
    // 15 billion parameters on GPUs of 24 GB, by powers of two: 32 of them.
    const std::string path =
        folder.write("t.csv", "id,submit,seconds,gpus,model,steps,gpu_type\n1,0,600,16,gpt2-15b,,a10\n");
    const auto json = nlohmann::json::parse(
        simulate({"--cluster=cluster-arena", "--trace=" + path, "--quiet", "--policy=arena", "--json"}));
    REQUIRE(json["policies"].size() == 1);
    CHECK(json["policies"][0]["avg_jct_s"].get<double>() > 0);
  }

  TEST_CASE("the bound is a row, a column and a figure, and stands alone too") {
    const Folder folder;
    const std::string path = folder.write("t.csv", trace(6));
    const std::vector<std::string> words{"--cluster=cluster-a", "--trace=" + path, "--quiet"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), words.begin(), words.end());
      return simulate(more);
    };
    CHECK(with({"--policy=bound"}).find("\nbound ") != std::string::npos);
    CHECK(with({"--policy=fifo,bound"}).find("over bound") != std::string::npos);
    CHECK(with({"--policy=fifo"}).find("bound") == std::string::npos);
    const auto json = nlohmann::json::parse(with({"--policy=fifo,bound,espalier", "--json"}));
    REQUIRE(json["policies"].size() == 2);
    const double bound = json["bound"]["avg_jct_s"];
    CHECK(bound == std::max(json["bound"]["one_machine_s"].get<double>(), json["bound"]["alone_s"].get<double>()));
    for (const auto& one : json["policies"]) {
      CHECK(one["avg_jct_over_bound"] >= 1);
      CHECK(one["avg_jct_s"].get<double>() ==
            doctest::Approx(bound * one["avg_jct_over_bound"].get<double>()).epsilon(0.001));
    }
  }

  TEST_CASE("the table tells damaged rows by line, and a sweep has a line for each value") {
    const Folder folder;
    const std::string path = folder.write("t.csv", trace(6) + "bad,row\n");
    const std::vector<std::string> words{"--cluster=cluster-a", "--trace=" + path, "--policy=fifo,suika", "--quiet"};
    const std::string table = simulate(words);
    CHECK(table.find("1 damaged row of the trace skipped:\n  line 8: 2 columns instead of 4\n") != std::string::npos);
    CHECK(table.find("\nsuika ") != std::string::npos);
    auto swept = words;
    swept.push_back("--sweep=load=1,2");
    const std::string text = simulate(swept);
    CHECK(text.find("\nload ") != std::string::npos);
    CHECK(text.find("\n2 ") != std::string::npos);
    CHECK(text.find("bound") == std::string::npos);
  }

  TEST_CASE("a sweep's table tells the bound of each value, and how far each policy is from it") {
    const Folder folder;
    const std::string path = folder.write("t.csv", trace(6));
    const std::vector<std::string> words{"--cluster=cluster-a", "--trace=" + path, "--quiet", "--sweep=load=1,2"};
    const auto lines_of = [&](const std::string& policies) {
      auto asked = words;
      asked.push_back("--policy=" + policies);
      std::istringstream text(simulate(asked));
      std::vector<std::vector<std::string>> lines;
      for (std::string line; std::getline(text, line);) {
        std::istringstream columns(line);
        lines.emplace_back(std::istream_iterator<std::string>(columns), std::istream_iterator<std::string>());
      }
      return std::vector(lines.end() - 3, lines.end());
    };
    const auto both = lines_of("fifo,bound");
    CHECK(both[0] == std::vector<std::string>{"load", "bound", "fifo", "vs", "fifo", "over", "bound"});
    for (const std::size_t line : {1UL, 2UL}) {
      // The value, the bound and its unit, fifo's average and its unit, against fifo, over the bound.
      REQUIRE(both[line].size() == 7);
      CHECK(std::stod(both[line][1]) > 0);
      CHECK(std::stod(both[line][6]) >= 1);
    }
    const auto alone = lines_of("bound");
    CHECK(alone[0] == std::vector<std::string>{"load", "bound"});
    CHECK(alone[1] == std::vector<std::string>(both[1].begin(), both[1].begin() + 3));
  }

  TEST_CASE("without --movable nothing tells of bases, and with it the table and each job do") {
    const Folder folder;
    const std::string file = folder.write("t.csv", trace(12));
    const auto study_of = [&](const std::vector<std::string>& more) {
      std::string help;
      std::vector<std::string> words{"--cluster=cluster-a", "--trace=" + file, "--policy=fifo,espalier",
                                     "--queue=backfill"};
      words.insert(words.end(), more.begin(), more.end());
      return run_study(*parse_simulate(words, help), [](const std::string&, double) {});
    };
    const Study without = study_of({}), none = study_of({"--movable=0"}), all = study_of({"--movable=1"});
    CHECK(study_json(without).dump() == study_json(none).dump());
    CHECK(study_json(none).dump().find("movable") == std::string::npos);
    CHECK(study_table(none).find("smaller starts") == std::string::npos);
    const auto json = study_json(all);
    CHECK(json["movable_jobs"] == 12);
    CHECK(json["policies"][0].dump() != json["policies"][1].dump());
    for (const auto& job : json["policies"][1]["job_list"]) {
      CHECK(job["movable"] == true);
      CHECK(job["started_smaller"].is_boolean());
      CHECK(job["moves"].is_number_integer());
    }
    for (const auto& job : json["policies"][0]["job_list"]) CHECK(job["started_smaller"] == false);
    CHECK(study_table(all).find("smaller starts  base moves") != std::string::npos);
    SimulateArguments swept;
    set_swept(swept, "movable", "0.25");
    CHECK(swept.workload.movable_share == 0.25);
  }

  TEST_CASE("a trace without a job to simulate says what became of its rows") {
    const Folder folder;
    const auto refused = [&](const std::string& rows, const std::vector<std::string>& more = {}) {
      const std::string path = folder.write("t.csv", "id,submit,seconds,gpus\n" + rows);
      std::vector<std::string> words{"--cluster=cluster-a", "--trace=" + path, "--policy=fifo", "--quiet"};
      words.insert(words.end(), more.begin(), more.end());
      return complaint(folder, [&] { simulate(words); });
    };
    CHECK(refused("") == "t.csv: holds no job to simulate; it has no rows");
    CHECK(refused("a,soon,10,1\nb,1,10,x\n") ==
          "t.csv: holds no job to simulate; of its rows 2 are damaged (line 2: submit \"soon\" is no time; line 3: "
          "gpus \"x\" is no number)");
    CHECK(refused("a,1,10,0\nb,1,10\n") ==
          "t.csv: holds no job to simulate; of its rows 1 was left out (no GPUs, not ended, or steps) and 1 is damaged "
          "(line 3: 3 columns instead of 4)");
    CHECK(refused("a,2026-01-01,10,1\nb,1,10\n", {"--from=2026-01-02"}) ==
          "workload: no job of the trace was submitted in the time that is to be simulated; choose another; of the "
          "trace's rows 1 is damaged (line 3: 3 columns instead of 4)");
  }

  TEST_CASE("a trace that is none is an error that names the file") {
    const Folder folder;
    const std::string path = folder.write("t.csv", "hello\n");
    CHECK(complaint(folder, [&] {
            simulate({"--cluster=cluster-a", "--trace=" + path, "--policy=fifo", "--quiet"});
          }) == "t.csv: its first line is that of no known format of traces; name it by --format");
  }
}
