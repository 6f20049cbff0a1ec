#include "planner/core/gres.hpp"

#include <algorithm>
#include <charconv>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

// Splits at commas that are not inside parentheses.
std::vector<std::string> entries(const std::string& text) {
  std::vector<std::string> list(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) list.emplace_back();
    else list.back() += c;
  }
  return list;
}

int number(const std::string& text, const std::string& whole) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 100000)
    throw Error("gres \"" + whole + "\": \"" + text + "\" is no number");
  return value;
}

// Adds to a sum that a text without end must not make overflow.
void add(int& sum, int more, const std::string& whole) {
  constexpr int kMost = 1 << 20;
  sum += more;
  if (sum > kMost) throw Error("gres \"" + whole.substr(0, 100) + "\": counts more GPUs than any node has");
}

void add_indices(std::string list, const std::string& whole, std::vector<int>& out) {
  constexpr std::size_t kMost = 1 << 16;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string range = list.substr(begin, end - begin);
    if (const auto dash = range.find('-'); dash == std::string::npos) out.push_back(number(range, whole));
    else
      for (int i = number(range.substr(0, dash), whole), last = number(range.substr(dash + 1), whole); i <= last; ++i)
        out.push_back(i);
    if (out.size() > kMost) throw Error("gres \"" + whole.substr(0, 100) + "\": names more GPUs than any node has");
    begin = end + 1;
  }
}

}  // namespace

std::set<std::string> gpu_types(const std::string& text) {
  std::set<std::string> types;
  for (std::string entry : entries(text)) {
    if (entry.starts_with("gres:") || entry.starts_with("gres/")) entry.erase(0, 5);
    if (!entry.starts_with("gpu:")) continue;
    const std::string type = entry.substr(4, entry.find_first_of(":=(", 4) - 4);
    if (type.find_first_not_of("0123456789kK") != std::string::npos) types.insert(type);
  }
  return types;
}

std::map<std::string, int> gpu_counts(const std::string& text) {
  std::map<std::string, int> counts;
  for (const std::string& entry : entries(text)) {
    const GpuGres one = parse_gpu_gres(entry);
    if (one.count > 0) add(counts[one.type], one.count, text);
  }
  return counts;
}

std::vector<SharedGres> shared_gres(const std::string& text) {
  std::vector<SharedGres> found;
  for (std::string entry : entries(text)) {
    if (entry.starts_with("gres:")) entry.erase(0, 5);
    if (!entry.starts_with("shard:") && !entry.starts_with("mps:")) continue;
    std::string each;
    if (const auto open = entry.find('('); open != std::string::npos) {
      each = entry.substr(open + 1, entry.find(')', open) - open - 1);
      entry.erase(open);
    }
    SharedGres& one = found.emplace_back();
    const std::string count = entry.substr(entry.rfind(':') + 1);
    if (!count.empty() && count.find_first_not_of("0123456789") == std::string::npos) one.used = number(count, text);
    if (each.find_first_not_of("0123456789/,") != std::string::npos) continue;  // "IDX:N/A"
    for (std::size_t begin = 0; begin < each.size();) {
      const std::size_t end = std::min(each.find(',', begin), each.size());
      const std::string pair = each.substr(begin, end - begin);
      one.by_gpu.push_back(number(pair.substr(0, pair.find('/')), text));
      begin = end + 1;
    }
  }
  return found;
}

bool is_gpu_slice(const std::string& type) {
  for (std::size_t at = type.find("g."); at != std::string::npos; at = type.find("g.", at + 1)) {
    const std::size_t end = type.find_first_not_of("0123456789", at + 2);
    const bool before = at > 0 && type[at - 1] >= '0' && type[at - 1] <= '9';
    if (before && end > at + 2 && end != std::string::npos && type.compare(end, 2, "gb") == 0) return true;
  }
  return false;
}

std::optional<std::string> lent_type(const std::string& gres) {
  std::optional<std::string> chosen;
  int most = 0;
  for (const auto& [type, count] : gpu_counts(gres)) {
    if (is_gpu_slice(type) || count <= most) continue;
    chosen = type;
    most = count;
  }
  return chosen;
}

GpuGres parse_gpu_gres(const std::string& text) {
  GpuGres result;
  for (std::string entry : entries(text)) {
    if (entry.rfind("gres:", 0) == 0) entry.erase(0, 5);
    if (entry.rfind("gpu:", 0) != 0 && entry != "gpu") continue;
    std::string parentheses;
    if (const auto open = entry.find('('); open != std::string::npos) {
      parentheses = entry.substr(open + 1, entry.find(')', open) - open - 1);
      entry.erase(open);
    }
    const auto colon = entry.find(':');
    const auto last = entry.rfind(':');
    if (colon == std::string::npos) {
      add(result.count, 1, text);
    } else {
      const std::string count = entry.substr(last + 1);
      // "gpu:h100" without a count means one.
      if (count.find_first_not_of("0123456789") == std::string::npos && !count.empty()) {
        add(result.count, number(count, text), text);
        if (last != colon && result.type.empty()) result.type = entry.substr(colon + 1, last - colon - 1);
      } else {
        add(result.count, 1, text);
        if (result.type.empty()) result.type = entry.substr(colon + 1);
      }
    }
    if (parentheses.rfind("IDX:", 0) == 0 && parentheses != "IDX:N/A")
      add_indices(parentheses.substr(4), text, result.indices);
  }
  std::sort(result.indices.begin(), result.indices.end());
  return result;
}

}  // namespace espalier
