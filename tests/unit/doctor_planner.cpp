#include "tests/unit/doctor_cases.hpp"

using namespace espalier;
using namespace espalier::cli::doctor;
using namespace espalier::cli::doctor::cases;

namespace {
template <class Break>
Finding broken(const char* check, Break breaks) {
  return after(check, [&](Facts& facts, Slurm&) { breaks(facts); });
}
}  // namespace

TEST_CASE("doctor: espalier.toml that is wrong or not there") {
  const Finding wrong = broken("espalier.toml", [](Facts& f) { f.config_problem = "/x:3: planner.prot: unknown key"; });
  CHECK(wrong.verdict == Verdict::fault);
  CHECK(says(wrong, "planner.prot"));
  CHECK(broken("espalier.toml", [](Facts& f) { f.config_there = false; }).verdict == Verdict::warning);
}

TEST_CASE("doctor: espalierd that does not answer, is cut off from Slurm, or only looks on") {
  const Finding away = broken("espalierd", [](Facts& f) { f.ping = Learned<Json>::unknown("connection refused"); });
  CHECK(away.verdict == Verdict::fault);
  CHECK(says(away, "connection refused"));
  CHECK(advises(away, "", "systemctl enable --now /opt/espalier/lib/systemd/system/espalierd.service"));
  const Finding alone = broken("espalierd", [](Facts& f) { (*f.ping.value)["slurm"] = "Unable to contact"; });
  CHECK(alone.verdict == Verdict::fault);
  CHECK(says(alone, "Unable to contact"));
  CHECK(broken("espalierd", [](Facts& f) { (*f.ping.value)["shadow"] = true; }).verdict == Verdict::warning);
  CHECK(broken("espalierd-version", [](Facts& f) { (*f.ping.value)["version"] = "0.0.1"; }).verdict ==
        Verdict::warning);
}

TEST_CASE("doctor: where launchers look for espalierd") {
  const Finding local = broken("planner-host", [](Facts& f) { f.config.planner_host = "localhost"; });
  CHECK(local.verdict == Verdict::fault);
  CHECK(advises(local, kToml, "host = \"ctl\"", "[planner]"));
  const Finding single = after("planner-host", [](Facts& facts, Slurm& slurm) {
    facts.config.planner_host = "localhost";
    facts.host = "n1";
    slurm.nodes.resize(1);
  });
  CHECK(single.verdict == Verdict::ok);
  const Finding port = broken("planner-port", [](Facts& f) { f.network_ping = Learned<Json>::unknown("timed out"); });
  CHECK(port.verdict == Verdict::fault);
  CHECK(says(port, "ctl:7321"));
}

TEST_CASE("doctor: settings that espalierd and this host do not share") {
  const Finding differ =
      broken("same-settings", [](Facts& f) { (*f.planner_config.value)["extensions.partition"] = "lent"; });
  CHECK(differ.verdict == Verdict::warning);
  CHECK(says(differ, "extensions.partition is \"lent\" there and \"elastic\" here"));
}

TEST_CASE("doctor: links between nodes that nobody has measured") {
  const auto unmeasured = [](Facts& facts) {
    (*facts.planner_config.value)["network.measured"] = nullptr;
    (*facts.planner_config.value)["network.nic_gb_s"] = 10.0;
  };
  const Finding guessed = broken("bandwidths", unmeasured);
  CHECK(guessed.verdict == Verdict::warning);
  CHECK(says(guessed, "10.0 GB/s"));
  CHECK(advises(guessed, "", "espalier calibrate  # minutes, as an ordinary job; then: systemctl reload espalierd"));
  const Finding given = broken("bandwidths", [&](Facts& facts) {
    unmeasured(facts);
    (*facts.planner_config.value)["network.nic_gb_s"] = 24.5;
  });
  CHECK(given.verdict == Verdict::ok);
  CHECK(says(given, "nic_gb_s = 24.5"));
  CHECK(says(broken("bandwidths", [](Facts&) {}), "measured on 2026-11-01"));
  const Finding single = after("bandwidths", [&](Facts& facts, Slurm& slurm) {
    unmeasured(facts);
    slurm.nodes.resize(1);
  });
  CHECK(single.verdict == Verdict::ok);
}

TEST_CASE("doctor: whether users can submit into the partition for extensions") {
  const Finding open = broken("extension-grants", [](Facts&) {});
  CHECK(open.verdict == Verdict::ok);
  CHECK(says(open, "users can submit into partition elastic without Espalier, as far as its MaxTime and QOS espalier"));
  const auto bound = [](const std::string& qos, const std::string& enforced) {
    return after("extension-grants", [&](Facts&, Slurm& slurm) {
      slurm.partitions[1].qos = qos;
      slurm.settings["AccountingStorageEnforce"] = enforced;
    });
  };
  const Finding unbound = bound("", "associations,limits,qos");
  CHECK(unbound.verdict == Verdict::warning);
  CHECK(says(unbound, "no QOS bounds what they hold there: the partition has none"));
  CHECK(advises(unbound, "/etc/slurm/slurm.conf", "QOS=espalier", "PartitionName=elastic"));
  CHECK(unbound.remedies.size() == 3);
  const Finding unlimited = bound("espalier", "associations");
  CHECK(unlimited.verdict == Verdict::warning);
  CHECK(advises(unlimited, "/etc/slurm/slurm.conf", "AccountingStorageEnforce=associations,limits"));
  // A site that enforces nothing is not to begin with it: users without an association would be refused.
  for (const char* qos : {"", "espalier"}) {
    const Finding nothing = bound(qos, "none");
    CHECK(nothing.verdict == Verdict::warning);
    REQUIRE(nothing.remedies.size() == 1);
    CHECK(nothing.remedies[0].line.find("partition=elastic\\nkey=%s\\n") != std::string::npos);
  }
  const auto with_key = [](Facts& facts) { (*facts.planner_config.value)["extensions.grants"] = true; };
  CHECK(says(broken("extension-grants", with_key), "job_submit asks for them in partition elastic"));
  const auto with_plugins = [&](const char* plugins) {
    return after("extension-grants", [&](Facts& facts, Slurm& slurm) {
      with_key(facts);
      slurm.settings["JobSubmitPlugins"] = plugins;
    });
  };
  CHECK(with_plugins("(null)").verdict == Verdict::warning);
  CHECK(advises(with_plugins("(null)"), "/etc/slurm/slurm.conf", "JobSubmitPlugins=espalier"));
  CHECK(advises(with_plugins("lua"), "/etc/slurm/slurm.conf", "JobSubmitPlugins=lua,espalier"));
}

TEST_CASE("doctor: the user of espalierd and its folder") {
  CHECK(broken("planner-user", [](Facts& f) { f.planner_user = 4711; }).verdict == Verdict::fault);
  CHECK(broken("planner-user", [](Facts& f) { f.planner_user = 0; }).verdict == Verdict::ok);
  CHECK(broken("planner-user", [](Facts& f) { f.planner_user.reset(); }).verdict == Verdict::skipped);
  const Finding open = broken("state-folder", [](Facts& f) { f.state.value->mode = 0755; });
  CHECK(open.verdict == Verdict::fault);
  CHECK(advises(open, "", "chmod 0700 /var/lib/espalier"));
  const Finding foreign = broken("state-folder", [](Facts& f) { f.state.value->owner = 0; });
  CHECK(foreign.verdict == Verdict::fault);
  CHECK(says(foreign, "belongs to root"));
}

TEST_CASE("doctor: room for the store") {
  const auto with = [](std::uint64_t free_mb, std::uint64_t store_mb) {
    return broken("state-space",
                  [&](Facts& f) { f.state.value->free_mb = free_mb, f.state.value->store_mb = store_mb; });
  };
  CHECK(with(600, 0).verdict == Verdict::ok);
  CHECK(with(100, 500).verdict == Verdict::ok);
  CHECK(with(100, 0).verdict == Verdict::warning);
  CHECK(advises(with(164, 100), kToml, "store_mb = 200", "[planner]"));
  CHECK(with(10, 512).verdict == Verdict::fault);
  CHECK(advises(with(10, 5), kToml, "store_mb = 16", "[planner]"));
}

TEST_CASE("doctor: munge that does not answer or is slow") {
  CHECK(broken("munge", [](Facts& f) {
          f.munge_seconds = Learned<double>::unknown("no answer within 10 s");
        }).verdict == Verdict::fault);
  CHECK(broken("munge", [](Facts& f) { f.munge_seconds = 4.0; }).verdict == Verdict::warning);
}

TEST_CASE("doctor: programs, torch and MPI") {
  const auto missing = [](const char* program, const char* library) {
    return [=](Facts& f) { f.programs[program].missing = {library}; };
  };
  Finding found = broken("programs", missing("espalier-ranks", "libpmix.so.2"));
  CHECK(found.verdict == Verdict::fault);
  CHECK(says(found, "libpmix.so.2"));
  found = broken("torch", missing("espalier-train", "libtorch_cpu.so"));
  CHECK(found.verdict == Verdict::fault);
  CHECK(says(found, "libtorch_cpu.so"));
  CHECK(broken("torch-cuda", missing("espalier-train-cuda", "libtorch_cuda.so")).verdict == Verdict::fault);
  CHECK(broken("mpi", missing("espalier-train", "libmpi.so.40")).verdict == Verdict::fault);
  const auto mpi = [](const char* version) {
    return broken("mpi", [=](Facts& f) { f.mpi = std::string(version); }).verdict;
  };
  CHECK(mpi("Open MPI v5.0.7, package: Debian") == Verdict::ok);
  CHECK(mpi("Open MPI v3.1.3") == Verdict::fault);
  CHECK(mpi("Open MPI v4.0.5") == Verdict::fault);
  CHECK(mpi("Open MPI v6.0.0rc2") == Verdict::ok);
  CHECK(mpi("Open MPI v7.0.0") == Verdict::warning);
  CHECK(mpi("MPICH Version: 4.1") == Verdict::warning);
}

TEST_CASE("doctor: a program that is not on this host matters on a node only") {
  const auto at = [](const char* host) {
    return broken("torch", [=](Facts& f) { f.host = host, f.programs["espalier-train"].exists = false; }).verdict;
  };
  CHECK(at("ctl") == Verdict::skipped);
  CHECK(at("n1") == Verdict::fault);
}

TEST_CASE("doctor: nodes outside launch.network") {
  const auto with = [](const char* address) {
    return broken("network", [=](Facts& f) {
      f.mpi_interfaces = "lo";  // launch.network counts
      f.config.network = "10.77.0.0/16";
      f.addresses =
          std::map<std::string, std::vector<std::string>>{{"n1", {address}}, {"n2", {"1.1.1.1", "10.77.9.9"}}};
    });
  };
  CHECK(with("10.77.255.1").verdict == Verdict::ok);
  CHECK(with("10.78.0.1").verdict == Verdict::warning);
  CHECK(says(with("10.78.0.1"), "n1 have no address"));
}

TEST_CASE("doctor: an Open MPI that talks on the loopback interface only, as Debian's of version 6") {
  const auto found = broken("network", [](Facts& f) { f.config.network = "", f.mpi_interfaces = "lo"; });
  CHECK(found.verdict == Verdict::fault);
  CHECK(says(found, "those of different nodes do not reach each other"));
  CHECK(broken("network", [](Facts& f) { f.config.network = "", f.mpi_interfaces = "ib0"; }).verdict == Verdict::ok);
}

TEST_CASE("doctor: GPU drivers") {
  CHECK(broken("gpu-driver", [](Facts& f) {
          f.driver_there = false, f.gpus = Learned<std::vector<Gpu>>::unknown("none");
        }).verdict == Verdict::skipped);
  CHECK(broken("gpu-driver", [](Facts& f) { f.gpus = Learned<std::vector<Gpu>>::unknown("code 9"); }).verdict ==
        Verdict::fault);
  CHECK(broken("gpu-persistence", [](Facts& f) { f.gpus.value->front().persistence = "Disabled"; }).verdict ==
        Verdict::warning);
  CHECK(broken("mig", [](Facts& f) { f.gpus.value->front().mig = "Enabled"; }).verdict == Verdict::fault);
  CHECK(broken("mig", [](Facts& f) { f.gpus.value->front().mig = "[N/A]"; }).verdict == Verdict::ok);
}
