#include "launcher/node/deposits.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

namespace espalier::launcher {
namespace {
// More than any node needs. The limits bound what a faulty client can take.
constexpr std::size_t kMostDepositors = 1024, kMostDeposits = 4096;
}  // namespace

// A depositor's marks, mapped into this process.
class Deposits::Marks {
 public:
  Marks(wire::Descriptor fd, std::size_t bytes) : fd_(std::move(fd)), bytes_(bytes) {
    struct stat status {};
    const int seals = ::fcntl(fd_.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd_.get(), &status) != 0 ||
        static_cast<std::size_t>(status.st_size) < bytes_)
      return;
    void* const mapped = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd_.get(), 0);
    if (mapped != MAP_FAILED) data_ = static_cast<const char*>(mapped);
  }
  ~Marks() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), bytes_);
  }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;
  bool good() const { return data_ != nullptr; }
  int fd() const { return fd_.get(); }
  bool has(std::int32_t mark) const { return mark >= 0 && mark < INT32_MAX && wire::marks_bytes(mark + 1) <= bytes_; }
  std::int64_t agreed() const {
    std::int64_t step = -1;
    std::memcpy(&step, data_, sizeof step);
    return step;
  }
  std::int64_t mark(std::int32_t index) const {
    std::int64_t step = -1;
    std::memcpy(&step, data_ + wire::marks_bytes(index), sizeof step);
    return step;
  }

 private:
  wire::Descriptor fd_;
  std::size_t bytes_;
  const char* data_ = nullptr;
};

struct Deposits::Held {
  struct Deposit {
    wire::Descriptor fd;
    std::uint64_t bytes = 0;
    std::int32_t mark = 0;
  };
  Held(wire::Descriptor fd, std::size_t bytes) : marks(std::move(fd), bytes) {}
  Marks marks;
  std::map<std::array<std::int32_t, 3>, Deposit> deposits;  // by rank, unit and slot
  bool lives = true;
  Clock::time_point ended{};
};

Deposits::Deposits() = default;
Deposits::~Deposits() = default;

std::string Deposits::enter(Depositor depositor, wire::Descriptor marks, std::size_t bytes) {
  if (held_.size() >= kMostDepositors) return "it is full";
  if (held_.contains(depositor)) return "this rank has deposited here already";
  auto held = std::make_unique<Held>(std::move(marks), bytes);
  if (!held->marks.good()) return "the marks are no sealed memory of the size named";
  held_[depositor] = std::move(held);
  return "";
}

bool Deposits::has_mark(Depositor depositor, std::int32_t mark) const { return held_.at(depositor)->marks.has(mark); }

std::string Deposits::take(Depositor depositor, const wire::VaultRequest& request, wire::Descriptor fd) {
  Held& held = *held_.at(depositor);
  if (held.deposits.size() >= kMostDeposits) return "too much is deposited";
  held.deposits[{request.rank, request.unit, request.slot}] = {std::move(fd), request.bytes, request.mark};
  return "";
}

void Deposits::end(Depositor depositor) {
  Held& held = *held_.at(depositor);
  held.lives = false;
  held.ended = Clock::now();
}

bool Deposits::changes(Depositor depositor) const {
  const Held& held = *held_.at(depositor);
  return held.marks.agreed() >= 0 && std::any_of(held.deposits.begin(), held.deposits.end(), [&](const auto& entry) {
           return entry.first[2] == wire::kVaultState && held.marks.mark(entry.second.mark) < 0;
         });
}

bool Deposits::any_lives_before(int generation) const {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const auto& entry) { return entry.second->lives && entry.first.first < generation; });
}

bool Deposits::any_ended() const {
  return std::any_of(held_.begin(), held_.end(), [](const auto& entry) { return !entry.second->lives; });
}

std::vector<wire::VaultItem> Deposits::items(int generation) const {
  std::vector<wire::VaultItem> items;
  for (const auto& [key, held] : held_) {
    if (key.first != generation) continue;
    for (const auto& [what, deposit] : held->deposits)
      items.push_back(
          {key.second, what[0], what[1], what[2], held->lives ? -1 : held->marks.mark(deposit.mark), deposit.bytes});
  }
  return items;
}

int Deposits::find(const wire::VaultRequest& request) const {
  const auto found = held_.find({request.generation, request.holder});
  if (found == held_.end() || found->second->lives) return -1;
  const Held& held = *found->second;
  if (request.slot == wire::kVaultMarksSlot) return held.marks.fd();
  const auto deposit = held.deposits.find({request.rank, request.unit, request.slot});
  return deposit == held.deposits.end() ? -1 : deposit->second.fd.get();
}

void Deposits::discard(int generation) {
  for (const auto& [key, held] : held_)
    if (key.first == generation && !held->lives)
      std::erase_if(held->deposits, [](const auto& one) { return one.first[2] == wire::kVaultState; });
}

// Torn snapshots go when their depositor has ended. An old depositor's marks go with its last snapshot.
void Deposits::let_go(int kept, int copies) {
  std::erase_if(held_, [&](const auto& entry) {
    const auto& held = entry.second;
    if (held->lives) return false;
    if (entry.first.first < copies) return true;
    const bool old = entry.first.first < kept;
    std::erase_if(held->deposits, [&](const auto& one) {
      return one.first[2] == wire::kVaultState ? old : held->marks.mark(one.second.mark) < 0;
    });
    return old && held->deposits.empty();
  });
}

void Deposits::drop_abandoned(Clock::duration after) {
  int oldest = INT32_MAX;  // that lives
  for (const auto& [key, held] : held_)
    if (held->lives) oldest = std::min(oldest, key.first);
  const Clock::time_point now = Clock::now();
  std::erase_if(held_, [&](const auto& entry) {
    return !entry.second->lives && entry.first.first > oldest && now - entry.second->ended > after;
  });
}

}  // namespace espalier::launcher
