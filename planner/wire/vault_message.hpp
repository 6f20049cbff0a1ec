// What workers and the vault of their node say to each other: packets of these structs, in host byte order, since both
// are of one build on one node. A descriptor comes with every deposit and with the answer to a fetch.
//
// A vault's name is "<ESPALIER_VAULT>-<owner>"; the owner is the Slurm job whose step the worker runs in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace espalier::wire {

inline constexpr char kVaultMagic[4] = {'E', 'S', 'P', '1'};

// Memory that a depositor shares with the vault: what it holds, as it is now. A memfd, sealed against shrinking.
struct VaultMarks {
  // The last step all ranks agreed upon, written before it changes any state: who goes on from the state after it can
  // tell its loss though nobody recorded it.
  std::int64_t step = -1;
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  std::int64_t settings = 0;  // torchrt::update_settings() of the depositor
  // Not 0: `step` has had a value. While all that have died say 0, no rank of their generation has changed anything.
  std::int64_t trained = 0;
  std::int64_t reserved[2] = {};
  // Followed by std::int64_t marks: the step whose state a deposit holds, -1 while it is being changed.
};
constexpr std::size_t marks_bytes(int count) { return sizeof(VaultMarks) + static_cast<std::size_t>(count) * 8; }
// In what is deposited: state that is trained on, and copies of it.
inline constexpr std::int32_t kVaultState = 0;       // 1, 2, ...: slots of snapshots
inline constexpr std::int32_t kVaultMarksSlot = -1;  // to fetch the marks themselves

enum class VaultRequestKind : std::int32_t {
  hello,      // of a depositor: `generation`, `rank`; with its marks, of `bytes` bytes
  deposit,    // with memory of `bytes` bytes; `rank`: whose state it is, `mark`: its place in the marks
  inventory,  // of `generation`, for `asker`: depositors of generations before `asker` that still live are killed first
  fetch,      // what the inventory named
};

struct VaultRequest {
  char magic[4] = {kVaultMagic[0], kVaultMagic[1], kVaultMagic[2], kVaultMagic[3]};
  VaultRequestKind kind = VaultRequestKind::hello;
  std::int32_t generation = 0, asker = 0;
  std::int32_t holder = 0;  // fetch: the depositor's rank
  std::int32_t rank = 0, unit = 0, slot = kVaultState, mark = 0;
  std::int32_t reserved = 0;
  std::uint64_t bytes = 0;
};

// One line of an inventory.
struct VaultItem {
  std::int32_t holder = 0, rank = 0, unit = 0, slot = kVaultState;
  std::int64_t step = -1;  // -1: it is of no use
  std::uint64_t bytes = 0;
};

enum class VaultReplyKind : std::int32_t { done, more, refused };

struct VaultReply {
  char magic[4] = {kVaultMagic[0], kVaultMagic[1], kVaultMagic[2], kVaultMagic[3]};
  VaultReplyKind kind = VaultReplyKind::done;  // more: other packets of the answer follow
  std::int32_t items = 0;                      // VaultItems follow in the packet
  std::int32_t reserved = 0;
  char reason[112] = {};  // refused: for the user
};
inline constexpr std::int32_t kVaultItemsPerReply = 128;

template <class Packet>
bool is_vault_packet(const Packet& packet) {
  return std::memcmp(packet.magic, kVaultMagic, sizeof kVaultMagic) == 0;
}

}  // namespace espalier::wire
