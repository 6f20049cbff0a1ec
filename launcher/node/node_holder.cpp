#include "launcher/node/node_holder.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/node/keeper.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/endpoint.hpp"

namespace espalier::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMissedHeartbeats = 10;
constexpr milliseconds kPause{500};
constexpr std::chrono::seconds kLooks{5};  // beside a launcher, for a newer one

bool over(const std::optional<SlurmJob>& job) {
  using enum SlurmJob::State;
  return !job || job->state == ended || (job->state == completing && !job->runs_again);
}

void ask_about(JobId submitted, BaseTenure& tenure) {
  try {
    const auto job = load_job(submitted);
    tenure.heard(state_of(job), job ? job->restarts : 0, Clock::now());
  } catch (const Error&) {
    // slurmctld is away: asked again
  }
}

}  // namespace

BaseTenure::Submitted state_of(const std::optional<SlurmJob>& submitted) {
  if (over(submitted)) return BaseTenure::Submitted::ended;
  const bool runs = submitted->state == SlurmJob::State::running && !submitted->suspended;
  return runs ? BaseTenure::Submitted::runs : BaseTenure::Submitted::waits;
}

bool has_ended(JobId submitted) { return over(load_job(submitted)); }

NodeHolder::NodeHolder(Watcher& watcher, JobId submitted, std::string vaults, BaseTenure& tenure, Vault* vault,
                       bool extension)
    : watcher_(watcher),
      submitted_(submitted),
      vaults_(std::move(vaults)),
      tenure_(tenure),
      vault_(vault),
      extension_(extension) {}

// The launchers that have processes on this node, and `last`, the newest ones first. One that is older than a launcher
// that has accepted this keeper may have been cut off, and does not know that Slurm has requeued its job: it is none.
std::vector<LauncherPlace> NodeHolder::launchers(const LauncherPlace& last) const {
  auto places = launchers_on_this_node(submitted_, vaults_);
  if (std::find(places.begin(), places.end(), last) == places.end()) places.push_back(last);
  std::erase_if(places, [&](const LauncherPlace& place) { return place.restarts < newest_; });
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.restarts > b.restarts; });
  return places;
}

// Serves one connection. Throws Error when the connection is lost, or the launcher is silent.
NodeHolder::Attended NodeHolder::attend(wire::Client& client, const LauncherPlace& place) {
  client.send(wire::KeeperHello{watcher_.context.job, watcher_.context.node, extension_, continuation_});
  bool knows_us = false, told_notice = false;
  auto sent = Clock::now(), heard = sent, looked = sent;
  for (;;) {
    watcher_.wait(client.fd());
    const auto now = Clock::now();
    if (knows_us && leaves() && !std::exchange(told_notice, true)) client.send(wire::Notice{watcher_.context.job});
    if (knows_us && now - sent >= watcher_.heartbeat) {
      client.send(wire::Heartbeat{});
      sent = now;
    }
    while (const auto frame = client.receive(milliseconds(0))) {
      if (frame->type == wire::Refused::type) return Attended::refused;
      if (frame->type == wire::GiveBack::type) return Attended::told;
      if (!knows_us) tenure_.found();
      if (!knows_us) kill_rank_servers(vaults_, newest_ = place.restarts);
      knows_us = true;
      heard = now;
      let_go(vault_, *frame);
      if (frame->type == wire::Continuation::type) continuation_ = wire::from_frame<wire::Continuation>(*frame);
    }
    if (now - heard > kMissedHeartbeats * watcher_.heartbeat) throw wire::ConnectionLost("the launcher is silent");
    if (now - looked < kLooks) continue;
    looked = now;
    if (knows_us) kill_rank_servers(vaults_, place.restarts);
    if (launchers(place).front().restarts > place.restarts) return Attended::superseded;
  }
}

bool NodeHolder::hold() {
  LauncherPlace last = own_launcher();
  newest_ = last.restarts;
  while (tenure_.stays(Clock::now())) {
    bool nobody = true;
    // The next launcher is known by the rank server that it starts on this node.
    for (const LauncherPlace& place : launchers(last)) {
      Attended how = Attended::refused;
      try {
        auto client = call_on(place);
        last = place;
        how = attend(client, place);
        nobody = false;
      } catch (const wire::NobodyListens&) {
      } catch (const Error&) {
        nobody = false;
      }
      if (how == Attended::told) return true;
      tenure_.lost(Clock::now());
      if (how == Attended::superseded) break;
    }
    if (leaves()) return false;
    tenure_.looked(Clock::now(), nobody);
    if (tenure_.asks(Clock::now())) ask_about(submitted_, tenure_);
    watcher_.wait(-1, kPause);
  }
  return false;
}

}  // namespace espalier::launcher
