#include "tests/bench/daemon/played_site.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::bench {
namespace {

constexpr unsigned kWholeNode = (1u << SITE_NODE_GPUS) - 1;

std::string node_name(int node) {
  char name[16];
  std::snprintf(name, sizeof name, SITE_NODE_NAME, static_cast<unsigned>(node));
  return name;
}

std::vector<int> indices(unsigned gpus) {
  std::vector<int> list;
  for (int gpu = 0; gpu < SITE_NODE_GPUS; ++gpu)
    if (gpus >> gpu & 1) list.push_back(gpu);
  return list;
}

int idle(unsigned busy) { return SITE_NODE_GPUS - std::popcount(busy); }

unsigned some_idle(unsigned busy, int count) {
  unsigned taken = 0;
  for (int gpu = 0; gpu < SITE_NODE_GPUS && count > 0; ++gpu)
    if (!(busy >> gpu & 1)) taken |= 1u << gpu, --count;
  return taken;
}

}  // namespace

// espalierd may be killed while it reads: the lock then passes on.
class PlayedSite::Locked {
 public:
  explicit Locked(site_table* table) : table_(table) {
    if (::pthread_mutex_lock(&table->lock) == EOWNERDEAD) ::pthread_mutex_consistent(&table->lock);
  }
  ~Locked() { ::pthread_mutex_unlock(&table_->lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  site_table* table_;
};

PlayedSite::PlayedSite(const std::string& path, int gpus) : idle_(gpus) {
  const wire::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file || ::fchmod(file.get(), 0666) != 0 || ::ftruncate(file.get(), sizeof *table_) != 0)
    throw Error(path + ": cannot be made: " + std::strerror(errno));
  void* at = ::mmap(nullptr, sizeof *table_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) throw Error(path + ": cannot be mapped: " + std::strerror(errno));
  table_ = static_cast<site_table*>(at);
  table_->nodes = static_cast<std::uint32_t>(gpus / SITE_NODE_GPUS);
  busy_.assign(table_->nodes, 0);
  pthread_mutexattr_t shared;
  ::pthread_mutexattr_init(&shared);
  ::pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&table_->lock, &shared);
  ::pthread_mutexattr_destroy(&shared);
}

PlayedSite::~PlayedSite() { ::munmap(table_, sizeof *table_); }

site_job& PlayedSite::fresh() {
  const auto now = std::time(nullptr);
  for (std::uint32_t i = 0; i < table_->jobs; ++i) {
    site_job& job = table_->job[i];
    if (job.state == SITE_NONE || (job.state == SITE_ENDED && static_cast<double>(now - job.ended) > kKept))
      return job = site_job{};
  }
  if (table_->jobs == SITE_JOBS) throw Error("site: more jobs than its table holds");
  return table_->job[table_->jobs++] = site_job{};
}

site_job& PlayedSite::find(JobId id) {
  for (std::uint32_t i = 0; i < table_->jobs; ++i)
    if (table_->job[i].id == id && table_->job[i].state != SITE_NONE) return table_->job[i];
  throw Error("site: no job " + std::to_string(id));
}

JobId PlayedSite::submit(std::uint32_t first_user, std::uint32_t users, int gpus) {
  const Locked locked(table_);
  site_job& job = fresh();
  job.id = next_++;
  job.uid = first_user + job.id % users;
  job.state = SITE_PENDING;
  job.wanted_gpus = static_cast<std::uint32_t>(gpus);
  job.submitted = std::time(nullptr);
  return job.id;
}

std::vector<Holding> PlayedSite::hold(site_job& job, const std::vector<std::pair<int, unsigned>>& gpus) {
  std::vector<Holding> holdings;
  for (const auto& [node, taken] : gpus) {
    job.held[job.held_nodes++] = {static_cast<std::uint16_t>(node), static_cast<std::uint16_t>(taken)};
    busy_[static_cast<std::size_t>(node)] |= taken;
    idle_ -= std::popcount(taken);
    holdings.push_back({job.id, node_name(node), indices(taken)});
  }
  job.state = SITE_RUNNING;
  job.started = std::time(nullptr);
  return holdings;
}

std::optional<std::vector<Holding>> PlayedSite::start(JobId id) {
  const Locked locked(table_);
  site_job& job = find(id);
  const int wanted = static_cast<int>(job.wanted_gpus);
  std::vector<std::pair<int, unsigned>> gpus;
  if (wanted > SITE_NODE_GPUS) {
    for (int node = 0; node < nodes() && static_cast<int>(gpus.size()) < wanted / SITE_NODE_GPUS; ++node)
      if (busy_[static_cast<std::size_t>(node)] == 0) gpus.emplace_back(node, kWholeNode);
    if (static_cast<int>(gpus.size()) < wanted / SITE_NODE_GPUS) return std::nullopt;
    return hold(job, gpus);
  }
  int best = -1;
  for (int node = 0; node < nodes(); ++node) {
    const int room = idle(busy_[static_cast<std::size_t>(node)]);
    if (room >= wanted && (best < 0 || room < idle(busy_[static_cast<std::size_t>(best)]))) best = node;
  }
  if (best < 0) return std::nullopt;
  return hold(job, {{best, some_idle(busy_[static_cast<std::size_t>(best)], wanted)}});
}

std::optional<Holding> PlayedSite::extend(JobId anchor, std::uint32_t uid, const std::string& node, int gpus) {
  const int at = std::atoi(node.c_str() + 1);
  const unsigned busy = busy_.at(static_cast<std::size_t>(at));
  if (idle(busy) < gpus) return std::nullopt;
  const Locked locked(table_);
  site_job& job = fresh();
  job.id = next_++;
  job.uid = uid;
  job.anchor = anchor;
  job.wanted_gpus = static_cast<std::uint32_t>(gpus);
  job.submitted = std::time(nullptr);
  return hold(job, {{at, some_idle(busy, gpus)}}).front();
}

std::vector<Holding> PlayedSite::end(JobId id) {
  const Locked locked(table_);
  site_job& job = find(id);
  std::vector<Holding> held;
  for (std::uint32_t n = 0; job.state == SITE_RUNNING && n < job.held_nodes; ++n) {
    const site_held& one = job.held[n];
    busy_[one.node] &= ~static_cast<unsigned>(one.gpus);
    idle_ += std::popcount(one.gpus);
    held.push_back({id, node_name(one.node), indices(one.gpus)});
  }
  job.state = SITE_ENDED;
  job.ended = std::time(nullptr);
  return held;
}

std::string PlayedSite::topology() const {
  std::string text;
  char line[96];
  for (int first = 0, rack = 0; first < nodes(); first += SITE_RACK_NODES, ++rack) {
    const int last = std::min(first + SITE_RACK_NODES, nodes()) - 1;
    std::snprintf(line, sizeof line, "SwitchName=rack%03d Nodes=g[%04d-%04d]\n", rack, first, last);
    text += line;
  }
  std::snprintf(line, sizeof line, "SwitchName=spine Switches=rack[000-%03d]\n",
                (nodes() + SITE_RACK_NODES - 1) / SITE_RACK_NODES - 1);
  return text + line;
}

}  // namespace espalier::bench
