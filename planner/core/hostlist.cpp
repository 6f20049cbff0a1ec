#include "planner/core/hostlist.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/slurm/hosts.h"

namespace espalier {
namespace {

constexpr std::size_t kLargestNumber = std::size_t{1} << 60;  // one more digit behind it still fits a size_t

using Hosts = std::unique_ptr<espalier_hosts, decltype(&espalier_hosts_destroy)>;
using Text = std::unique_ptr<char, decltype(&std::free)>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What the decimal number at the start of `text` says, or `limit` if that is less. Takes its digits off `text`.
std::size_t take_number(std::string_view& text, std::size_t limit) {
  std::size_t number = 0;
  for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1))
    number = std::min(limit, 10 * number + static_cast<std::size_t>(text.front() - '0'));
  return number;
}

// How many numbers the text between two brackets lists: 4 for "1-3,7". At most `limit`.
std::size_t listed_numbers(std::string_view inside, std::size_t limit) {
  std::size_t sum = 0;
  while (!inside.empty()) {
    const std::size_t comma = std::min(inside.find(','), inside.size());
    std::string_view range = inside.substr(0, comma);
    inside.remove_prefix(std::min(comma + 1, inside.size()));
    // A node's number may be far above the limit, as in "n[1000001-1000003]".
    const std::size_t low = take_number(range, kLargestNumber);
    std::size_t high = low;
    if (!range.empty() && range.front() == '-') {
      range.remove_prefix(1);
      high = take_number(range, kLargestNumber);
    }
    sum = std::min(limit, sum + (high > low ? std::min(limit, high - low) : 0) + 1);
  }
  return sum;
}

// How many names `text` has: 6 for "n[1-3][5,6]", and `most` + 1 for more than `most`. libslurm would make a million
// names of "n[1-1000][1-1000]" before it could be asked how many they are.
std::size_t names_in(std::string_view text, std::size_t most) {
  const std::size_t limit = most + 1;
  std::size_t sum = 0, product = 1;
  while (!text.empty()) {
    const std::size_t next = text.find_first_of("[, \t\n");
    if (next == text.npos) break;
    const bool bracket = text[next] == '[';
    text.remove_prefix(next + 1);
    if (!bracket) {
      sum = std::min(limit, sum + product);
      product = 1;
      continue;
    }
    const std::size_t end = std::min(text.find(']'), text.size());
    product = std::min(limit, product * std::max<std::size_t>(1, listed_numbers(text.substr(0, end), limit)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::min(limit, sum + product);
}

}  // namespace

std::vector<std::string> expand_hosts(const char* text, std::size_t most) {
  std::vector<std::string> names;
  if (text == nullptr || *text == '\0') return names;
  const auto too_many = [&] {
    return Error("host list " + std::string(text).substr(0, 64) + ": names more than " + std::to_string(most) +
                 " hosts");
  };
  if (names_in(text, most) > most) throw too_many();
  const Hosts list(espalier_hosts_create(text), espalier_hosts_destroy);
  if (!list) return names;
  while (const auto name = Text(espalier_hosts_shift(list.get()), std::free)) {
    if (names.size() == most) throw too_many();
    names.emplace_back(name.get());
  }
  return names;
}

std::string fold_hosts(const std::vector<std::string>& names) {
  const Hosts list(espalier_hosts_create(nullptr), espalier_hosts_destroy);
  if (!list) return "";
  for (const std::string& name : names) espalier_hosts_push(list.get(), name.c_str());
  const Text text(espalier_hosts_fold(list.get()), std::free);
  return text ? text.get() : "";
}

}  // namespace espalier
