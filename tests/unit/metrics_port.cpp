// The metrics over HTTP: a scrape of a thousand jobs, an address that is taken, and connections that say nothing.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "planner/daemon/metrics/cluster_figures.hpp"
#include "planner/daemon/metrics/metrics.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

int dial(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

std::string scrape(int port) {
  const int fd = dial(port);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  REQUIRE(::send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()));
  std::string text;
  char part[65536];
  for (ssize_t got = 0; (got = ::read(fd, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(got));
  ::close(fd);
  return text;
}

wire::Config at_any_port() {
  wire::Config config;
  config.metrics_address = "127.0.0.1:0";
  return config;
}

}  // namespace

TEST_CASE("a scrape of a thousand jobs is below one megabyte") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    for (int i = 0; i < 1000; ++i) {
      const std::string name = "m" + std::to_string(i);
      slurm.cluster.nodes.push_back(node(name, 8));
    }
    std::sort(slurm.cluster.nodes.begin(), slurm.cluster.nodes.end(),
              [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
    for (int i = 0; i < 1000; ++i) {
      const JobId id = 1000 + static_cast<JobId>(i);
      run_job(slurm,
              slurm_job(id, 2000 + static_cast<uid_t>(i), {{id, "m" + std::to_string(i), {0, 1, 2, 3, 4, 5, 6, 7}}}));
    }
  });
  std::vector<std::shared_ptr<TestLink>> links;
  for (int i = 0; i < 1000; ++i) {
    links.push_back(daemon.connect(2000 + static_cast<uid_t>(i)));
    ElasticJob one = job(1000 + static_cast<JobId>(i), "m" + std::to_string(i), {0, 1, 2, 3, 4, 5, 6, 7});
    one.step_seconds = 0.1234567;
    one.step = 123456789;
    links.back()->says(wire::Register{one, "m" + std::to_string(i), 1});
  }
  // A thousand admissions take some tenths of a second, and ten times as long beside other load.
  bool all = false;
  for (int tries = 0; !all && tries < 10; ++tries)
    all = daemon.until([&] { return daemon.planner->jobs().size() == 1000; });
  REQUIRE(all);
  // The computing time, which other load on the machine does not change.
  const auto used_ms = [](clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  };
  const double before = used_ms(CLOCK_THREAD_CPUTIME_ID);
  CHECK(look(*daemon.planner, 1000).rows.size() == 1000);
  const double look_ms = used_ms(CLOCK_THREAD_CPUTIME_ID) - before;
  const Metrics metrics(daemon.loop, *daemon.planner, at_any_port());
  REQUIRE(metrics.open());
  double best = 1e9;
  std::string text;
  for (int i = 0; i < 5; ++i) {
    const double begun = used_ms(CLOCK_PROCESS_CPUTIME_ID);
    text = scrape(metrics.port());
    best = std::min(best, used_ms(CLOCK_PROCESS_CPUTIME_ID) - begun);
  }
  MESSAGE("1,000 jobs: " << text.size() << " bytes, " << best << " ms a scrape, " << look_ms
                         << " ms of the loop a second");
  CHECK(text.starts_with("HTTP/1.1 200"));
  CHECK(text.size() > 200000);
  CHECK(text.size() <= 1000000);
  CHECK(best < 150);
}

TEST_CASE("an address that is taken leaves the planner as it is, without metrics") {
  Daemon daemon;
  const Metrics first(daemon.loop, *daemon.planner, at_any_port());
  REQUIRE(first.open());
  wire::Config config;
  config.metrics_address = "127.0.0.1:" + std::to_string(first.port());
  {
    const Metrics second(daemon.loop, *daemon.planner, config);
    CHECK_FALSE(second.open());
    CHECK(second.port() == 0);
  }
  CHECK(scrape(first.port()).starts_with("HTTP/1.1 200"));
  config.metrics_address = "";
  CHECK_FALSE(Metrics(daemon.loop, *daemon.planner, config).open());
}

TEST_CASE("connections that say nothing neither stop the loop nor keep scrapes away for good") {
  Daemon daemon;
  const Metrics metrics(daemon.loop, *daemon.planner, at_any_port());
  REQUIRE(metrics.open());
  std::vector<int> idle;
  for (int i = 0; i < 12; ++i) idle.push_back(dial(metrics.port()));
  const auto link = daemon.launcher();
  CHECK(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  for (const int fd : idle) ::close(fd);
  CHECK(scrape(metrics.port()).starts_with("HTTP/1.1 200"));
}
