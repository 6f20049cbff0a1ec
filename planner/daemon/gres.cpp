#include "planner/daemon/gres.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace espalier {
namespace {

// More than any node or job has; larger numbers are damage.
constexpr int kMost = 1 << 20;

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMost) return std::nullopt;
  return value;
}

// Splits at any of `separators` outside parentheses.
std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i == text.size() || (depth <= 0 && separators.find(text[i]) != std::string_view::npos)) {
      if (i > start) parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  return parts;
}

// "gpu[:type][:count]", with an optional "gres:" or "gres/" before it. nullopt: another resource.
std::optional<GpuGres> gpu_entry(std::string_view entry) {
  for (const std::string_view prefix : {"gres:", "gres/"})
    if (entry.starts_with(prefix)) entry.remove_prefix(prefix.size());
  GpuGres gres;
  if (const auto open = entry.find('('); open != std::string_view::npos) {
    auto detail = entry.substr(open + 1);
    detail = detail.substr(0, detail.find(')'));
    if (detail.starts_with("IDX:")) gres.indices = parse_index_list(detail.substr(4));
    entry = entry.substr(0, open);
  }
  const auto words = split(entry, ":=");
  if (words.empty() || words[0] != "gpu") return std::nullopt;
  gres.count = 1;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (const auto value = number(words[i])) gres.count = *value;
    else gres.type = words[i];
  }
  return gres;
}

}  // namespace

std::vector<int> parse_index_list(std::string_view text) {
  std::vector<int> list;
  for (const auto part : split(text, ",")) {
    const auto dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first > 4096) return {};
    for (int i = *first; i <= *last; ++i) list.push_back(i);
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

GpuGres parse_gpu_gres(std::string_view text) {
  GpuGres total;
  for (const auto part : split(text, ",;")) {
    const auto entry = gpu_entry(part);
    if (!entry) continue;
    if (total.type.empty()) total.type = entry->type;
    total.count = std::min(kMost, total.count + entry->count);
    total.indices.insert(total.indices.end(), entry->indices.begin(), entry->indices.end());
  }
  std::sort(total.indices.begin(), total.indices.end());
  return total;
}

int requested_gpus(const GpuRequest& request) {
  const long nodes = std::max(1, request.nodes);
  const long per_job = parse_gpu_gres(request.per_job).count;
  const long per_node = nodes * parse_gpu_gres(request.per_node).count;
  const long per_socket = nodes * std::max(1, request.sockets_per_node) * parse_gpu_gres(request.per_socket).count;
  const long per_task = std::max(1, request.tasks) * long{parse_gpu_gres(request.per_task).count};
  return static_cast<int>(std::min({std::max({per_job, per_node, per_socket, per_task}), long{kMost}}));
}

}  // namespace espalier
