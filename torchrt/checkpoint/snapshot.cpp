#include "torchrt/checkpoint/snapshot.hpp"

#include <new>
#include <utility>

namespace espalier::torchrt {

namespace {

// Device offset of element `first` of the unit's floats.
std::size_t place(const StateLayout& state, StateKind kind, std::int64_t first) {
  const auto floats = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); };
  switch (kind) {
    case StateKind::parameter:
      return state.has_master() ? state.master_offset() + floats(first - state.shard.first) : floats(first);
    case StateKind::first_moment:
      return state.first_moment_offset() + floats(first - state.shard.first);
    case StateKind::second_moment:
      return state.second_moment_offset() + floats(first - state.shard.first);
  }
  return 0;
}

constexpr std::size_t kPage = 4096;

// The part's values, `count` of them. They are pinned when they are used for the second time: that takes longer than it
// saves once.
float* room(SnapshotPart& part, std::size_t count, Device& device) {
  const std::size_t bytes = (count * sizeof(float) + kPage - 1) / kPage * kPage;
  if (part.count != count) {
    part = {};
    part.values.reset(static_cast<float*>(std::aligned_alloc(kPage, bytes)));
    if (!part.values) throw std::bad_alloc();
    part.count = count;
  } else if (!std::exchange(part.used, true)) {
    part.pinned = device.pin(part.values.get(), bytes);
  }
  return part.values.get();
}

bool written_here(const TensorSpec& tensor, const UnitSpec& unit) {
  if (tensor.replicated() && unit.tp_rank != 0) return false;
  return !tensor.tied || unit.unit == 0;
}

}  // namespace

void take_snapshot(const std::vector<UnitState>& units, const RankLayout& layout, Device& device, Snapshot& snapshot) {
  // All memory is had before the first copy begins: where there is none, nothing may still be writing to what is given
  // back.
  struct Copy {
    float* to = nullptr;
    const char* from = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Copy> copies;
  snapshot.slices.clear();
  std::size_t next = 0;
  for (const UnitState& unit : units) {
    const Range share = zero_part(unit.spec->floats, layout.replicas, layout.replica);
    if (share.count == 0) continue;
    for (const StateKind kind : kStateKinds) {
      if (snapshot.memory.size() == next) snapshot.memory.emplace_back();
      const auto count = static_cast<std::size_t>(share.count);
      float* const copy = room(snapshot.memory[next++], count, device);
      copies.push_back(
          {copy, static_cast<const char*>(unit.memory) + place(unit.state, kind, share.first), count * sizeof(float)});
      for (const TensorSpec& tensor : unit.spec->tensors) {
        if (!written_here(tensor, *unit.spec)) continue;
        const auto offset = static_cast<std::int64_t>(tensor.offset);
        const Range held = intersection({offset, static_cast<std::int64_t>(tensor.elements())}, share);
        if (held.count == 0) continue;
        snapshot.slices.push_back({tensor.hugging_face,
                                   kind,
                                   tensor.global_shape,
                                   tensor.rows,
                                   tensor.columns,
                                   {held.first - offset, held.count},
                                   copy + (held.first - share.first)});
      }
    }
  }
  for (const Copy& one : copies) device.to_host_later(one.to, one.from, one.bytes);
  device.finish_copies();
}

}  // namespace espalier::torchrt
