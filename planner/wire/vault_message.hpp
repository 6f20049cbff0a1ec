// Messages between workers and their node's vault. Each is a packet of one of these structs in host
// byte order, since both sides are of one build on one node. Every deposit, every hello and the
// answer to a fetch carry a descriptor.
//
// A vault's name is "<ESPALIER_VAULT>-<owner>"; the owner is the Slurm job whose step the worker runs in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace espalier::wire {

inline constexpr char kVaultMagic[4] = {'E', 'S', 'P', '1'};

// Memory that a depositor shares with the vault. It tells what the depositor's deposits hold at
// this moment. It is a memfd, sealed against shrinking.
struct VaultMarks {
  // The last step that all ranks agreed upon. It is written before the step changes any state. A
  // rank that goes on from the state after this step can thus report the step's loss, even if no
  // rank recorded it.
  std::int64_t step = -1;
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  std::int64_t settings = 0;  // torchrt::update_settings() of the depositor
  // 0: `step` never had a value. If a rank that died left 0 here, no rank of its generation has
  // changed any state.
  std::int64_t trained = 0;
  // What the depositor trains and validates on (torchrt/data_agreement.hpp). 0: not told, or no file.
  std::int64_t data = 0, validation = 0;
  // Followed by marks of type std::int64_t. A mark is the step whose state a deposit holds, or -1
  // while that state is being changed.
};
constexpr std::size_t marks_bytes(int count) { return sizeof(VaultMarks) + static_cast<std::size_t>(count) * 8; }
// Slots of deposits: the state that is trained on, and snapshots of it.
inline constexpr std::int32_t kVaultState = 0;       // 1, 2, ...: snapshots
inline constexpr std::int32_t kVaultMarksSlot = -1;  // fetches the marks themselves

enum class VaultRequestKind : std::int32_t {
  // From a depositor, with its marks: `generation`, `rank`, and `bytes`, the size of the marks.
  hello,
  // With a memory of `bytes` bytes. `rank`: the owner of the state. `mark`: the deposit's place in
  // the marks.
  deposit,
  // Of `generation`, for `asker`. The vault first kills depositors of generations before `asker`
  // that still live.
  inventory,
  fetch,  // one item of the inventory
  // The state that `generation`'s depositors trained on, once they have ended. Their snapshots and marks stay.
  discard,
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

// One item of an inventory.
struct VaultItem {
  std::int32_t holder = 0, rank = 0, unit = 0, slot = kVaultState;
  std::int64_t step = -1;  // -1: the state cannot be used
  std::uint64_t bytes = 0;
};

enum class VaultReplyKind : std::int32_t { done, more, refused };

struct VaultReply {
  char magic[4] = {kVaultMagic[0], kVaultMagic[1], kVaultMagic[2], kVaultMagic[3]};
  VaultReplyKind kind = VaultReplyKind::done;  // more: further packets of the answer follow
  std::int32_t items = 0;                      // number of VaultItems behind this struct
  std::int32_t reserved = 0;
  char reason[112] = {};  // refused: why, for the user
};
inline constexpr std::int32_t kVaultItemsPerReply = 128;

template <class Packet>
bool is_vault_packet(const Packet& packet) {
  return std::memcmp(packet.magic, kVaultMagic, sizeof kVaultMagic) == 0;
}

}  // namespace espalier::wire
