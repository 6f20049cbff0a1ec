// What a hand-off's plan adopts, copies and sends in common cases.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/unit/torchrt_plans.hpp"
#include "torchrt/handoff/transfer/operations.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

ModelConfig small_model(bool tied = false) {
  ModelConfig model;
  model.family = "llama";
  model.layers = 8;
  model.hidden = 64;
  model.heads = 8;
  model.sequence = 8;
  model.vocabulary = 100;
  model.tied_embeddings = tied;
  return completed(model);
}

Plan on_nodes(int pp, int dp, int tp, const std::vector<std::string>& nodes) {
  std::vector<GpuId> gpus;
  for (const std::string& node : nodes)
    for (int gpu = 0; gpu < 4; ++gpu) gpus.push_back({node, gpu});
  return uniform_plan(pp, dp, 8, 8, 1, gpus, tp);
}

TransferRequest request(Plan before, Plan after, bool gpu_memory = true) {
  TransferRequest made;
  made.before = std::move(before);
  made.after = std::move(after);
  made.gpu_memory = gpu_memory;
  made.message_bytes = 4096;
  return made;
}

std::int64_t replica_bytes(const ModelConfig& model) {
  std::int64_t bytes = 0;
  for (int unit = 0; unit < unit_count(model); ++unit)
    for (const TensorSpec& tensor : unit_spec(model, unit).tensors)
      bytes += 12 * static_cast<std::int64_t>(tensor.elements());
  return bytes;
}

std::map<int, std::int64_t> sent_by(const TransferPlan& plan) {
  std::map<int, std::int64_t> sent;
  for (const Message& message : plan.messages()) sent[message.sender] += static_cast<std::int64_t>(message.piece.bytes);
  return sent;
}

}  // namespace

TEST_CASE("transfer: growing on the node adopts everything from the CPU's memory, and moves nothing") {
  const TransferPlan plan(small_model(), request(on_nodes(2, 1, 1, {"a"}), on_nodes(4, 1, 1, {"a"}), false));
  CHECK(plan.adoptions().size() == 10);
  CHECK(plan.copies().empty());
  CHECK(plan.messages().empty());
}

TEST_CASE("transfer: a GPU's memory is adopted on that GPU and copied from on others of its node") {
  const TransferPlan plan(small_model(), request(on_nodes(2, 1, 1, {"a"}), on_nodes(4, 1, 1, {"a"})));
  CHECK(plan.adoptions().size() == 3);  // the first GPU's; the second GPU gives all its state away
  CHECK(plan.messages().empty());
  const RankOperations third = operations(plan, 2);
  CHECK(third.adoptions.empty());
  CHECK(third.fresh == std::vector<int>{5, 6});
  // State with the same layout is one run, except for the padding between tensors.
  REQUIRE(third.copies.size() == 2);
  CHECK(third.copies[0].from == MemoryId{true, 1, 5});
}

TEST_CASE("transfer: the same shards cost no more blocks than tensors, cut columns one strided block each") {
  const ModelConfig model = small_model();
  const TransferPlan same(model, request(on_nodes(1, 1, 4, {"a"}), on_nodes(1, 1, 4, {"b"})));
  for (const int rank : {0, 1})
    for (const MessageOperation& message : message_operations(same, same.messages(), rank))
      for (const Block& block : message.blocks) CHECK(block.count == 1);
  TransferRequest wider = request(on_nodes(1, 1, 4, {"a"}), on_nodes(1, 1, 2, {"b"}));
  wider.message_bytes = 1 << 30;
  const TransferPlan changed(model, wider);
  std::size_t strided = 0;
  for (const MessageOperation& message : message_operations(changed, changed.messages(), 0))
    for (const Block& block : message.blocks) strided += block.count > 1;
  // Per layer two matrices cut by columns, two old shards each, in three parts (parameters, m, v).
  CHECK(strided == 8 * 2 * 2 * 3);
}

TEST_CASE("transfer: the replicas share the work of sending to a new node") {
  const ModelConfig model = small_model();
  Plan before = on_nodes(1, 4, 1, {"a"});
  for (std::size_t j = 0; j < 4; ++j)
    before.stages[0].replicas[j].gpus[0] = {std::string(1, static_cast<char>('a' + j)), 0};
  Plan after = before;
  after.stages[0].replicas[3].gpus[0] = {"x", 0};
  const TransferPlan plan(model, request(before, after));
  CHECK(plan.bytes_sent() == replica_bytes(model));
  const auto sent = sent_by(plan);
  CHECK(sent.size() == 4);
  CHECK(sent.count(4 + 3) == 1);  // the GPU that leaves sends, too
  for (const auto& [party, bytes] : sent) {
    CHECK(bytes > plan.bytes_sent() / 4 - 8192);
    CHECK(bytes < plan.bytes_sent() / 4 + 8192);
  }
}

TEST_CASE("transfer: one replica reaches many nodes from one to the next, none sends it twice") {
  const ModelConfig model = small_model();
  Plan before = on_nodes(1, 1, 1, {"a"}), after = on_nodes(1, 8, 1, {"a", "b"});
  for (std::size_t j = 0; j < 8; ++j)
    after.stages[0].replicas[j].gpus[0] = {std::string(1, static_cast<char>('a' + j)), 0};
  const TransferPlan plan(model, request(before, after));
  CHECK(plan.bytes_sent() == 7 * replica_bytes(model));
  for (const auto& [party, bytes] : sent_by(plan)) CHECK(bytes <= replica_bytes(model));
  for (const Message& message : plan.messages()) CHECK((message.after >= 0) == (message.sender != 0));
}

TEST_CASE("transfer: what several ranks of a node need comes once and is copied there") {
  const ModelConfig model = small_model();
  const TransferPlan plan(model, request(on_nodes(1, 1, 1, {"a"}), on_nodes(1, 4, 1, {"b"})));
  CHECK(plan.bytes_sent() == replica_bytes(model));
  CHECK(plan.bytes_copied() == 3 * replica_bytes(model));
  std::map<int, std::int64_t> received;
  for (const Message& message : plan.messages())
    received[message.receiver] += static_cast<std::int64_t>(message.piece.bytes);
  CHECK(received.size() == 4);  // and all of them take part in receiving it
}

TEST_CASE("transfer: a tied table is one thing, whichever end of the pipeline has it") {
  const ModelConfig tied = small_model(true);
  const std::int64_t table = 12 * 100 * 64;
  const TransferPlan apart(tied, request(on_nodes(1, 1, 1, {"a"}), on_nodes(2, 1, 1, {"b"})));
  CHECK(apart.bytes_sent() == replica_bytes(tied) - table);
  CHECK(apart.bytes_copied() == table);
  // The last stage's GPU is new. Its node already holds the table, at the other end of the model.
  const Plan before = pipeline_of({{"a", 0}, {"b", 0}}), after = pipeline_of({{"a", 0}, {"a", 1}});
  const TransferPlan back(tied, request(before, after));
  CHECK(back.bytes_copied() == table);
}

TEST_CASE("transfer: with ZeRO-1 another number of replicas moves the missing parts of the optimizer state only") {
  const ModelConfig model = small_model();
  Plan before = on_nodes(1, 2, 1, {"a"});
  before.stages[0].replicas[1].gpus[0] = {"b", 0};
  TransferRequest made = request(before, before);
  made.zero1_before = made.zero1_after = true;
  CHECK(TransferPlan(model, made).bytes_sent() == 0);
  CHECK(TransferPlan(model, made).adoptions().size() == 20);
  made.after.stages[0].replicas.resize(1);
  made.after.stages[0].replicas[0].share = 8;
  // Half of m and v. Parts are whole pieces of 64 elements.
  const TransferPlan plan(model, made);
  CHECK(plan.bytes_sent() > replica_bytes(model) / 3 - 40000);
  CHECK(plan.bytes_sent() <= replica_bytes(model) / 3 + 40000);
}

TEST_CASE("transfer: generations without a common node, every GPU that leaves a donor") {
  const ModelConfig model = small_model();
  const TransferPlan plan(model, request(on_nodes(2, 1, 2, {"a"}), on_nodes(2, 1, 2, {"b"})));
  CHECK(plan.bytes_sent() == replica_bytes(model));
  const auto sent = sent_by(plan);
  CHECK(sent.size() == 4);
  for (const auto& [party, bytes] : sent) CHECK(plan.is_donor(party));
}

TEST_CASE("transfer: everybody computes the same plan") {
  const ModelConfig model = small_model(true);
  const TransferRequest made = request(on_nodes(2, 2, 2, {"a", "b"}), on_nodes(3, 1, 4, {"b", "c", "d"}));
  const TransferPlan one(model, made), other(model, made);
  CHECK(one.adoptions() == other.adoptions());
  REQUIRE(one.messages().size() == other.messages().size());
  for (std::size_t m = 0; m < one.messages().size(); ++m) {
    CHECK(one.messages()[m].piece == other.messages()[m].piece);
    CHECK(one.messages()[m].sender == other.messages()[m].sender);
    CHECK(one.messages()[m].to == other.messages()[m].to);
  }
}

TEST_CASE("transfer: a rank that gives and gets does both from the first message to the last") {
  const ModelConfig model = small_model();
  const std::vector<GpuId> nodes{{"a", 0}, {"b", 0}, {"c", 0}};
  TransferRequest grown =
      request(uniform_plan(2, 1, 8, 8, 1, {nodes[0], nodes[1]}), uniform_plan(3, 1, 8, 8, 1, nodes));
  grown.message_bytes = 2000;
  const TransferPlan plan(model, grown);
  int both = 0;
  for (int rank = 0; rank < plan.new_ranks(); ++rank) {
    CAPTURE(rank);
    std::size_t sends = 0, receives = 0, all_sends = 0, all_receives = 0;
    for (const Message& message : plan.messages()) {
      all_sends += message.sender == rank;
      all_receives += message.receiver == rank;
    }
    both += all_sends > 3 && all_receives > 3;
    for (const Message& message : plan.messages()) {
      sends += message.sender == rank;
      receives += message.receiver == rank;
      if (sends < all_sends && receives < all_receives) CHECK(sends < receives + 3);
      if (sends < all_sends && receives < all_receives) CHECK(receives < sends + 3);
    }
  }
  CHECK(both > 0);
}
