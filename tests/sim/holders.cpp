#include "tests/sim/holders.hpp"

#include <algorithm>
#include <cmath>

#include "planner/wire/clock.hpp"
#include "tests/sim/generation.hpp"
#include "tests/sim/history.hpp"

namespace espalier::sim {
namespace {

constexpr Seconds kPause = 0.5, kLooks = 5;
constexpr int kMissedHeartbeats = 10;

}  // namespace

Place place_in(const std::vector<std::string>& environment) {
  Place place;
  for (const std::string& entry : environment) {
    if (entry.starts_with("ESPALIER_RESTARTS=")) place.restarts = std::stoi(entry.substr(18));
    if (!entry.starts_with("ESPALIER_LAUNCHER=")) continue;
    const auto colon = entry.rfind(':');
    place.host = entry.substr(18, colon - 18);
    place.port = static_cast<std::uint16_t>(std::stoul(entry.substr(colon + 1)));
  }
  return place;
}

void Holders::start(const SimJob& job) {
  for (const Holding& held : job.holdings) {
    auto one = std::make_shared<Holder>();
    one->party = std::make_shared<Party>();
    one->party->name = "keeper of " + std::to_string(job.id) + " on " + held.node;
    one->party->node = held.node;
    one->job = job.id;
    one->submitted = job.anchor;
    one->extension = job.kind == SimJob::Kind::extension;
    one->batch = !one->extension && held.node == job.holdings.front().node;
    one->last = place_in(job.environment);
    one->newest = one->last.restarts;
    const auto holds = std::chrono::milliseconds(std::lround(history_.config.adoption_minutes * 60000));
    const auto first = one->extension ? std::optional(std::chrono::seconds(5)) : std::nullopt;
    const auto spread = std::chrono::milliseconds(one->batch ? 0 : history_.random.below(10000));
    one->tenure = std::make_unique<launcher::BaseTenure>(wire::steady_now(), one->batch, holds, first, spread);
    holders_.push_back(one);
    // The keepers of the base's other nodes are a step, which its batch script starts.
    later(one, one->batch || one->extension ? 0 : history_.random.real(0.1, 1), [this, one] {
      history_.note([&] { return one->party->name + ": starts"; });
      round(one);
    });
  }
}

void Holders::later(const HolderPtr& one, Seconds delay, Callback what) {
  history_.timeline.at(history_.timeline.now() + delay, one->party, std::move(what));
}

std::vector<Place> Holders::launchers(const Holder& one) const {
  std::vector<Place> places;
  for (const Served& server : served_)
    if (server.submitted == one.submitted && server.node == one.party->node && server.launcher->alive &&
        std::find(places.begin(), places.end(), server.place) == places.end())
      places.push_back(server.place);
  if (std::find(places.begin(), places.end(), one.last) == places.end()) places.push_back(one.last);
  std::erase_if(places, [&](const Place& place) { return place.restarts < one.newest; });
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.restarts > b.restarts; });
  return places;
}

void Holders::round(const HolderPtr& one) {
  if (one->leaving) return;
  if (!one->tenure->stays(wire::steady_now())) return leave(one, false);
  one->places = launchers(*one);
  one->next = 0;
  one->nobody = true;
  call_next(one);
}

void Holders::call_next(const HolderPtr& one) {
  if (one->next == one->places.size()) {
    if (one->extension && one->noticed) return leave(one, false);
    one->tenure->looked(wire::steady_now(), one->nobody);
    if (one->tenure->asks(wire::steady_now())) return ask(one);
    return later(one, kPause, [this, one] { round(one); });
  }
  const Place place = one->places[one->next++];
  history_.network.connect(
      one->party, place.host, place.port, wire::Service::keeper,
      [this, one, place](const EndPtr& line) { attend(one, line, place); },
      [this, one](const std::string& why) {
        if (why != "connection refused") one->nobody = false;
        one->tenure->lost(wire::steady_now());
        call_next(one);
      });
}

void Holders::attend(const HolderPtr& one, const EndPtr& line, const Place& place) {
  one->line = line;
  one->last = place;
  one->knows_us = one->told_notice = false;
  one->heard = one->looked = history_.timeline.now();
  line->on_closed = [this, one](const std::string&) { attended(one, false); };
  line->on_frame = [this, one, place](const wire::Frame& frame) { hear(one, place, frame); };
  line->send(wire::KeeperHello{one->job, one->party->node, one->extension, one->continuation});
  tick(one, line, place);
}

void Holders::hear(const HolderPtr& one, const Place& place, const wire::Frame& frame) {
  if (!one->line) return;
  if (frame.type == wire::Refused::type) return attended(one, false);
  if (frame.type == wire::GiveBack::type) {
    one->line->close();
    one->line.reset();
    return leave(one, true);
  }
  if (!std::exchange(one->knows_us, true)) {
    one->tenure->found();
    one->newest = place.restarts;
    kill_older_ranks(one, place.restarts);
  }
  one->heard = history_.timeline.now();
  if (frame.type == wire::Keep::type) one->keep = wire::from_frame<wire::Keep>(frame);
  if (frame.type == wire::Continuation::type) {
    one->told = true;
    if (const auto now = wire::from_frame<wire::Continuation>(frame); now.source)
      one->told_generation = now.source->generation;
  }
  if (frame.type == wire::Continuation::type && history_.mutant != Mutant::forgetful_keeper)
    one->continuation = wire::from_frame<wire::Continuation>(frame);
}

void Holders::tick(const HolderPtr& one, const EndPtr& line, const Place& place) {
  later(one, history_.config.heartbeat_seconds, [this, one, line, place] {
    if (one->line != line || one->leaving) return;
    const Seconds now = history_.timeline.now();
    if (one->knows_us && one->extension && one->noticed && !std::exchange(one->told_notice, true))
      line->send(wire::Notice{one->job});
    if (one->knows_us) line->send(wire::Heartbeat{});
    if (one->line != line) return;
    if (now - one->heard > kMissedHeartbeats * history_.config.heartbeat_seconds) {
      history_.note([&] { return one->party->name + ": its launcher is silent"; });
      return attended(one, false);
    }
    if (now - one->looked >= kLooks) {
      one->looked = now;
      if (one->knows_us) kill_older_ranks(one, place.restarts);
      if (launchers(*one).front().restarts > place.restarts) return attended(one, true);
    }
    tick(one, line, place);
  });
}

// The connection is over.
void Holders::attended(const HolderPtr& one, bool superseded) {
  if (!one->line) return;
  const EndPtr line = std::exchange(one->line, nullptr);
  line->on_closed = nullptr;
  line->close();
  one->nobody = false;
  one->tenure->lost(wire::steady_now());
  if (superseded) one->next = one->places.size();
  later(one, 0, [this, one] { call_next(one); });
}

void Holders::ask(const HolderPtr& one) {
  using enum launcher::BaseTenure::Submitted;
  history_.call_slurm(one->party->node, [this, one] {
    if (!history_.slurm_fails) {
      const SimJob* job = history_.slurm->find(one->submitted);
      const bool over = job == nullptr || job->state == SlurmJobState::ended ||
                        (job->state == SlurmJobState::completing && !job->runs_again);
      if (over) one->tenure->heard(ended, 0, wire::steady_now());
      else one->tenure->heard(job->state == SlurmJobState::running ? runs : waits, job->restarts, wire::steady_now());
    }
    later(one, kPause, [this, one] { round(one); });
  });
}

void Holders::kill_older_ranks(const HolderPtr& one, int restarts) {
  for (const auto& generation : history_.training->all())
    if (generation->job() == one->submitted && history_.restarts_of(generation->launcher()) < restarts)
      for (std::size_t rank = 0; rank < generation->ranks().size(); ++rank)
        if (generation->ranks()[rank].party->node == one->party->node) generation->lose_rank(rank, false);
}

void Holders::leave(const HolderPtr& one, bool told) {
  if (one->leaving || history_.mutant == Mutant::immortal_keeper) return;
  one->leaving = true;
  history_.note([&] { return one->party->name + (told ? ": is told to leave" : ": leaves"); });
  later(one, history_.random.real(0.02, 0.3), [this, one, told] {
    if (one->batch || one->extension) history_.training->kill_steps(one->job);
    else history_.training->kill_steps(one->job, one->party->node);
    if (told || one->extension) return kill(one, false);
    end_remains(one);
  });
}

// base_keeper.cpp: the submitted job has ended without a launcher that could end this.
void Holders::end_remains(const HolderPtr& one) {
  history_.call_slurm(one->party->node, [this, one] {
    if (!one->party->alive) return;
    const SimJob* job = history_.slurm->find(one->submitted);
    if (!history_.slurm_fails && (job == nullptr || job->state == SlurmJobState::ended)) {
      if (!one->batch) history_.slurm->give_back(one->job);
      else
        for (const JobId id : history_.slurm->marked(one->submitted, SimJob::Kind::extension))
          history_.slurm->give_back(id);
    }
    kill(one, false);
  });
}

void Holders::kill(const HolderPtr& one, bool with_node) {
  if (!one->party->alive) return;
  one->party->alive = false;
  history_.network.died(one->party, with_node);
  one->line.reset();
  if (!with_node && (one->batch || one->extension)) tell_slurm(one);
}

// Slurm completes the job as soon as slurmctld hears that its batch script has ended.
void Holders::tell_slurm(const HolderPtr& one) {
  history_.timeline.at(history_.timeline.now() + 0.02, nullptr, [this, one] {
    if (history_.network.reaches(one->party->node, History::kHead)) return history_.slurm->over(one->job);
    history_.timeline.at(history_.timeline.now() + 0.5, nullptr, [this, one] { tell_slurm(one); });
  });
}

void Holders::kill(JobId job, const std::string& node) {
  for (const HolderPtr& one : alive())
    if (one->job == job && one->party->node == node) {
      one->batch = one->extension = false;  // Slurm ends the job itself
      kill(one, false);
    }
}

void Holders::signal(JobId job) {
  for (const HolderPtr& one : alive())
    if (one->job == job) one->noticed = true;
}

std::vector<HolderPtr> Holders::alive() const {
  std::vector<HolderPtr> list;
  for (const HolderPtr& one : holders_)
    if (one->party->alive) list.push_back(one);
  return list;
}

bool Holders::keeps(JobId job, const std::string& node) const {
  return std::any_of(holders_.begin(), holders_.end(), [&](const HolderPtr& one) {
    return one->job == job && one->party->node == node && one->party->alive;
  });
}

bool Holders::kept(JobId job, const std::string& node, int generation) const {
  return std::any_of(holders_.begin(), holders_.end(), [&](const HolderPtr& one) {
    return one->job == job && one->party->node == node && one->party->alive && generation >= one->keep.generation;
  });
}

void Holders::served(const PartyPtr& launcher, JobId submitted, JobId job, const std::string& node,
                     const Place& place) {
  served_.push_back({launcher, submitted, job, node, place});
}

void Holders::forget(const PartyPtr& launcher, JobId job) {
  std::erase_if(served_, [&](const Served& one) { return one.launcher == launcher && one.job == job; });
}

}  // namespace espalier::sim
