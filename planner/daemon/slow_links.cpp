#include "planner/daemon/slow_links.hpp"

#include <algorithm>
#include <iterator>

namespace espalier {
namespace {

constexpr double kKept = 3600;         // seconds, of what a job has found
constexpr double kReadingKept = 7200;  // three of them at the largest profile.links
constexpr std::size_t kReadings = 3;
// Of one job, and of one user: what a hostile one costs is bounded.
constexpr std::size_t kMostLinks = 2 * kMostLinkFigures, kMostFound = 64, kMostJobs = 32;
constexpr std::size_t kMostTold = 16;  // other ends of a node's links

template <class Map, class Newest>
void drop_oldest(Map& map, std::size_t most, const Newest& newest) {
  while (map.size() > most)
    map.erase(std::min_element(map.begin(), map.end(),
                               [&](const auto& a, const auto& b) { return newest(a.second) < newest(b.second); }));
}

}  // namespace

const SlowPaths& SlowLinks::note(uid_t user, JobId job, int generation, const LinkLook& look, const Site& site,
                                 double now) {
  static const SlowPaths none;
  if (look.number == 0) return none;
  for (auto& [uid, one] : users_)
    std::erase_if(one.jobs, [&](const auto& found) { return found.first != job && found.second.until <= now; });
  std::erase_if(users_, [&](const auto& one) { return one.first != user && one.second.jobs.empty(); });
  User& own = users_[user];
  if (!own.jobs.contains(job))
    drop_oldest(own.jobs, kMostJobs - 1, [](const Job& one) {
      return std::pair(!one.paths.nodes.empty() || !one.paths.pairs.empty(),
                       one.until);  // who has found none goes first
    });
  Job& of = own.jobs[job];
  if (of.generation == generation && of.number == look.number) return of.paths;
  of.generation = generation;
  of.number = look.number;
  of.until = now + kKept;
  take(of, look, now);
  of.paths = paths_of(of, site);
  sum_up(own, now);
  return of.paths;
}

void SlowLinks::take(Job& job, const LinkLook& look, double now) {
  for (auto& [link, readings] : job.links)
    std::erase_if(readings, [&](const Reading& one) { return one.time + kReadingKept <= now; });
  std::erase_if(job.links, [](const auto& one) { return one.second.empty(); });
  for (const LinkFigure& figure : look.figures) {
    auto& readings = job.links[std::minmax(figure.from, figure.to)];
    readings.push_back({figure.gb_s, now});
    if (readings.size() > kReadings) readings.erase(readings.begin());
  }
  drop_oldest(job.links, kMostLinks, [](const auto& readings) { return readings.back().time; });
}

SlowPaths SlowLinks::paths_of(const Job& job, const Site& site) {
  std::vector<LinkFigure> best;
  for (const auto& [link, readings] : job.links) {
    LinkFigure& figure = best.emplace_back(LinkFigure{link.first, link.second});
    for (const Reading& one : readings) figure.gb_s = std::max(figure.gb_s, one.gb_s);
  }
  auto compared = compare_links(site, best);
  // One look proves that a link is fast. To be slow takes all of the last ones.
  std::erase_if(compared, [&](const ComparedLink& one) {
    return one.share < kSlowLink && job.links.at({one.from, one.to}).size() < kReadings;
  });
  SlowPaths paths = slow_paths(compared);
  paths.nodes.resize(std::min(paths.nodes.size(), kMostFound));
  for (SlowPaths::Node& node : paths.nodes) node.to.resize(std::min(node.to.size(), kMostTold));
  paths.pairs.resize(std::min(paths.pairs.size(), kMostFound));
  return paths;
}

void SlowLinks::sum_up(User& user, double now) {
  user.nodes.clear();
  user.pairs.clear();
  const auto longer = [](double& until, double other) { until = std::max(until, other); };
  for (const auto& [id, job] : user.jobs) {
    if (job.until <= now) continue;
    for (const SlowPaths::Node& node : job.paths.nodes) longer(user.nodes[node.node], job.until);
    for (const ComparedLink& pair : job.paths.pairs) {
      longer(user.pairs[pair.from][pair.to], job.until);
      longer(user.pairs[pair.to][pair.from], job.until);
    }
  }
}

std::vector<std::string> SlowLinks::closed_to(uid_t user, const std::set<std::string>& held, double now) const {
  const auto own = users_.find(user);
  if (own == users_.end()) return {};
  std::set<std::string> closed;
  for (const auto& [node, until] : own->second.nodes)
    if (until > now && !held.contains(node)) closed.insert(node);
  for (const std::string& node : held) {
    const auto ends = own->second.pairs.find(node);
    if (ends == own->second.pairs.end()) continue;
    for (const auto& [other, until] : ends->second)
      if (until > now && !held.contains(other)) closed.insert(other);
  }
  return {closed.begin(), closed.end()};
}

std::map<std::string, SlowLinks::Slow> SlowLinks::all(double now) const {
  std::map<std::string, Slow> all;
  const auto add = [&](const std::string& node, const std::vector<std::string>& to, double share, auto& counted) {
    Slow& slow = all[node];
    slow.share = std::min(slow.share, share);
    for (const std::string& other : to)
      if (slow.to.size() < kMostTold) slow.to.insert(other);
    if (counted.insert(node).second) ++slow.jobs;
  };
  for (const auto& [uid, user] : users_)
    for (const auto& [id, job] : user.jobs) {
      if (job.until <= now) continue;
      std::set<std::string> counted;
      for (const SlowPaths::Node& node : job.paths.nodes) add(node.node, node.to, node.share, counted);
      for (const ComparedLink& pair : job.paths.pairs) {
        add(pair.from, {pair.to}, pair.share, counted);
        add(pair.to, {pair.from}, pair.share, counted);
      }
    }
  return all;
}

}  // namespace espalier
