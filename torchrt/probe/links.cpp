#include "torchrt/probe/links.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include "torchrt/comm/waits.hpp"
#include "torchrt/probe/rounds.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;
constexpr double kEnough = 0.3;  // seconds of one measurement
// Messages between processors: a rank that shares its core finds bytes that came while it waited for
// it, and a short measurement then looks too fast.
constexpr double kEnoughOnProcessors = 1.2;
constexpr int kMostMessages = 1 << 10;

Buffer bytes_at(void* memory, std::size_t bytes, DataType type = DataType::float32) {
  return {memory, bytes / size_of(type), type};
}

void wait_for(Pending& pending) {
  for (Backoff backoff; !pending.poll();) backoff.pause();
}

}  // namespace

LinkProbe::LinkProbe(World& world, Device& device, Fabric& fabric)
    : world_(world),
      device_(device),
      transport_(fabric.transport()),
      largest_((device.kind() == DeviceKind::cuda ? 256 : 16) * kMegabyte),
      memory_(device.allocate(3 * largest_, "probe")) {}

// Seconds of one message; two receives are under way at any time. The time is taken in two ways, and
// the longer one counts, since each is too short at times. The mean of all messages is too short where
// a link that shapes its traffic lets the first ones pass faster. The mean of the last three quarters
// is too short where much of these had arrived before their clock began: MPI may send two messages in
// turns, and the receiving rank may have waited for a core.
double LinkProbe::receive(int from, std::size_t bytes, int count) {
  const int untimed = std::max(1, count / 4);
  std::deque<std::unique_ptr<Pending>> under_way;
  char* const memory = static_cast<char*>(memory_->data());
  int begun = 0;
  const auto begin = [&] {
    Buffer into = bytes_at(memory + (1 + static_cast<std::size_t>(begun++ % 2)) * largest_, bytes);
    under_way.push_back(transport_.start_receive(into, {from, Lane::forward, 0}));
  };
  const auto start = ProbeClock::now();
  auto later = start;
  begin();
  for (int done = 0; done < count; ++done) {
    if (begun < count) begin();
    wait_for(*under_way.front());
    under_way.pop_front();
    if (done + 1 == untimed) later = ProbeClock::now();
  }
  return std::max(seconds_since(start) / count, seconds_since(later) / (count - untimed));
}

std::vector<double> LinkProbe::stream(const std::vector<std::pair<int, int>>& ways, std::size_t bytes) {
  const int self = world_.rank();
  std::optional<int> to, from;
  for (const auto& [sender, receiver] : ways) {
    if (sender == self) to = receiver;
    if (receiver == self) from = sender;
  }
  if (to || from) transport_.connect({{Lane::forward, {to ? *to : *from}}});
  double seconds = 0;  // of one message
  const double enough = device_.kind() == DeviceKind::cuda ? kEnough : kEnoughOnProcessors;
  repeat_until(world_, enough, 4, kMostMessages, [&](int messages) -> std::optional<double> {
    if (to) {
      for (int i = 0; i < messages; ++i)
        transport_.post(bytes_at(memory_->data(), bytes), {*to, Lane::forward, 0}, nullptr);
      transport_.drain();
    }
    if (!from) return std::nullopt;
    seconds = receive(*from, bytes, messages);
    return seconds * messages;
  });
  const double rate = from ? static_cast<double>(bytes) / seconds : 0;
  const auto all = world_.gather({reinterpret_cast<const char*>(&rate), sizeof rate});
  std::vector<double> rates(ways.size());
  for (std::size_t i = 0; i < ways.size(); ++i)
    std::memcpy(&rates[i], all[static_cast<std::size_t>(ways[i].second)].data(), sizeof rate);
  return rates;
}

double LinkProbe::reduce(Group* group, bool measures, std::size_t bytes, bool activations) {
  const bool gpu = device_.kind() == DeviceKind::cuda;
  const Buffer buffer = bytes_at(memory_->data(), bytes, gpu && activations ? DataType::bfloat16 : DataType::float32);
  double seconds = 0;
  const int count = repeat_until(world_, kEnough / 2, 2, kMostMessages, [&](int times) -> std::optional<double> {
    if (!measures || group == nullptr) return std::nullopt;
    const auto start = ProbeClock::now();
    for (int i = 0; i < times; ++i) {
      if (activations) group->sum(buffer);
      else group->start_sum(buffer)->wait();
    }
    device_.wait();
    return seconds = seconds_since(start);
  });
  return largest_of(seconds) / count;
}

double LinkProbe::largest_of(double value) {
  double largest = 0;
  for (const auto& bytes : world_.gather({reinterpret_cast<const char*>(&value), sizeof value})) {
    double other = 0;
    std::memcpy(&other, bytes.data(), sizeof other);
    largest = std::max(largest, other);
  }
  return largest;
}

}  // namespace espalier::torchrt
