#include "planner/core/topology/topology_text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <sstream>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

using Record = std::map<std::string, std::string>;  // by key in lower case

std::vector<Record> records_of(const std::string& text) {
  std::vector<Record> records;
  std::istringstream lines(text);
  for (std::string line, part; std::getline(lines, part);) {
    line += part.substr(0, part.find('#'));
    if (line.ends_with('\\')) {
      line.back() = ' ';
      continue;
    }
    Record record;
    std::istringstream words(line);
    for (std::string word; words >> word;)
      if (const auto equals = word.find('='); equals != std::string::npos)
        record[lower(word.substr(0, equals))] = word.substr(equals + 1);
    records.push_back(std::move(record));
    line.clear();
  }
  return records;
}

std::vector<std::string> hosts(const Record& record, const std::string& key) {
  const auto found = record.find(key);
  return found == record.end() ? std::vector<std::string>() : expand_hosts(found->second.c_str());
}

std::vector<std::size_t> numbers(const std::string& text) {
  std::vector<std::size_t> list;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value == 0)
      throw Error("topology: BlockSizes=" + text + ": \"" + part + "\" is no size");
    list.push_back(value);
  }
  return list;
}

struct Group {
  std::string name;
  std::vector<std::string> blocks;
};

// Builds larger blocks from BlockSizes. E.g. with sizes 8,32 every 4 blocks in a row form one
// larger block.
void add_groups(const std::vector<LeafSwitch>& blocks, const std::vector<std::size_t>& sizes,
                std::vector<Group>& groups) {
  for (const std::size_t size : sizes) {
    const std::size_t count = size / *std::min_element(sizes.begin(), sizes.end());
    if (count < 2) continue;
    for (std::size_t begin = 0; begin < blocks.size(); begin += count) {
      const std::size_t end = std::min(begin + count, blocks.size());
      Group group{blocks[begin].name + ".." + blocks[end - 1].name + " of " + std::to_string(size), {}};
      for (std::size_t i = begin; i < end; ++i) group.blocks.push_back(blocks[i].name);
      groups.push_back(std::move(group));
    }
  }
}

// Goes through the groups from small to large. Each group becomes the parent of the topmost groups
// of its blocks. Switches of the same names could form a loop, so a climb stops after 32 levels.
void nest(std::vector<Group> groups, std::map<std::string, std::string>& parent) {
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.blocks.size() < b.blocks.size(); });
  for (const Group& group : groups)
    for (std::string top : group.blocks) {
      int level = 0;
      for (auto up = parent.find(top); up != parent.end() && level < 32; up = parent.find(top), ++level)
        top = up->second;
      if (top != group.name) parent[top] = group.name;
    }
}

}  // namespace

SwitchPaths parse_topology(const std::string& text) {
  std::map<std::string, std::string> parent;
  std::vector<LeafSwitch> switches, blocks;
  std::vector<Group> groups;
  std::vector<std::size_t> sizes;
  for (const Record& record : records_of(text)) {
    if (const auto name = record.find("switchname"); name != record.end()) {
      const auto children = hosts(record, "switches");
      for (const std::string& child : children) parent[child] = name->second;
      if (children.empty()) switches.push_back({name->second, hosts(record, "nodes")});
    }
    if (const auto name = record.find("blockname"); name != record.end())
      blocks.push_back({name->second, hosts(record, "nodes")});
    if (const auto name = record.find("aggregatedblock"); name != record.end())
      groups.push_back({name->second, hosts(record, "aggregatedblock")});
    if (const auto given = record.find("blocksizes"); given != record.end()) sizes = numbers(given->second);
  }
  add_groups(blocks, sizes, groups);
  nest(std::move(groups), parent);
  switches.insert(switches.end(), blocks.begin(), blocks.end());
  return climb(parent, switches);
}

SwitchPaths read_topology_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(path + ": cannot be read; check planner.topology_file in espalier.toml");
  try {
    SwitchPaths paths = parse_topology(read_text(file, kMaxTopologyText));
    if (paths.empty()) throw Error("topology: names no switch and no block with nodes");
    return paths;
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

}  // namespace espalier
