// collectives runs under mpirun. It compares every operation of the MPI backend with sums made by
// hand, for all types, uneven sizes and messages in pieces. Prints each difference and ends with 1.
#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "torchrt/comm/mpi_group.hpp"
#include "torchrt/comm/mpi_transport.hpp"
#include "torchrt/comm/world.hpp"

namespace {

using namespace espalier::torchrt;

int problems = 0;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  ++problems;
  std::fprintf(stderr, "collectives: %s\n", what.c_str());
}

// Floating-point values are thirds, so that their float32 sum depends on the order.
template <class Number>
Number value(int rank, std::size_t i) {
  return static_cast<Number>((static_cast<double>(i % 97) + 1) * (rank + 1) / (std::is_integral_v<Number> ? 1.0 : 3.0));
}

template <class Number>
std::vector<Number> values(int rank, std::size_t count) {
  std::vector<Number> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = value<Number>(rank, i);
  return made;
}

template <class Number>
Buffer buffer(std::vector<Number>& numbers, DataType type) {
  return {numbers.data(), numbers.size(), type};
}

template <class Number>
Number in_order(int ranks, std::size_t i) {
  Number sum = value<Number>(0, i);
  for (int rank = 1; rank < ranks; ++rank) sum += value<Number>(rank, i);
  return sum;
}

std::vector<Range> uneven_parts(std::size_t count, int ranks) {
  std::vector<Range> parts;
  std::int64_t first = 0;
  // The first rank's part is empty, later parts grow.
  for (int rank = 0; rank < ranks; ++rank) {
    const auto size = static_cast<std::int64_t>(count) * 2 * rank / (ranks * std::max(1, ranks - 1));
    const std::int64_t end = rank + 1 == ranks ? static_cast<std::int64_t>(count) : first + size;
    parts.push_back({first, end - first});
    first = end;
  }
  return parts;
}

template <class Number>
void check_group(Group& group, DataType type, std::size_t count, const std::string& name) {
  const int ranks = group.size(), rank = group.rank();
  std::vector<Number> numbers = values<Number>(rank, count);
  group.sum(buffer(numbers, type));
  bool good = true;
  for (std::size_t i = 0; i < count; ++i) good = good && numbers[i] == in_order<Number>(ranks, i);
  expect(good, name + ": the ordered sum is not made in order");

  numbers = values<Number>(rank, count);
  group.max(buffer(numbers, type));
  good = numbers == values<Number>(ranks - 1, count);
  expect(good, name + ": the maximum");

  numbers = values<Number>(rank, count);
  const auto pending = group.start_sum(buffer(numbers, type));
  while (!pending->poll()) {
  }
  const auto near = [&](Number a, Number b) {
    return std::abs(static_cast<double>(a - b)) <= 1e-6 * std::abs(static_cast<double>(b));
  };
  good = true;
  for (std::size_t i = 0; i < count; ++i) good = good && near(numbers[i], in_order<Number>(ranks, i));
  expect(good, name + ": the sum");

  const std::vector<Range> parts = uneven_parts(count, ranks);
  const Range own = parts[static_cast<std::size_t>(rank)];
  numbers = values<Number>(rank, count);
  group.start_reduce_scatter(buffer(numbers, type), parts)->wait();
  good = true;
  for (auto i = static_cast<std::size_t>(own.first); i < static_cast<std::size_t>(own.end()); ++i)
    good = good && near(numbers[i], in_order<Number>(ranks, i));
  expect(good, name + ": the scattered sum");

  const std::vector<Number> whole = values<Number>(7, count);
  std::vector<Number> gathered(count, Number{});
  std::copy(whole.begin() + own.first, whole.begin() + own.end(), gathered.begin() + own.first);
  group.start_gather(buffer(gathered, type), parts)->wait();
  expect(gathered == whole, name + ": the gathered parts");
}

// Sums, scattered sums and gathered parts are under way at the same time, and are waited for last to first. A message
// between ranks lets them go on, too.
void check_many_at_once(Group& group, const std::string& name) {
  constexpr std::size_t kCount = 60001;
  const std::vector<Range> parts = uneven_parts(kCount, group.size());
  const Range own = parts[static_cast<std::size_t>(group.rank())];
  const std::vector<float> whole = values<float>(7, kCount);
  std::vector<std::vector<float>> numbers;
  for (int i = 0; i < 6; ++i) numbers.push_back(values<float>(group.rank() + i, kCount));
  std::vector<std::unique_ptr<Pending>> pending;
  for (int i = 0; i < 6; ++i) {
    const Buffer all = buffer(numbers[static_cast<std::size_t>(i)], DataType::float32);
    if (i % 3 == 0) pending.push_back(group.start_sum(all));
    if (i % 3 == 1) pending.push_back(group.start_reduce_scatter(all, parts));
    if (i % 3 == 2) {
      std::copy(whole.begin(), whole.end(), numbers[static_cast<std::size_t>(i)].begin());
      pending.push_back(group.start_gather(all, parts));
    }
  }
  for (auto one = pending.rbegin(); one != pending.rend(); ++one) (*one)->wait();
  bool good = true;
  for (int i = 0; i < 6; ++i)
    for (std::size_t at = 0; at < kCount; ++at) {
      const bool here =
          i % 3 == 0 || (static_cast<std::int64_t>(at) >= own.first && static_cast<std::int64_t>(at) < own.end());
      double sum = 0;
      for (int rank = 0; rank < group.size(); ++rank) sum += value<float>(rank + i, at);
      const double wanted = i % 3 == 2 ? whole[at] : sum;
      const double found = numbers[static_cast<std::size_t>(i)][at];
      if (i % 3 == 2 || here) good = good && std::abs(found - wanted) <= 1e-6 * std::abs(wanted);
    }
  expect(good, name + ": several operations under way at once");
}

// Between two operations a rank polls its newest sum, and its messages. Each lets older sums go on, also when the
// newest one is done and no message is under way.
void check_older_goes_on(Group& group, const std::string& name) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kMany = 1 << 20;
  MpiTransport idle;
  // None; along a tree; round a ring.
  for (const std::size_t few : {std::size_t{0}, std::size_t{1}, std::size_t{50021}}) {
    std::vector<float> older = values<float>(group.rank(), kMany), newer = values<float>(group.rank(), few);
    const auto first = group.start_sum(buffer(older, DataType::float32));
    const auto second = few > 0 ? group.start_sum(buffer(newer, DataType::float32)) : nullptr;
    if (second) second->wait();
    bool good = false;
    for (const Clock::time_point end = Clock::now() + std::chrono::seconds(20); !good && Clock::now() < end;) {
      if (second) second->poll();
      else idle.poll();
      good = true;
      for (std::size_t at = 0; good && at < kMany; ++at) {
        double sum = 0;
        for (int rank = 0; rank < group.size(); ++rank) sum += value<float>(rank, at);
        good = std::abs(older[at] - sum) <= 1e-6 * std::abs(sum);
      }
    }
    expect(good, name + ": a sum stands still while a newer one is done, " + std::to_string(few) + " elements");
    first->wait();
  }
}

void check_transport(const World& world, std::size_t most) {
  MpiTransport transport(most);
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  if (world.size() > 1) transport.connect({{Lane::forward, {next, before}}, {Lane::backward, {next, before}}});
  std::vector<float> out = values<float>(world.rank(), 1000), in(1000), again(1000);
  const auto keep = std::make_shared<const int>(1);
  transport.post(buffer(out, DataType::float32), {next, Lane::forward, 3}, keep);
  transport.post(buffer(out, DataType::float32), {next, Lane::backward, 3}, keep);
  const auto other_lane = transport.start_receive(buffer(again, DataType::float32), {before, Lane::backward, 3});
  transport.start_receive(buffer(in, DataType::float32), {before, Lane::forward, 3})->wait();
  other_lane->wait();
  transport.drain();
  expect(in == values<float>(before, 1000) && again == in, "a message is not what was sent");
  expect(keep.use_count() == 1, "a message is kept after it has left");
}

// Everybody's bytes, of uneven sizes and none: at once, and in rounds of at most so many bytes.
void check_gather(World& world) {
  const auto bytes_of = [](int rank) {
    std::vector<char> bytes(static_cast<std::size_t>(rank * 97 % 250));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(rank * 31 + static_cast<int>(i));
    return bytes;
  };
  for (const std::int64_t most : {std::int64_t{INT_MAX}, std::int64_t{64}, std::int64_t{1}}) {
    const std::vector<std::vector<char>> all = world.gather(bytes_of(world.rank()), most);
    bool good = static_cast<int>(all.size()) == world.size();
    for (int rank = 0; good && rank < world.size(); ++rank)
      good = all[static_cast<std::size_t>(rank)] == bytes_of(rank);
    expect(good, "the gathered bytes, at most " + std::to_string(most) + " at once");
  }
  for (const std::vector<char>& one : world.gather({})) expect(one.empty(), "nothing is gathered");
}

// A rank that fails must be able to report it. Its unwinding must not wait for a message that never
// comes.
void check_unwound(const World& world) {
  static float never = 0;  // the message may still arrive later
  MpiTransport transport;
  try {
    const auto pending =
        transport.start_receive({&never, 1, DataType::float32}, {(world.rank() + 1) % world.size(), Lane::forward, 4});
    throw espalier::Error("on its way");
  } catch (const espalier::Error&) {
  }
}

void check_highest_tag() {
  MpiTransport transport;
  float number = 1;
  for (const bool sends : {true, false}) try {
      // Each number has four tags, one for each lane. This number's first tag is the first one above
      // the largest int.
      const Address beyond{0, Lane::forward, 1 << 29};
      if (sends) transport.post({&number, 1, DataType::float32}, beyond, nullptr);
      else transport.start_receive({&number, 1, DataType::float32}, beyond);
      expect(false, "a tag beyond MPI's is taken");
    } catch (const espalier::Error& error) {
      expect(std::string(error.what()).find("needs tag 2147483648, and this MPI ends at ") != std::string::npos,
             error.what());
    }
}

void check_aborted(World& world, Group& group) {
  using Clock = std::chrono::steady_clock;
  static std::vector<float> large(1 << 20);  // a peer's part of it may still arrive
  std::unique_ptr<Pending> sum;
  if (group.rank() == 0 && group.size() > 1) {
    sum = group.start_sum(buffer(large, DataType::float32));
    group.abort();
    try {
      sum->wait();
      expect(false, "a sum of an aborted group does not give up");
    } catch (const espalier::Error&) {
    }
  }
  world.barrier();
  // The others' messages arrive at the sum that rank 0 has given up, while rank 0 works at something else.
  if (group.rank() != 0) sum = group.start_sum(buffer(large, DataType::float32));
  for (const Clock::time_point end = Clock::now() + std::chrono::milliseconds(300); sum && Clock::now() < end;)
    sum->poll();
  group.abort();
  if (group.rank() != 0 || group.size() == 1) return;
  float alone = 1;
  try {
    group.sum({&alone, 1, DataType::float32});
    expect(false, "an aborted group does not give up");
  } catch (const espalier::Error&) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  World world(&argc, &argv);
  std::vector<int> everyone(static_cast<std::size_t>(world.size())), odd_or_even;
  std::iota(everyone.begin(), everyone.end(), 0);
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) odd_or_even.push_back(rank);
  for (const std::size_t most : {std::size_t{1} << 30, std::size_t{100}}) {  // whole, then pieces
    MpiGroup all(everyone, most), half(odd_or_even, most);
    for (Group* group : {static_cast<Group*>(&all), static_cast<Group*>(&half)})
      // 50,021 elements and more go round a ring, where they need not go in pieces.
      for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{3001}, std::size_t{50021}}) {
        const std::string name = std::to_string(group->size()) + " ranks, " + std::to_string(count) + " elements";
        check_group<float>(*group, DataType::float32, count, name + " of float32");
        check_group<double>(*group, DataType::float64, count, name + " of float64");
        check_group<std::int64_t>(*group, DataType::int64, count, name + " of int64");
      }
    check_many_at_once(all, std::to_string(all.size()) + " ranks");
    check_many_at_once(half, std::to_string(half.size()) + " ranks");
    if (most > 100) check_older_goes_on(all, std::to_string(all.size()) + " ranks");
    check_transport(world, most);
  }
  std::vector<double> one = {world.rank() + 1.0};
  world.sum(one);
  expect(one[0] == world.size() * (world.size() + 1) / 2.0, "the sum of all ranks");
  expect(world.minimum(10 - world.rank()) == 11 - world.size(), "the least of all ranks");
  char word[4] = {};
  if (world.rank() == 0) std::copy_n("all", 4, word);
  world.broadcast(word);
  expect(std::string(word) == "all", "the broadcast");
  check_gather(world);
  world.connect();
  {
    MpiGroup given_up(everyone);
    world.barrier();
    check_aborted(world, given_up);
    world.barrier();
  }
  check_unwound(world);
  check_highest_tag();
  const int bad = world.minimum(problems == 0 ? 1 : 0);
  world.finalize();
  return bad == 1 ? 0 : 1;
}
