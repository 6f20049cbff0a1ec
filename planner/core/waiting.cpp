#include "planner/core/waiting.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

// Worth of an extension when no plan is known without it. Reclaiming it would mostly be in vain, so
// it is chosen last.
constexpr double kUnknownWorth = 1e9;

// At all places for one array, in one decision. The next decision goes on with the tasks that still wait.
constexpr int kMostLooks = 64;

struct HeldExtension {
  JobId elastic = 0, extension = 0;
  int gpus = 0;
  int nearness = 0;  // to the job's anchor; distant extensions are reclaimed first
  double worth = 0;  // marginal benefit
};

// A node's state while waiting jobs are served.
struct Place {
  Supply supply;
  int arriving = 0;  // GPUs that will be idle soon or were reclaimed for an earlier job
  std::vector<HeldExtension> reclaimable;

  int available() const { return static_cast<int>(supply.gpus.size()) + arriving; }
};

// On which of the places a job may run. Thousands of waiting jobs share a few lists of nodes: each list is looked
// through once.
class AllowedPlaces {
 public:
  explicit AllowedPlaces(const std::vector<Place>& places) : places_(places), all_(places.size(), true) {}

  // By place. Valid until the next call.
  const std::vector<bool>& of(const WaitingJob& job) {
    const NodeList& only = job.only_nodes;
    if (only.empty()) return all_;
    ESPALIER_INVARIANT(std::is_sorted(only.begin(), only.end()));
    const auto [at, fresh] = known_.try_emplace(only.identity());
    if (!fresh) return at->second;
    at->second.reserve(places_.size());
    auto name = only.begin();  // both are sorted
    for (const Place& place : places_) {
      while (name != only.end() && *name < place.supply.node->name) ++name;
      at->second.push_back(name != only.end() && *name == place.supply.node->name);
    }
    return at->second;
  }

 private:
  const std::vector<Place>& places_;
  std::vector<bool> all_;
  std::map<const void*, std::vector<bool>> known_;
};

// The extensions to reclaim so that a number of GPUs is available on one node.
struct Offer {
  Place* place = nullptr;
  int need = 0;  // GPUs of the node that the job keeps from others
  std::vector<HeldExtension> release;
  int released_gpus() const {
    int sum = 0;
    for (const HeldExtension& e : release) sum += e.gpus;
    return sum;
  }
  double loss() const {
    double sum = 0;
    for (const HeldExtension& e : release) sum += e.worth * e.gpus;
    return sum;
  }
  int nearest() const {
    int most = 0;
    for (const HeldExtension& e : release) most = std::max(most, e.nearness);
    return most;
  }
};

// The paper's order: lowest marginal benefit first. Of extensions with equal benefit the largest
// comes first, but the smallest that suffices completes the set. Jobs then keep the superfluous
// extensions of the set, the most valuable ones first.
std::vector<HeldExtension> least_benefits_first(std::vector<HeldExtension> rest, int lacking) {
  std::vector<HeldExtension> release;
  std::sort(rest.begin(), rest.end(), [](const HeldExtension& a, const HeldExtension& b) {
    return std::tuple(a.worth, -a.gpus, a.nearness, a.elastic, a.extension) <
           std::tuple(b.worth, -b.gpus, b.nearness, b.elastic, b.extension);
  });
  while (lacking > 0) {
    auto choice = rest.begin();
    for (auto it = rest.begin(); it != rest.end() && it->worth == rest.front().worth; ++it)
      if (it->gpus >= lacking && it->gpus < choice->gpus) choice = it;
    lacking -= choice->gpus;
    release.push_back(*choice);
    rest.erase(choice);
  }
  for (auto it = release.rbegin(); it != release.rend();) {
    if (it->gpus > -lacking) {
      ++it;
      continue;
    }
    lacking += it->gpus;
    it = std::make_reverse_iterator(release.erase(std::next(it).base()));
  }
  return release;
}

// The set with the lowest loss, then with the fewest extensions, the fewest GPUs and the least
// nearness: a knapsack over the GPUs of one node. Example: two GPUs of low benefit each are not
// given up where one GPU of a somewhat higher benefit suffices.
std::vector<HeldExtension> lowest_loss(std::vector<HeldExtension> rest, int lacking) {
  struct Sum {
    double loss = 0;
    std::size_t count = 0;
    int gpus = 0, nearest = 0;
    std::vector<std::size_t> chosen;
    auto key() const { return std::tie(loss, count, gpus, nearest, chosen); }
  };
  std::sort(rest.begin(), rest.end(), [](const HeldExtension& a, const HeldExtension& b) {
    return std::tuple(a.elastic, a.extension) < std::tuple(b.elastic, b.extension);
  });
  // By number of GPUs; sums beyond `lacking` count as `lacking`.
  std::vector<std::optional<Sum>> best(static_cast<std::size_t>(lacking) + 1);
  best[0].emplace();
  for (std::size_t i = 0; i < rest.size(); ++i)
    for (int before = lacking - 1; before >= 0; --before) {
      const auto& from = best[static_cast<std::size_t>(before)];
      if (!from) continue;
      Sum sum = *from;
      sum.loss += rest[i].worth * rest[i].gpus;
      sum.count += 1;
      sum.gpus += rest[i].gpus;
      sum.nearest = std::max(sum.nearest, rest[i].nearness);
      sum.chosen.push_back(i);
      auto& to = best[static_cast<std::size_t>(std::min(lacking, before + rest[i].gpus))];
      if (!to || sum.key() < to->key()) to = std::move(sum);
    }
  std::vector<HeldExtension> release;
  for (const std::size_t i : best.back()->chosen) release.push_back(rest[i]);
  return release;
}

// Finds extensions whose release makes `need` GPUs available. False: all extensions are too few.
bool offer(Place& place, int need, bool as_printed, Offer& result) {
  result = {&place, need, {}};
  const int lacking = need - place.available();
  if (lacking <= 0) return true;
  int there = 0;
  for (const HeldExtension& held : place.reclaimable) there += held.gpus;
  if (there < lacking) return false;
  result.release =
      as_printed ? least_benefits_first(place.reclaimable, lacking) : lowest_loss(place.reclaimable, lacking);
  return true;
}

// However many of its jobs end, the node has not what the job needs.
bool is_too_small(const NodeView& node, const WaitingJob& job) {
  return (node.cpus > 0 && job.cpus > node.cpus) || (node.memory_mb > 0 && job.memory_mb > node.memory_mb);
}

// A job with --exclusive needs the node without any other job.
bool offer_whole(Place& place, const WaitingJob& job, int need, Offer& result) {
  const NodeView& node = *place.supply.node;
  const int all = static_cast<int>(node.gpu_owner.size());
  result = {&place, all, place.reclaimable};
  return all >= need && !node.cpu_jobs && !is_too_small(node, job) && place.available() + result.released_gpus() == all;
}

// Whether the place has too few CPUs, or too little memory, for the job as things are.
bool lacks_cpus(const WaitingJob& job, const Place& place) {
  const NodeView& node = *place.supply.node;
  if (job.whole_nodes)
    return node.cpu_jobs || place.supply.free_cpus < node.cpus ||
           std::any_of(node.gpu_owner.begin(), node.gpu_owner.end(), [](JobId owner) { return owner != 0; });
  const long memory = job.memory_mb < 0 ? node.memory_mb : job.memory_mb;
  return job.cpus > place.supply.free_cpus || memory > place.supply.free_memory_mb;
}

int largest_node(const std::vector<Place>& places, const std::vector<bool>& may) {
  int largest = 0;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (may[i]) largest = std::max(largest, static_cast<int>(places[i].supply.node->gpu_owner.size()));
  return largest;
}

void reserve(Place& place, int need) {
  const int from_arriving = std::min(place.arriving, need);
  place.arriving -= from_arriving;
  const auto taken = static_cast<std::ptrdiff_t>(need - from_arriving);
  place.supply.gpus.erase(place.supply.gpus.begin(), place.supply.gpus.begin() + taken);
}

// The anchor's own nodes are nearest. Other nodes are nearer the more switches they share with the
// anchor's first node.
int nearness(const ElasticJob& job, const NodeView& node, const ClusterView& cluster) {
  for (const Holding& held : job.anchor)
    if (held.node == node.name) return 1 << 16;
  const NodeView* home = job.anchor.empty() ? nullptr : cluster.find(job.anchor.front().node);
  return home == nullptr ? 0 : common_switches(*home, node);
}

std::vector<Place> open_places(const PlanningInput& input, const SchedulerOptions& options,
                               const std::map<JobId, double>& worth) {
  std::vector<Place> places;
  places.reserve(input.cluster.nodes.size());
  for (const NodeView& node : input.cluster.nodes) {
    if (!node.usable) continue;
    Place& place =
        places.emplace_back(Place{{&node, {}, node.free_cpus, node.free_memory_mb, options.max_lease_minutes},
                                  static_cast<int>(node.freeing.size()),
                                  {}});
    for (std::size_t i = 0; i < node.gpu_owner.size(); ++i)
      if (node.gpu_owner[i] == 0) place.supply.gpus.push_back(static_cast<int>(i));
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.supply.node->name < b.supply.node->name; });
  if (input.cluster.waiting.empty()) return places;  // no job waits for GPUs, so nothing will be reclaimed
  for (const ElasticJob& job : input.jobs) {
    if (job.phase != JobPhase::running || !job.plan) continue;
    for (const Holding& held : job.extensions) {
      const auto place =
          std::lower_bound(places.begin(), places.end(), held.node,
                           [](const Place& one, const std::string& name) { return one.supply.node->name < name; });
      if (place == places.end() || place->supply.node->name != held.node || held.job == job.id || held.gpus.empty())
        continue;
      const auto known = worth.find(held.job);
      place->reclaimable.push_back({job.id, held.job, static_cast<int>(held.gpus.size()),
                                    nearness(job, *place->supply.node, input.cluster),
                                    known == worth.end() ? kUnknownWorth : known->second});
    }
  }
  return places;
}

// The cheapest nodes for `job`. Empty: the job cannot start even if all extensions are given back.
std::vector<Offer> choose(const WaitingJob& job, std::vector<Place>& places, const std::vector<bool>& may, int need,
                          int nodes, bool as_printed) {
  std::vector<Offer> offers;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!may[i]) continue;
    Offer candidate;
    if (job.whole_nodes ? offer_whole(places[i], job, need, candidate) : offer(places[i], need, as_printed, candidate))
      offers.push_back(std::move(candidate));
  }
  if (static_cast<int>(offers.size()) < nodes) return {};
  std::partial_sort(offers.begin(), offers.begin() + nodes, offers.end(), [](const Offer& a, const Offer& b) {
    const auto key = [](const Offer& o) {  // at last by name, as the places are
      return std::tuple(o.loss(), o.release.size(), o.released_gpus(), o.nearest(), o.place->available(), o.place);
    };
    return key(a) < key(b);
  });
  offers.resize(static_cast<std::size_t>(nodes));
  return offers;
}

// Slurm tells no start of most jobs of a long queue: it looks at bf_max_job_test of them. Where it preempts extensions,
// nothing has to be kept for those.
int longest_lease(const WaitingJob& job, double now, const SchedulerOptions& options) {
  if (job.expected_start) return std::max(0, lease_before(now, *job.expected_start, options));
  return job.slurm_preempts && !job.left_to_slurm ? options.max_lease_minutes : 0;
}

void limit_leases(const WaitingJob& job, std::vector<Place>& places, const std::vector<bool>& may, double now,
                  const SchedulerOptions& options) {
  const int minutes = longest_lease(job, now, options);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (may[i]) places[i].supply.lease_minutes = std::min(places[i].supply.lease_minutes, minutes);
}

// Where a job lacks CPUs or memory, and Slurm preempts nothing for it, extensions that hold them are not taken back:
// how many they hold is not known here. But none begins there and none is prolonged, so that the job waits for the end
// of a lease at most. `need`: its GPUs of each node.
void limit_leases_for_cpus(const WaitingJob& job, int need, int nodes, std::vector<Place>& places,
                           const std::vector<bool>& may, double now, const SchedulerOptions& options) {
  if (job.slurm_preempts || (job.whole_nodes && need > 0)) return;
  std::vector<Place*> lacking;
  int fit = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!may[i] || is_too_small(*places[i].supply.node, job)) continue;
    if (lacks_cpus(job, places[i])) lacking.push_back(&places[i]);
    else fit += places[i].available() >= need;
  }
  if (fit >= nodes) return;
  const int minutes = longest_lease(job, now, options);
  for (Place* const place : lacking) place->supply.lease_minutes = std::min(place->supply.lease_minutes, minutes);
}

void give_back(JobId waiting, bool for_limit, Place& place, const HeldExtension& held,
               std::map<JobId, Reclaim>& reclaims) {
  Reclaim& reclaim = reclaims[held.elastic];
  reclaim.extensions.push_back(held.extension);
  if (reclaim.waiting.empty()) reclaim.for_limit = for_limit;
  if (std::find(reclaim.waiting.begin(), reclaim.waiting.end(), waiting) == reclaim.waiting.end())
    reclaim.waiting.push_back(waiting);
  place.arriving += held.gpus;
  std::erase_if(place.reclaimable, [id = held.extension](const HeldExtension& e) { return e.extension == id; });
}

void take(const WaitingJob& job, const Offer& chosen, std::map<JobId, Reclaim>& reclaims) {
  for (const HeldExtension& held : chosen.release) give_back(job.id, false, *chosen.place, held, reclaims);
  reserve(*chosen.place, chosen.need);
}

// Tasks of an array for which these nodes have room as they are. They are the nodes with the least room that suffices,
// so that the next tasks would choose them again: a large array takes one look at each node.
int copies_on(const std::vector<Offer>& chosen) {
  int least = std::numeric_limits<int>::max();
  for (const Offer& one : chosen) least = std::min(least, one.place->available() / one.need);
  return least;
}

void serve_limit(const WaitingJob& job, const std::vector<JobId>& counted, std::vector<Place>& places,
                 std::map<JobId, Reclaim>& reclaims) {
  ESPALIER_INVARIANT(std::is_sorted(counted.begin(), counted.end()));
  std::vector<std::pair<Place*, HeldExtension>> held;
  for (Place& place : places)
    for (const HeldExtension& one : place.reclaimable)
      if (std::binary_search(counted.begin(), counted.end(), one.extension)) held.emplace_back(&place, one);
  std::sort(held.begin(), held.end(), [](const auto& a, const auto& b) {
    const auto key = [](const HeldExtension& e) { return std::tuple(e.worth, e.nearness, e.extension); };
    return key(a.second) < key(b.second);
  });
  int lacking = job.gpus;
  for (const auto& [place, one] : held) {
    if (lacking <= 0) return;
    lacking -= one.gpus;
    give_back(job.id, true, *place, one, reclaims);
  }
}

}  // namespace

std::pair<int, int> per_node_need(const WaitingJob& job, int largest) {
  const int most = std::max(1, largest);
  const int nodes = std::max({1, job.nodes, (job.gpus + most - 1) / most});
  return {(job.gpus + nodes - 1) / nodes, nodes};
}

bool allowed(const WaitingJob& job, const NodeView& node) {
  return job.only_nodes.empty() || std::binary_search(job.only_nodes.begin(), job.only_nodes.end(), node.name);
}

std::string describe(const Reclaim& reclaim) {
  return "job " + std::to_string(reclaim.waiting.front()) +
         (reclaim.waiting.size() > 1 ? " and others wait" : " waits") +
         (reclaim.for_limit ? " for a limit of the site that extensions use up" : " for GPUs that extensions hold");
}

int lease_before(double now, double start, const SchedulerOptions& options) {
  const double minutes = std::floor((start - now - options.kill_wait_seconds - 60) / 60);
  return static_cast<int>(std::clamp(minutes, 0.0, static_cast<double>(options.max_lease_minutes)));
}

WaitingPlan serve_waiting(const PlanningInput& input, const SchedulerOptions& options,
                          const std::map<JobId, double>& worth) {
  auto places = open_places(input, options, worth);
  WaitingPlan plan;
  AllowedPlaces allowed_places(places);
  auto waiting = input.cluster.waiting;
  std::sort(waiting.begin(), waiting.end(), [](const WaitingJob& a, const WaitingJob& b) {
    return std::tuple(-a.priority, a.id) < std::tuple(-b.priority, b.id);
  });
  for (const WaitingJob& job : waiting) {
    if (job.gpus <= 0) continue;
    if (const auto counted = input.counted.find(job.id); counted != input.counted.end()) {
      serve_limit(job, counted->second, places, plan.reclaims);
      continue;
    }
    const std::vector<bool>& may = allowed_places.of(job);
    const int largest = largest_node(places, may);
    const auto [need, nodes] = per_node_need(job, largest);
    const int each = job.whole_nodes ? std::max(need, largest) : need;
    limit_leases_for_cpus(job, need, nodes, places, may, input.now, options);
    if (job.starts_later) {
      limit_leases(job, places, may, input.now, options);
      // No node may have the room, because other jobs lie in between: a base that moves makes it.
      if (choose(job, places, may, need, nodes, options.as_printed).empty())
        plan.unserved.push_back({job, each, nodes});
      continue;
    }
    int looks = 0;
    for (int left = std::max(1, job.tasks); left > 0 && looks < kMostLooks; ++looks) {
      const auto chosen = choose(job, places, may, need, nodes, options.as_printed);
      const bool at_once =
          std::all_of(chosen.begin(), chosen.end(), [](const Offer& offer) { return offer.release.empty(); });
      if (chosen.empty() || (job.left_to_slurm && !at_once)) {
        limit_leases(job, places, may, input.now, options);
        if (chosen.empty() && !job.left_to_slurm) plan.unserved.push_back({job, each, nodes});
        break;
      }
      const int served = at_once ? std::min(left, copies_on(chosen)) : 1;
      for (int copy = 0; copy < served; ++copy)
        for (const Offer& one : chosen) take(job, one, plan.reclaims);
      left -= served;
    }
  }
  for (const WaitingJob& job : input.cluster.waiting_for_cpus)
    limit_leases_for_cpus(job, 0, job.nodes, places, allowed_places.of(job), input.now, options);
  for (auto& [id, reclaim] : plan.reclaims) std::sort(reclaim.extensions.begin(), reclaim.extensions.end());
  for (Place& place : places) {
    int room = place.available();
    for (const HeldExtension& held : place.reclaimable) room += held.gpus;
    plan.room.push_back(room);
    plan.supplies.push_back(std::move(place.supply));
  }
  return plan;
}

}  // namespace espalier
