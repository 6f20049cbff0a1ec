#include "tests/sim/training.hpp"

#include <algorithm>

#include "tests/sim/generation.hpp"

namespace espalier::sim {
namespace {

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return "";
}

}  // namespace

std::shared_ptr<Generation> Training::start(const PartyPtr& launcher, JobId job, const launcher::WorldRequest& request,
                                            launcher::RanksCallbacks callbacks) {
  const std::string address = variable(request.environment, "ESPALIER_LAUNCHER");
  const auto colon = address.rfind(':');
  auto made = std::make_shared<Generation>(*this, launcher, job, request.generation, std::move(callbacks));
  for (const launcher::ServerId& server : launcher::servers_of(request)) {
    Generation::Rank rank;
    rank.party = std::make_shared<Party>();
    rank.party->name = "rank " + std::to_string(made->number()) + "." + std::to_string(made->ranks_.size()) +
                       " of job " + std::to_string(made->job());
    rank.party->node = server.node;
    rank.step_of = server.job;
    rank.hangs = random.chance(made->number() > 0 ? trouble.hang : trouble.hang / 5);
    made->ranks_.push_back(std::move(rank));
  }
  made->settles_after_ = random.below(4);
  all_.push_back(made);
  made->launch(address.substr(0, colon), static_cast<std::uint16_t>(std::stoul(address.substr(colon + 1))));
  return made;
}

Generation* Training::find(JobId job, int generation) const {
  for (auto one = all_.rbegin(); one != all_.rend(); ++one)  // a requeued job may count anew
    if ((*one)->job() == job && (*one)->number() == generation) return one->get();
  return nullptr;
}

bool Training::crowds(const Generation& one) const {
  return std::any_of(all_.begin(), all_.end(), [&](const auto& other) {
    return other.get() != &one && other->job() == one.job() && other->running() && other->ranks().front().assigned;
  });
}

std::int64_t Training::left_of(JobId job, const std::string& reader, int told) const {
  std::vector<Generation::Link> chain;
  for (auto one = all_.rbegin(); one != all_.rend(); ++one)
    if ((*one)->job() == job && (chain.empty() || (*one)->era_ == chain.front().generation->era_) &&
        ((*one)->number_ == told ||
         std::any_of((*one)->ranks_.begin(), (*one)->ranks_.end(), [](const auto& rank) { return rank.committed; })))
      chain.push_back({one->get(), INT64_MAX});
  for (std::size_t i = 1; i < chain.size(); ++i)
    chain[i].until = std::min(chain[i - 1].until, chain[i - 1].generation->begun_);
  if (chain.empty()) return 0;
  const auto left = chain.front().generation->newest_left(chain, reader, false);
  return left.generation == nullptr ? 0 : left.generation->step_;
}

int Training::newest_committed(JobId step_of) const {
  int newest = 0;
  for (const auto& one : all_)
    for (const auto& rank : one->ranks())
      if (rank.committed && rank.step_of == step_of) newest = std::max(newest, one->number());
  return newest;
}

void Training::signal_steps(JobId job) {
  for (const auto& one : all_) one->notice(job);
}

void Training::kill_steps(JobId job, const std::string& node) {
  for (const auto& one : all_) one->lose_server(job, node);
}

void Training::kill_node(const std::string& node) {
  for (const auto& one : all_)
    for (std::size_t r = 0; r < one->ranks().size(); ++r)
      if (one->ranks()[r].party->node == node) one->lose_rank(r, true);
}

std::vector<PartyPtr> Training::ranks_alive() const {
  std::vector<PartyPtr> list;
  for (const auto& one : all_)
    for (const auto& rank : one->ranks())
      if (!rank.gone) list.push_back(rank.party);
  return list;
}

void Training::kill_rank(const PartyPtr& party) {
  for (const auto& one : all_)
    for (std::size_t r = 0; r < one->ranks().size(); ++r)
      if (one->ranks()[r].party == party) one->lose_rank(r, false);
}

}  // namespace espalier::sim
