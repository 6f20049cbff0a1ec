// Clusters with several types of GPUs: basic plans, the base queue, what jobs ask for, measured times.
#include <doctest/doctest.h>

#include <map>

#include "planner/cli/preset_clusters.hpp"
#include "planner/sim/base_queue.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/profile_kinds.hpp"
#include "planner/sim/workload.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

// One node of 4 A100 and one of 4 V100, which are slower.
ClusterView two_types() {
  ClusterView cluster = cluster_of(2, 4);
  cluster.nodes[0].gpu_type = "v100";
  cluster.nodes[1].gpu_type = "a100";
  return cluster;
}

int type_named(const Site& site, const std::string& name) { return site.hardware.type_index(name); }

struct Mixed : World {
  explicit Mixed(std::vector<int> degrees = {1}) : World(1, 4) {
    cluster = two_types();
    site = site_of(cluster);
    kinds.clear();
    for (const int dp : degrees) kinds.push_back(small_kind(*site, cluster, dp));
  }
  void ask(std::size_t job, const std::string& type, bool any = false) {
    jobs[job].type = type_named(*site, type);
    jobs[job].any_type = any;
  }
};

const std::string kProfile =
    "source,model,params,global_batch,gpu_type,gpus_per_node,num_gpus,is_dp_only,feasible,iter_time_s,dp_mem_ok\r\n"
    "alpa_optimal,bert,1.3B,64,a100,2,2,,1,4.0,1\r\n"
    "alpa_optimal,bert,1.3B,64,a100,4,4,,1,2.0,1\r\n"
    "alpa_optimal,bert,1.3B,64,v100,4,4,,1,8.0,0\r\n"
    "alpa_optimal,bert,1.3B,64,v100,2,2,,0,99.0,0\r\n"
    "alpa_optimal,bert,1.3B,64,h100,4,4,,1,1.0,1\r\n"
    "arena_estimate,bert,1.3B,64,a100,4,4,1,1,2.5,1\r\n"
    "arena_estimate,bert,1.3B,64,a100,4,4,0,1,2.2,1\r\n";

// Tells what is known of each job when it decides, by the job's id and the time in whole seconds.
class Noting final : public sim::Policy {
 public:
  using Known = std::map<JobId, std::map<int, JobCoefficients>>;
  explicit Noting(Known& known, std::function<std::vector<sim::Act>(const sim::SimulatedView&)> acts = nullptr)
      : known_(known), acts_(std::move(acts)) {}
  std::string name() const override { return "noting"; }
  bool keeps_basic() const override { return true; }
  bool shares_profiles() const override { return true; }
  sim::Method redeployment() const override { return sim::Method::adopt; }
  std::vector<sim::Act> decide(const sim::SimulatedView& view) override {
    for (const auto& [job, coefficients] : view.input.coefficients)
      known_[job][static_cast<int>(view.input.now)] = coefficients;
    return acts_ ? acts_(view) : std::vector<sim::Act>{};
  }

 private:
  Known& known_;
  std::function<std::vector<sim::Act>(const sim::SimulatedView&)> acts_;
};

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("what one job measured counts for others of its kind where profiles are shared, and never for the papers") {
    sim::PolicyOptions options;
    CHECK(sim::make_policy("espalier", options)->shares_profiles());
    CHECK_FALSE(sim::make_policy("suika", options)->shares_profiles());
    options.share_profiles = false;
    CHECK_FALSE(sim::make_policy("espalier", options)->shares_profiles());
  }

  TEST_CASE("cluster-arena has 1,280 GPUs in four types") {
    const auto preset = cli::preset_cluster("cluster-arena");
    REQUIRE(preset);
    std::map<std::string, int> gpus;
    for (const NodeView& node : preset->view.nodes) gpus[node.gpu_type] += static_cast<int>(node.gpu_owner.size());
    CHECK(gpus == std::map<std::string, int>{{"a10", 320}, {"a100", 320}, {"a40", 320}, {"v100", 320}});
    const Site site = site_from_view(preset->view, {}, preset->hardware).site;
    CHECK(site.hardware.types[static_cast<std::size_t>(site.hardware.type_index("v100"))].memory_bytes == 32e9);
    const int slow = site.topology.find("a40-1"), fast = site.topology.find("a10-1");
    CHECK(site.hardware.kinds[static_cast<std::size_t>(site.topology.kind(fast))].nic_bandwidth ==
          2 * site.hardware.kinds[static_cast<std::size_t>(site.topology.kind(slow))].nic_bandwidth);
    CHECK(cli::preset_cluster("cluster-arena-a")->view.nodes.size() == 32);
    CHECK(cli::preset_cluster("cluster-arena-b")->view.nodes.size() == 32);
    CHECK_FALSE(cli::preset_cluster("cluster-arena-c"));
  }

  TEST_CASE("a kind has a basic plan on each type, the fastest first") {
    const Mixed mixed;
    REQUIRE(mixed.kinds[0].on.size() == 2);
    CHECK(mixed.kinds[0].on[0].gpu_type == "a100");
    CHECK(mixed.kinds[0].on[0].step_seconds < mixed.kinds[0].on[1].step_seconds);
    CHECK(mixed.kinds[0].step_seconds == mixed.kinds[0].on[0].step_seconds);
  }

  TEST_CASE("where the submitted plan does not fit a type, another plan of as many GPUs does") {
    const auto preset = cli::preset_cluster("cluster-arena");
    ClusterView cluster = preset->view;
    const Site site = site_from_view(cluster, {}, preset->hardware).site;
    const auto kinds = sim::paper_kinds(site, cluster);
    const auto found =
        std::find_if(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.model == "llama2-7b"; });
    REQUIRE(found != kinds.end());
    // Its groups of two GPUs with a quarter of the state each are too large for 24 GB.
    const sim::BasicPlan* small = found->on_type("a10");
    REQUIRE(small != nullptr);
    CHECK(small->pp * small->dp * small->tp == 8);
    CHECK(small->pp > 1);
  }

  TEST_CASE("the paper's models have other plans on a cluster of one small type, or are left out, and notes tell it") {
    ClusterView cluster = cluster_of(8, 8);
    for (NodeView& node : cluster.nodes) node.gpu_type = "v100";
    std::vector<std::string> notes;
    const auto kinds = sim::paper_kinds(*site_of(cluster), cluster, &notes);
    const auto named = [&](const std::string& model) {
      return std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.model == model; });
    };
    const auto noted = [&](const std::string& text) {
      return std::any_of(notes.begin(), notes.end(),
                         [&](const std::string& note) { return note.find(text) != std::string::npos; });
    };
    // 2.6 billion parameters take 42 GB of states, and a V100 has 16 GB.
    const auto split = named("gpt2-2.6b");
    REQUIRE(split != kinds.end());
    CHECK(split->gpus() == 4);
    CHECK(split->dp < 4);
    CHECK(noted("gpt2-2.6b: pp1 dp4 tp1, the paper's plan, does not fit; it has pp"));
    // 39 billion parameters do not fit into 32 times 16 GB.
    CHECK(named("gpt2-39b") == kinds.end());
    CHECK(noted("gpt2-39b: left out"));
    CHECK(named("gpt2-350m") != kinds.end());
    CHECK_FALSE(noted("gpt2-350m"));
  }

  TEST_CASE("a job of any type starts on the fastest type that is free, and one that asks for a type waits for it") {
    Mixed mixed({4});
    for (int i = 0; i < 3; ++i) mixed.add(i, 1000);
    mixed.ask(2, "a100");
    const auto policy = sim::make_policy("fifo");
    const sim::PolicyRun run = mixed.run(*policy);
    CHECK(run.jobs[0].start == 0);
    CHECK(run.jobs[1].start == 1);
    // The second job runs on the slower node, so that it takes longer.
    CHECK(run.jobs[1].jct() > 1.5 * run.jobs[0].jct());
    CHECK(run.jobs[2].start == doctest::Approx(run.jobs[0].end));
  }

  TEST_CASE("Slurm preempts for a waiting job on one type, and not on the next one as well while extensions end") {
    Mixed mixed;
    for (int i = 0; i < 5; ++i) mixed.add(0, 1000);
    mixed.add(100, 10);
    mixed.add(103, 10);  // Slurm looks at the queue again, while the extension of job 1 ends
    mixed.ask(1, "a100");
    for (const std::size_t job : {2UL, 3UL, 4UL}) mixed.ask(job, "v100");
    sim::JobKind four = mixed.kinds[0];
    four.dp = 4;
    const Plan wide = sim::basic_plan(four, {{"n2", 0}, {"n2", 2}, {"n2", 3}, {"n1", 3}});
    std::vector<Holding> kept;
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (view.input.now > 103 && view.input.now < 120) kept = view.input.jobs[0].extensions;
      if (view.input.now < 15 || view.input.now > 60 || view.jobs[0]->redeploying) return {};
      if (!view.input.jobs[0].extensions.empty()) return {};
      return {{1, wide, "", {}}};
    });
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::adopt;
    mixed.options.redeploy.profile_seconds = 15;
    mixed.options.redeploy.measured[sim::Method::adopt] = {10, 1};
    mixed.options.delays.preempt = sim::Preemption::oldest;
    const sim::PolicyRun run = mixed.run(policy);
    REQUIRE(kept.size() == 1);
    CHECK(kept[0].node == "n1");
    CHECK(run.jobs[0].redeployments == 2);  // it grew, and gave back once
    CHECK(run.jobs[5].start == doctest::Approx(111).epsilon(0.02));
    CHECK(run.jobs[6].start == run.jobs[5].start);
  }

  TEST_CASE("a profile on one GPU type makes later jobs of the kind known there, and not on another type") {
    Mixed mixed;
    mixed.add(0, 1000);
    mixed.add(100, 1000);
    mixed.add(200, 1000);
    mixed.ask(0, "a100");
    mixed.ask(1, "v100");
    mixed.ask(2, "a100");
    mixed.options.redeploy.profile_seconds = 15;
    Noting::Known known;
    Noting policy(known);
    const sim::PolicyRun run = mixed.run(policy);
    const auto first_known = [&](JobId job) { return known.at(job).begin()->first; };
    CHECK(first_known(1) == static_cast<int>(run.jobs[0].start) + 15);
    CHECK(first_known(2) == static_cast<int>(run.jobs[1].start) + 15);
    CHECK(first_known(3) == static_cast<int>(run.jobs[2].start));
    const auto a100 = static_cast<std::size_t>(type_named(*mixed.site, "a100"));
    const auto v100 = static_cast<std::size_t>(type_named(*mixed.site, "v100"));
    // The first one has seen one type only. The third one knows what both before it have seen.
    const JobCoefficients& one = known.at(1).begin()->second;
    CHECK_FALSE(one.gpu[a100].assumed_comp);
    CHECK(one.gpu[v100].assumed_comp);
    CHECK(one.gpu[v100].assumed_optim);
    CHECK_FALSE(known.at(3).begin()->second.gpu[a100].assumed_comp);
    CHECK_FALSE(known.at(3).begin()->second.gpu[v100].assumed_comp);
  }

  TEST_CASE("a job that grows to GPUs of another type is profiled there") {
    Mixed mixed;
    const auto a100 = static_cast<std::size_t>(type_named(*mixed.site, "a100"));
    const auto v100 = static_cast<std::size_t>(type_named(*mixed.site, "v100"));
    mixed.add(0, 1000);
    mixed.ask(0, "a100");
    SUBCASE("after some seconds") { mixed.options.redeploy.profile_seconds = 15; }
    SUBCASE("after some steps") {
      mixed.options.redeploy.profile_seconds = 15;
      mixed.options.redeploy.settle_steps = 5;
    }
    sim::JobKind two = mixed.kinds[0];
    two.dp = 2;
    const Plan wide = sim::basic_plan(two, {{"n2", 0}, {"n1", 0}});
    double asked = 0;
    Noting::Known known;
    Noting policy(known, [&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (asked > 0 || view.input.now < 300 || view.jobs[0]->redeploying || view.jobs[0]->plan->gpu_count() > 1)
        return {};
      asked = view.input.now;
      return {{1, wide, "", {}}};
    });
    mixed.add(300, 10);  // an event at which the policy decides
    mixed.ask(1, "a100");
    mixed.run(policy);
    REQUIRE(asked > 0);
    const JobCoefficients& before = known.at(1).begin()->second;
    const JobCoefficients& after = known.at(1).rbegin()->second;
    CHECK(before.gpu[v100].assumed_comp);
    CHECK_FALSE(after.gpu[v100].assumed_comp);
    CHECK(after.gpu[a100] == before.gpu[a100]);
  }

  TEST_CASE("the first job that does not fit is shown with the nodes of the type on which it starts first") {
    Mixed mixed({4});
    mixed.cluster.nodes[0].gpu_owner = {7, 7, 7, 7};
    mixed.cluster.nodes[1].gpu_owner = {9, 9, 9, 9};
    sim::SimulatedJob job{1, 0, 0, 10, {}};
    sim::SimulatedJobState state;
    state.id = 1;
    state.job = &job;
    state.kind = &mixed.kinds[0];
    sim::BaseQueue queue(sim::QueueOrder::fifo);
    queue.add(state);
    const auto shown = [&] {
      return sim::shown_waiting(queue, mixed.cluster, {}, 0, [](JobId id) { return 100.0 * id; });
    };
    CHECK(shown()[0].expected_start == 700);
    CHECK(shown()[0].only_nodes == std::vector<std::string>{"n1"});
    job.type = type_named(*mixed.site, "a100");
    CHECK(shown()[0].expected_start == 900);
    CHECK(shown()[0].only_nodes == std::vector<std::string>{"n2"});
  }

  TEST_CASE("only policies that choose types move a job off the type that it prefers, and none if it insists") {
    for (const std::string name : {"fifo", "elasticflow", "gavel", "sia", "arena"})
      for (const bool any : {false, true}) {
        CAPTURE(name);
        CAPTURE(any);
        Mixed mixed({1});
        mixed.add(0, 4000);
        mixed.ask(0, "v100", any);
        const auto policy = sim::make_policy(name);
        const double jct = mixed.run(*policy).jobs[0].jct();
        const double ratio = mixed.kinds[0].on_type("v100")->step_seconds / mixed.kinds[0].step_seconds;
        if (name == "fifo") CHECK(jct == doctest::Approx(4000 * ratio));
        // Four V100 together are slower than four A100, which nobody else wants.
        if (policy->chooses_types() && any) CHECK(jct < 4000 * ratio / 2);
      }
  }

  TEST_CASE("the type that a trace names is asked for, preferred or left out") {
    const Mixed mixed;
    const sim::Trace trace = sim::parse_trace(
        "id,submit,seconds,gpus,gpu_type\na,1,60,1,V100\nb,2,60,1,\nc,3,60,1,b200\n", sim::TraceFormat::csv);
    REQUIRE(trace.jobs.size() == 3);
    sim::WorkloadOptions options;
    options.mapping = sim::Mapping::gpus;
    const int v100 = type_named(*mixed.site, "v100");
    auto workload = sim::make_workload(trace, mixed.kinds, 8, options);
    CHECK(workload.jobs[0].type == v100);
    CHECK_FALSE(workload.jobs[0].any_type);
    CHECK(workload.jobs[1].type == -1);
    CHECK(workload.jobs[2].type == -1);  // the cluster has no such type
    // Its run time counts on the type that it asked for.
    CHECK(workload.jobs[0].iterations * mixed.kinds[0].on_type("v100")->step_seconds == doctest::Approx(60));
    options.types = sim::AskedTypes::preferred;
    CHECK(sim::make_workload(trace, mixed.kinds, 8, options).jobs[0].any_type);
    options.types = sim::AskedTypes::any;
    CHECK(sim::make_workload(trace, mixed.kinds, 8, options).jobs[0].type == -1);
  }

  TEST_CASE(
      "a table of times gives a kind for each model and count, with the times of the types that the cluster has") {
    const ClusterView cluster = two_types();
    const auto kinds = sim::profile_kinds(kProfile, *site_of(cluster), cluster);
    REQUIRE(kinds.size() == 2);
    CHECK(kinds[0].model == "bert-1.3B-64");
    CHECK(kinds[0].gpus() == 2);
    CHECK(kinds[0].on.size() == 1);  // on two V100 it cannot run
    CHECK(kinds[1].gpus() == 4);
    CHECK(kinds[1].step_seconds == 2);
    CHECK(kinds[1].on_type("v100")->step_seconds == 8);
    const sim::SpeedTable& table = *kinds[1].measured;
    const int a100 = kinds[1].on_type("a100")->type, v100 = kinds[1].on_type("v100")->type;
    CHECK(table.data_parallel(a100, 4) == 2.5);
    CHECK(table.data_parallel(a100, 2) == 4);  // replicas fit and were not estimated
    CHECK(table.data_parallel(v100, 4) == 0);
    CHECK(table.seconds(v100, 2, 2) == 0);
    CHECK(table.seconds(a100, 4, 2) == doctest::Approx(2 / 0.9));  // a wider spread that was not measured
    CHECK(table.counts(a100) == std::vector<int>{2, 4});
  }

  TEST_CASE("a wrong table of times is told by line and reason") {
    const ClusterView cluster = two_types();
    const auto site = site_of(cluster);
    const auto refusal = [&](const std::string& text) {
      return error_of([&] { sim::profile_kinds(text, *site, cluster); });
    };
    const std::string head = kProfile.substr(0, kProfile.find('\n') + 1);
    CHECK(refusal("source,model\n") == "line 1: no column params; see espalier-simulate(1)");
    CHECK(refusal(head) == "no row is of a GPU type of this cluster; name one of its types in gpu_type");
    CHECK(refusal(head + "alpa_optimal,bert\n") == "line 2: has 2 fields");
    CHECK(refusal(head + "alpa_optimal,bert,big,64,a100,2,2,,1,4.0,1\n") ==
          "line 2: params \"big\" is no size; write 1.3B or 760M");
    CHECK(refusal(head + "alpa_optimal,bert,1.3B,64,a100,2,0,,1,4.0,1\n").find("line 2: global_batch, num_gpus") == 0);
    CHECK(refusal(head + "alpa_optimal,bert,1.3B,64,a100,2,2,,1,-1,1\n").find("line 2: ") == 0);
  }

  TEST_CASE("measured jobs do the trace's iterations, and get more GPUs of a type where so few cannot run") {
    const ClusterView cluster = two_types();
    const auto site = site_of(cluster);
    const auto kinds = sim::profile_kinds(kProfile, *site, cluster);
    const sim::Trace trace = sim::parse_trace(
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type\n"
        "x,10,300,bert__1.3B,99,64,2,v100\ny,20,100,bert__1.3B,99,64,2,a100\n",
        sim::TraceFormat::arena);
    sim::WorkloadOptions sampled;
    sampled.mapping = sim::Mapping::gpus;
    const auto workload = sim::make_workload(trace, kinds, 8, sampled);
    CHECK(workload.adapted == 1);
    CHECK(kinds[workload.jobs[0].kind].gpus() == 4);
    CHECK(workload.jobs[0].iterations == 300);
    CHECK(kinds[workload.jobs[1].kind].gpus() == 2);
    sim::SimulationOptions options;
    options.redeploy.search_seconds_per_gpu = 10;
    options.redeploy.search_most_seconds = 30;
    const auto fifo = sim::make_policy("fifo");
    const sim::PolicyRun run = sim::simulate(site, cluster, kinds, workload.jobs, *fifo, options);
    CHECK(run.jobs[0].jct() == doctest::Approx(300 * 8.0 + 30));
    CHECK(run.jobs[1].jct() == doctest::Approx(100 * 4.0 + 20));
    const auto espalier = sim::make_policy("espalier");
    CHECK(error_of([&] {
            sim::simulate(site, cluster, kinds, workload.jobs, *espalier, options);
          }).find("espalier: plans by the performance model") == 0);
    for (const std::string name : {"elasticflow", "gavel", "sia", "rubick", "arena"}) {
      CAPTURE(name);
      const auto policy = sim::make_policy(name);
      CHECK(sim::simulate(site, cluster, kinds, workload.jobs, *policy, options).jobs[1].end > 0);
    }
  }
}
