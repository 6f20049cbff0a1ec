#include "tests/bench/daemon/questions.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <random>

#include "planner/wire/client.hpp"

namespace espalier::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kThreads = 8;

// Of ten questions: the lists are what `espalier show` asks for most.
constexpr const char* kUsers[10] = {"ping", "ping", "job",     "job",     "job",
                                    "jobs", "jobs", "explain", "explain", "decisions"};
constexpr const char* kAdministrators[10] = {"ping",    "ping",      "ping",      "job",   "job",
                                             "explain", "decisions", "decisions", "nodes", "jobs"};

}  // namespace

Questions::Questions(std::string socket, uid_t planner_uid, double per_second, std::vector<Asker> askers, unsigned seed)
    : socket_(std::move(socket)),
      planner_uid_(planner_uid),
      per_second_(per_second),
      askers_(std::move(askers)),
      seed_(seed) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this, i] { ask(i, kThreads); });
}

void Questions::stop() {
  stopping_ = true;
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void Questions::ask(int thread, int threads) {
  std::mt19937 random(seed_ + static_cast<unsigned>(thread));
  const auto period = std::chrono::duration<double>(threads / per_second_);
  auto next = Clock::now() + std::chrono::duration_cast<Clock::duration>(period * thread / threads);
  while (!stopping_) {
    std::this_thread::sleep_until(next);
    next += std::chrono::duration_cast<Clock::duration>(period);
    const bool administrator = random() % 5 == 0;
    const Asker& asker = askers_[random() % askers_.size()];
    const std::string what = (administrator ? kAdministrators : kUsers)[random() % 10];
    ::syscall(SYS_setresuid, -1, administrator ? 0 : asker.uid,
              -1);  // of this thread; the kernel tells it to espalierd
    wire::Query query{what, Json::object()};
    if (what == "job" || what == "explain") query.arguments["job"] = asker.job;
    const auto begin = Clock::now();
    std::string problem;
    try {
      auto client = wire::Client::local(socket_, {planner_uid_}, std::chrono::seconds(10));
      client.send(query);
      const auto answer = client.receive(std::chrono::seconds(30));
      if (!answer) problem = "no answer";
      else if (answer->type != wire::Reply::type) problem = wire::from_frame<wire::Refused>(*answer).reason;
    } catch (const std::exception& error) {
      problem = error.what();
    }
    ::syscall(SYS_setresuid, -1, 0, -1);
    const double took = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    const std::lock_guard lock(mutex_);
    // A job may have ended in the meantime.
    if (problem.empty() || problem.find("no running") != std::string::npos ||
        problem.find("no elastic") != std::string::npos)
      milliseconds_[what].push_back(took);
    else if (++failed_ <= 5) std::fprintf(stderr, "%s: %s\n", what.c_str(), problem.c_str());
  }
}

}  // namespace espalier::bench
