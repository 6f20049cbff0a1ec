#include "torchrt/handoff/transfer/fragments.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

const TensorSpec* find_tensor(const UnitSpec& spec, const std::string& hugging_face) {
  const auto found = std::find_if(spec.tensors.begin(), spec.tensors.end(),
                                  [&](const TensorSpec& tensor) { return tensor.hugging_face == hugging_face; });
  return found == spec.tensors.end() ? nullptr : &*found;
}

class Cutter {
 public:
  explicit Cutter(Partition& result) : result_(result) {}

  void run() {
    std::set<std::string> names;
    for (const StateShard& shard : result_.after)
      for (const TensorSpec& tensor : shard.spec.tensors)
        if (names.insert(tensor.hugging_face).second) {
          const StateLayout& state = shard.state;
          cut(tensor.hugging_face, false, {{StatePart::parameters, size_of(state.dtype)}});
          std::vector<PartSize> optimizer{{StatePart::first_moment, 4}, {StatePart::second_moment, 4}};
          if (state.has_master()) optimizer.push_back({StatePart::master, 4});
          cut(tensor.hugging_face, true, optimizer);
        }
    for (Fragment& fragment : result_.fragments) place(fragment);
  }

 private:
  using PartSize = std::pair<StatePart, std::size_t>;

  struct Held {
    Rectangle where;
    int shard = 0;
    bool after = false;
  };

  std::vector<Held> collect(const std::string& tensor, bool optimizer) const {
    std::vector<Held> held;
    for (const bool after : {false, true}) {
      const std::vector<StateShard>& shards = after ? result_.after : result_.before;
      for (std::size_t s = 0; s < shards.size(); ++s) {
        const TensorSpec* spec = find_tensor(shards[s].spec, tensor);
        if (spec == nullptr) continue;
        const Range all{0, static_cast<std::int64_t>(shards[s].state.floats)};
        for (const Rectangle& where : regions(*spec, optimizer ? shards[s].state.shard : all))
          held.push_back({where, static_cast<int>(s), after});
      }
    }
    std::sort(held.begin(), held.end(),
              [](const Held& a, const Held& b) { return a.where.rows.first < b.where.rows.first; });
    return held;
  }

  // Sweeps over the rows. Between two neighbouring edges of the rectangles the columns are cut
  // alike.
  void cut(const std::string& tensor, bool optimizer, const std::vector<PartSize>& parts) {
    const std::vector<Held> held = collect(tensor, optimizer);
    std::vector<std::int64_t> edges;
    for (const Held& one : held) edges.insert(edges.end(), {one.where.rows.first, one.where.rows.end()});
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::vector<const Held*> active;
    auto next = held.begin();
    open_.clear();
    for (std::size_t e = 0; e + 1 < edges.size(); ++e) {
      std::erase_if(active, [&](const Held* one) { return one->where.rows.end() <= edges[e]; });
      for (; next != held.end() && next->where.rows.first == edges[e]; ++next) active.push_back(&*next);
      cut_columns(tensor, parts, {edges[e], edges[e + 1] - edges[e]}, active);
    }
  }

  void cut_columns(const std::string& tensor, const std::vector<PartSize>& parts, Range rows,
                   const std::vector<const Held*>& active) {
    std::vector<std::int64_t> edges;
    for (const Held* one : active) edges.insert(edges.end(), {one->where.columns.first, one->where.columns.end()});
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    for (std::size_t e = 0; e + 1 < edges.size(); ++e) {
      const Range columns{edges[e], edges[e + 1] - edges[e]};
      std::pair<std::vector<int>, std::vector<int>> who;  // before, after
      for (const Held* one : active)
        if (intersection(one->where.columns, columns).count > 0)
          (one->after ? who.second : who.first).push_back(one->shard);
      if (who.second.empty()) continue;
      std::sort(who.first.begin(), who.first.end());
      std::sort(who.second.begin(), who.second.end());
      ESPALIER_INVARIANT(!who.first.empty());
      add(tensor, parts, {rows, columns}, std::move(who));
    }
  }

  void add(const std::string& tensor, const std::vector<PartSize>& parts, const Rectangle& where,
           std::pair<std::vector<int>, std::vector<int>> who) {
    const auto [found, fresh] = by_shards_.try_emplace(who, result_.fragments.size());
    if (fresh) result_.fragments.push_back({std::move(who.first), std::move(who.second), {}, 0});
    std::vector<Section>& sections = result_.fragments[found->second].sections;
    // Rows that were cut apart only for other fragments are joined again.
    const auto [above, first] =
        open_.try_emplace({found->second, where.columns.first, where.columns.count}, sections.size());
    const bool grows = !first && sections[above->second].where.rows.end() == where.rows.first;
    if (!grows) above->second = sections.size();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (grows) sections[above->second + p].where.rows.count += where.rows.count;
      else sections.push_back({tensor, parts[p].first, where, 0, parts[p].second});
    }
  }

  // Longer elements first, so that no place divisible by 4 lies inside an element. Then in memory's
  // order.
  static void place(Fragment& fragment) {
    std::stable_sort(fragment.sections.begin(), fragment.sections.end(), [](const Section& a, const Section& b) {
      return std::tuple(b.element, a.part) < std::tuple(a.element, b.part);
    });
    for (Section& section : fragment.sections) {
      section.first = fragment.bytes;
      fragment.bytes += section.bytes();
    }
  }

  Partition& result_;
  std::map<std::pair<std::vector<int>, std::vector<int>>, std::size_t> by_shards_;
  // For the current tensor, by fragment and columns: the section to which rows may be added.
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, std::size_t> open_;
};

// Calls each(section, rectangle) for each part of the fragment's bytes [first, end).
template <class Function>
void each_rectangle(const Fragment& fragment, std::size_t first, std::size_t end, const Function& each) {
  auto section = std::upper_bound(fragment.sections.begin(), fragment.sections.end(), first,
                                  [](std::size_t at, const Section& one) { return at < one.first; });
  for (--section; section != fragment.sections.end() && section->first < end; ++section) {
    const Range rows = section->where.rows, columns = section->where.columns;
    std::int64_t at = static_cast<std::int64_t>((std::max(first, section->first) - section->first) / section->element);
    const std::int64_t last = static_cast<std::int64_t>(
        (std::min(end, section->first + section->bytes()) - section->first) / section->element);
    while (at < last) {
      const std::int64_t row = at / columns.count, column = at % columns.count;
      const std::int64_t whole = column == 0 ? (last - at) / columns.count : 0;
      const Rectangle part =
          whole > 0
              ? Rectangle{{rows.first + row, whole}, columns}
              : Rectangle{{rows.first + row, 1}, {columns.first + column, std::min(columns.count - column, last - at)}};
      each(*section, part);
      at += part.area();
    }
  }
}

Block block(const Section& section, const Rectangle& where, const StateShard& shard) {
  const TensorSpec* tensor = find_tensor(shard.spec, section.tensor);
  ESPALIER_INVARIANT(tensor != nullptr);
  const StateLayout& state = shard.state;
  std::int64_t place = place_of(*tensor, where.rows.first, where.columns.first);
  std::size_t start = 0;
  if (section.part == StatePart::master) start = state.master_offset();
  if (section.part == StatePart::first_moment) start = state.first_moment_offset();
  if (section.part == StatePart::second_moment) start = state.second_moment_offset();
  if (section.part != StatePart::parameters) place -= state.shard.first;
  return {start + static_cast<std::size_t>(place) * section.element,
          static_cast<std::size_t>(where.columns.count) * section.element, static_cast<std::size_t>(where.rows.count),
          static_cast<std::size_t>(tensor->columns.count) * section.element};
}

bool contiguous(const Block& block) { return block.count == 1 || block.stride == block.run; }

void flatten(Block& block) { block = {block.at, block.bytes(), 1, block.bytes()}; }

bool follows(const Block& before, const Block& after) {
  return before.count == 1 && after.count == 1 && before.at + before.run == after.at;
}

void lengthen(Block& block, std::size_t bytes) {
  block.run += bytes;
  block.stride = block.run;
}

}  // namespace

Partition partition(std::vector<StateShard> before, std::vector<StateShard> after) {
  Partition result{std::move(before), std::move(after), {}};
  Cutter(result).run();
  return result;
}

std::vector<Block> blocks(const Fragment& fragment, std::size_t first, std::size_t bytes, const StateShard& shard,
                          std::optional<StatePart> part) {
  std::vector<Block> found;
  each_rectangle(fragment, first, first + bytes, [&](const Section& section, const Rectangle& where) {
    if (part && section.part != *part) return;
    Block one = block(section, where, shard);
    if (contiguous(one)) flatten(one);
    if (!found.empty() && follows(found.back(), one)) lengthen(found.back(), one.run);
    else found.push_back(one);
  });
  return found;
}

std::vector<BlockPair> block_pairs(const Fragment& fragment, std::size_t first, std::size_t bytes,
                                   const StateShard& from, const StateShard& to, std::optional<StatePart> part) {
  std::vector<BlockPair> found;
  each_rectangle(fragment, first, first + bytes, [&](const Section& section, const Rectangle& where) {
    if (part && section.part != *part) return;
    BlockPair one{block(section, where, from), block(section, where, to)};
    if (contiguous(one.from) && contiguous(one.to)) {
      flatten(one.from);
      flatten(one.to);
    }
    if (!found.empty() && follows(found.back().from, one.from) && follows(found.back().to, one.to)) {
      lengthen(found.back().from, one.from.run);
      lengthen(found.back().to, one.to.run);
    } else {
      found.push_back(one);
    }
  });
  return found;
}

}  // namespace espalier::torchrt
