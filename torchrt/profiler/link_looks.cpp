#include "torchrt/profiler/link_looks.hpp"

#include <algorithm>
#include <chrono>

#include "torchrt/comm/waits.hpp"
#include "torchrt/device/device_error.hpp"

namespace espalier::torchrt {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kShort = std::size_t{64} << 10, kLong = std::size_t{1} << 20;
constexpr int kShortTrips = 3, kLongTrips = 4;
constexpr double kTripSeconds = 0.004;  // a long trip should take no longer
constexpr double kMostSeconds = 0.02;   // where a short trip takes longer, no more are made
constexpr int kSoon = 3;                // looks that come soon after one another
constexpr double kLookSeconds = 0.05;   // no round begins later
constexpr int kTag = (1 << 20) - 2;     // no micro-batch's, and not that of MpiTransport::connect()

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

LinkLooks::LinkLooks(int seconds, World& world, Device& device, RankState& state)
    : seconds_(seconds), world_(world), device_(device), state_(state) {}

// Every rank learns whether all of them can look: nothing but memory may be missing.
bool LinkLooks::prepare() {
  rounds_ = link_rounds(state_.plan());
  if (rounds_.empty()) return false;
  bool mine = false;
  Peers peers;
  for (const Round& round : rounds_)
    for (const RankPair& pair : round) {
      if (pair.from != world_.rank() && pair.to != world_.rank()) continue;
      mine = true;
      const int other = pair.from == world_.rank() ? pair.to : pair.from;
      peers[Lane::forward].insert(other);
      peers[Lane::backward].insert(other);
    }
  int ready = 1;
  try {
    if (mine) memory_ = device_.allocate(kLong, "espalier-links");
  } catch (const DeviceError&) {
    throw;  // this rank is lost, as wherever else its GPU fails; the launcher ends those that wait for it
  } catch (const Error&) {
    ready = 0;
  }
  if (world_.minimum(ready) == 0) return false;
  state_.transport().connect(peers);
  return true;
}

void LinkLooks::begin(bool look_now) {
  begun_ = seconds_ > 0 && prepare();
  if (begun_ && look_now) look();
  next_at_ = look_now ? seconds_ / 10.0 : 0;
}

void LinkLooks::at(double since_first) {
  if (!begun_ || since_first < next_at_) return;
  look();
  next_at_ = since_first + (newest_.number < kSoon ? seconds_ / 10.0 : seconds_);
}

// After a round's short trips all ranks know all rates. So both ranks of a pair know how long the other trips are.
void LinkLooks::look() {
  const Clock::time_point start = Clock::now();
  LinkLook look{newest_.number + 1, {}};
  const auto gpus = state_.plan().ranks();
  const auto node = [&](int rank) { return gpus[static_cast<std::size_t>(rank)].node; };
  for (std::size_t done = 0; done < rounds_.size(); ++done) {
    const Round& round = rounds_[next_round_];
    next_round_ = (next_round_ + 1) % rounds_.size();
    std::vector<double> brief(round.size()), best(round.size() + 1);  // bytes per second
    for (std::size_t i = 0; i < round.size(); ++i) brief[i] = measure(round[i], {kShort, kShortTrips});
    world_.sum(brief);
    for (std::size_t i = 0; i < round.size(); ++i) best[i] = measure(round[i], longer(brief[i]));
    best.back() = world_.rank() == 0 ? seconds_since(start) : 0;
    world_.sum(best);
    for (std::size_t i = 0; i < round.size(); ++i)
      look.figures.push_back({node(round[i].from), node(round[i].to), std::max(best[i], brief[i]) / 1e9});
    if (best.back() >= kLookSeconds) break;
  }
  newest_ = std::move(look);
}

LinkLooks::Trips LinkLooks::longer(double rate) {
  if (2 * kShort > kMostSeconds * rate) return {};
  const double fit = std::clamp(kTripSeconds / 2 * rate, double{kShort}, double{kLong});
  return {static_cast<std::size_t>(fit) / kShort * kShort, kLongTrips};
}

// Bytes per second of the fastest trip, told by the first rank; 0 on others.
double LinkLooks::measure(const RankPair& pair, const Trips& trips) {
  const bool first = pair.from == world_.rank();
  if (!first && pair.to != world_.rank()) return 0;
  double least = 0;
  for (int i = 0; i < trips.count; ++i) {
    const Clock::time_point start = Clock::now();
    if (first) {
      send(pair.to, trips.bytes);
      receive(pair.to, trips.bytes);
    } else {
      receive(pair.from, trips.bytes);
      send(pair.from, trips.bytes);
    }
    const double seconds = seconds_since(start);
    if (i == 0 || seconds < least) least = seconds;
  }
  return first && least > 0 ? 2 * static_cast<double>(trips.bytes) / least : 0;
}

// Messages of a lane go one way only: from the lower rank, or to it.
void LinkLooks::send(int to, std::size_t bytes) {
  const Lane lane = to > world_.rank() ? Lane::forward : Lane::backward;
  state_.transport().post({memory_->data(), bytes / sizeof(float), DataType::float32}, {to, lane, kTag}, nullptr);
  state_.transport().drain();
}

void LinkLooks::receive(int from, std::size_t bytes) {
  const Lane lane = from < world_.rank() ? Lane::forward : Lane::backward;
  const auto pending =
      state_.transport().start_receive({memory_->data(), bytes / sizeof(float), DataType::float32}, {from, lane, kTag});
  for (Backoff backoff; !pending->poll();) backoff.pause();
}

}  // namespace espalier::torchrt
