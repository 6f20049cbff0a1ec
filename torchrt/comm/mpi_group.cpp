#include "torchrt/comm/mpi_group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/comm/mpi_requests.hpp"
#include "torchrt/comm/ordered.hpp"
#include "torchrt/comm/waits.hpp"

namespace espalier::torchrt {

namespace {

constexpr int kCreateTag = 31000, kScatterTag = 1, kGatherTag = 2;
// Rings under way at the same time have tags of their own. MPI promises 32,767 of them.
constexpr int kFirstRingTag = 3, kRingTags = 1 << 14;
// A ring of n ranks takes 2 (n - 1) steps and a tree 2 log2(n), so short sums go along a tree. By calculation, not
// measured: where a step takes 0.1 ms and the network moves 1 GB/s, a ring of 8 ranks pays from 200 kB on, one of 64
// from 1 MB.
constexpr std::size_t kLeastRingBytes = 16 << 10;  // of the mean part
// A sum goes round in slices, several at a time: while a rank computes it forwards a message only between two
// operations, and the link would be idle until then. MPI sends messages so short at once, without asking the receiver.
constexpr std::size_t kSliceBytes = 32 << 10, kMostSlices = 4;

std::vector<int> numbers(std::span<const Range> parts, std::int64_t Range::*field) {
  std::vector<int> values;
  for (const Range& part : parts) values.push_back(static_cast<int>(part.*field));
  return values;
}

// MPI's in-place reduce-scatter leaves this rank's part at the buffer's start. poll() moves the
// part to its place.
class ScatterRequests : public MpiRequests {
 public:
  ScatterRequests(Buffer all, Range own, std::shared_ptr<const bool> aborted)
      : MpiRequests("sum over replicas, scattered", std::move(aborted)), all_(all), own_(own) {}
  bool poll() override {
    const bool done = MpiRequests::poll();
    if (done && !std::exchange(moved_, true) && own_.first > 0) {
      const Buffer target = all_.part(own_);
      std::memmove(target.data, all_.data, target.bytes());
    }
    return done;
  }

 private:
  Buffer all_;
  Range own_;
  bool moved_ = false;
};

// The slices of one operation.
class Rings : public Pending {
 public:
  void add(std::unique_ptr<MpiRing> ring) { rings_.push_back(std::move(ring)); }
  void wait() override {
    for (const auto& ring : rings_) ring->wait();
  }
  bool poll() override {
    MpiRing::advance_all();
    return std::all_of(rings_.begin(), rings_.end(), [](const auto& ring) { return ring->done(); });
  }

 private:
  std::vector<std::unique_ptr<MpiRing>> rings_;
};

}  // namespace

MpiGroup::MpiGroup(const std::vector<int>& members, std::size_t most) : most_(most) {
  const Waiting waiting(Waiting::Kind::sleeps);
  MPI_Group all = MPI_GROUP_NULL, ours = MPI_GROUP_NULL;
  must(MPI_Comm_group(MPI_COMM_WORLD, &all), "group");
  must(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &ours), "group");
  const int code = MPI_Comm_create_group(MPI_COMM_WORLD, ours, kCreateTag, &comm_);
  MPI_Group_free(&ours);
  MPI_Group_free(&all);
  must(code, "group");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

MpiGroup::~MpiGroup() {
  const Waiting waiting(Waiting::Kind::sleeps);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized && comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

void MpiGroup::sum(Buffer buffer) { combine(buffer, false); }
void MpiGroup::max(Buffer buffer) { combine(buffer, true); }

// Each member gets all members' values of its own part, combines them in the members' order and
// sends the result to all. That moves as many bytes as a ring, in two steps, from and to the
// caller's memory.
void MpiGroup::combine(Buffer buffer, bool maximum) {
  const std::size_t members = static_cast<std::size_t>(size_), self = static_cast<std::size_t>(rank_);
  const auto part = [&](std::size_t member) {
    const std::size_t first = buffer.count * member / members;
    return buffer.part(first, buffer.count * (member + 1) / members - first);
  };
  const MPI_Datatype type = mpi_type(buffer.type);
  const Buffer own = part(self);
  received_.resize(std::max(received_.size(), own.bytes() * members));
  std::vector<Buffer> parts(members);
  {
    MpiRequests requests("ordered sum", aborted_);
    for (std::size_t peer = 0; peer < members; ++peer) {
      parts[peer] = peer == self ? own : Buffer{received_.data() + peer * own.bytes(), own.count, own.type};
      if (peer == self) continue;
      in_pieces(parts[peer], most_, [&](const Buffer& piece, int count) {
        must(MPI_Irecv(piece.data, count, type, static_cast<int>(peer), kScatterTag, comm_, requests.add()),
             "ordered sum");
      });
      in_pieces(part(peer), most_, [&](const Buffer& piece, int count) {
        must(MPI_Isend(piece.data, count, type, static_cast<int>(peer), kScatterTag, comm_, requests.add()),
             "ordered sum");
      });
    }
    requests.wait();
  }
  combine_in_order(maximum ? Combine::max : Combine::sum, parts, own);
  MpiRequests requests("ordered sum", aborted_);
  for (std::size_t peer = 0; peer < members; ++peer) {
    if (peer == self) continue;
    in_pieces(part(peer), most_, [&](const Buffer& piece, int count) {
      must(MPI_Irecv(piece.data, count, type, static_cast<int>(peer), kGatherTag, comm_, requests.add()),
           "ordered sum");
    });
    in_pieces(own, most_, [&](const Buffer& piece, int count) {
      must(MPI_Isend(piece.data, count, type, static_cast<int>(peer), kGatherTag, comm_, requests.add()),
           "ordered sum");
    });
  }
  requests.wait();
}

bool MpiGroup::by_ring(const Buffer& all, std::span<const Range> parts) const {
  return size_ > 1 && all.bytes() / static_cast<std::size_t>(size_) >= kLeastRingBytes &&
         std::all_of(parts.begin(), parts.end(),
                     [&](const Range& part) { return static_cast<std::size_t>(part.count) <= most_; });
}

int MpiGroup::next_ring_tag() {
  rings_ = (rings_ + 1) % kRingTags;
  return kFirstRingTag + rings_;
}

std::unique_ptr<Pending> MpiGroup::start_rings(const Buffer& all, std::span<const Range> parts, MpiRing::Steps steps,
                                               const char* what) {
  const std::size_t slices =
      std::clamp<std::size_t>(all.bytes() / static_cast<std::size_t>(size_) / kSliceBytes, 1, kMostSlices);
  auto rings = std::make_unique<Rings>();
  for (std::size_t slice = 0; slice < slices; ++slice) {
    std::vector<Range> own;
    for (const Range& part : parts) {
      const auto start = [&](std::size_t of) {
        return part.count * static_cast<std::int64_t>(of) / static_cast<std::int64_t>(slices);
      };
      own.push_back({part.first + start(slice), start(slice + 1) - start(slice)});
    }
    rings->add(std::make_unique<MpiRing>(comm_, next_ring_tag(), all, std::move(own), steps, what, aborted_));
  }
  return rings;
}

std::unique_ptr<Pending> MpiGroup::start_sum(Buffer buffer) {
  ESPALIER_INVARIANT(buffer.type != DataType::bfloat16);
  std::vector<Range> parts;
  for (int member = 0; member < size_; ++member) {
    const auto start = [&](int of) { return static_cast<std::int64_t>(buffer.count) * of / size_; };
    parts.push_back({start(member), start(member + 1) - start(member)});
  }
  if (by_ring(buffer, parts)) return start_rings(buffer, parts, {}, "sum over replicas");
  auto requests = std::make_unique<MpiRequests>("sum over replicas", aborted_);
  in_pieces(buffer, most_, [&](const Buffer& piece, int count) {
    must(MPI_Iallreduce(MPI_IN_PLACE, piece.data, count, mpi_type(piece.type), MPI_SUM, comm_, requests->add()),
         "sum over replicas");
  });
  return requests;
}

std::unique_ptr<Pending> MpiGroup::start_reduce_scatter(Buffer all, std::span<const Range> parts) {
  ESPALIER_INVARIANT(parts.size() == static_cast<std::size_t>(size_) && all.type != DataType::bfloat16);
  const MPI_Datatype type = mpi_type(all.type);
  const char* what = "sum over replicas, scattered";
  if (by_ring(all, parts)) return start_rings(all, parts, {.gather = false}, what);
  if (all.count <= most_) {
    auto requests = std::make_unique<ScatterRequests>(all, parts[static_cast<std::size_t>(rank_)], aborted_);
    const int* counts = requests->keep(numbers(parts, &Range::count)).data();
    must(MPI_Ireduce_scatter(MPI_IN_PLACE, all.data, counts, type, MPI_SUM, comm_, requests->add()), what);
    return requests;
  }
  auto requests = std::make_unique<MpiRequests>(what, aborted_);
  for (int root = 0; root < size_; ++root)
    in_pieces(all.part(parts[static_cast<std::size_t>(root)]), most_, [&](const Buffer& piece, int count) {
      must(MPI_Ireduce(root == rank_ ? MPI_IN_PLACE : piece.data, root == rank_ ? piece.data : nullptr, count, type,
                       MPI_SUM, root, comm_, requests->add()),
           what);
    });
  return requests;
}

std::unique_ptr<Pending> MpiGroup::start_gather(Buffer all, std::span<const Range> parts) {
  ESPALIER_INVARIANT(parts.size() == static_cast<std::size_t>(size_));
  const MPI_Datatype type = mpi_type(all.type);
  const char* what = "gather over replicas";
  if (by_ring(all, parts)) return start_rings(all, parts, {.sum = false}, what);
  auto requests = std::make_unique<MpiRequests>(what, aborted_);
  if (all.count > most_) {
    for (int root = 0; root < size_; ++root)
      in_pieces(all.part(parts[static_cast<std::size_t>(root)]), most_, [&](const Buffer& piece, int count) {
        must(MPI_Ibcast(piece.data, count, type, root, comm_, requests->add()), what);
      });
    return requests;
  }
  const int* counts = requests->keep(numbers(parts, &Range::count)).data();
  const int* firsts = requests->keep(numbers(parts, &Range::first)).data();
  must(MPI_Iallgatherv(MPI_IN_PLACE, 0, type, all.data, counts, firsts, type, comm_, requests->add()), what);
  return requests;
}

}  // namespace espalier::torchrt
