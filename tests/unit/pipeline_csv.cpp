// Schedules in the CSV of torch.distributed.pipelining: what is read, and every way to be wrong.
#include "planner/core/pipeline/csv.hpp"

#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/check.hpp"
#include "planner/core/pipeline/generate.hpp"

using namespace espalier;
using namespace espalier::pipeline;

namespace {

std::string refusal(const std::string& text) {
  try {
    read_csv(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

}  // namespace

TEST_CASE("what is written as CSV is read back the same") {
  for (const Generator& one : generators()) {
    const Schedule schedule = generate(one.name, {3, 5, one.chunks_per_rank > 0 ? one.chunks_per_rank : 2});
    CHECK(read_csv(write_csv(schedule)) == schedule);
  }
  CHECK(write_csv(generate("1f1b", {2, 2, 1})) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST_CASE("empty cells, ends of line of Windows, quotes and empty last lines are read") {
  CHECK(read_csv("0F0,, 0F1 ,,\"0B0\",,0B1,\r\n,1F0,1B0,,1F1,1B1\r\n\r\n") == generate("1f1b", {2, 2, 1}));
}

TEST_CASE("communication is left out") {
  CHECK(read_csv("0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
                 "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n") == generate("1f1b", {2, 2, 1}));
}

TEST_CASE("overlapped pairs are read as their parts in turn") {
  CHECK(read_csv("0F0,0F1,0B0,0B1\n1F0,(1B0;1F1)OVERLAP_F_B,1B1\n") == generate("1f1b", {2, 2, 1}));
}

TEST_CASE("an empty CSV is refused") { CHECK(refusal(" \n\n") == "the file is empty; write one row for each rank"); }
TEST_CASE("a CSV row without computations is refused") {
  CHECK(refusal("0F0,0B0\n,,\n1F0,1B0") == "row 2: the rank computes nothing; leave no row empty");
}
TEST_CASE("a CSV cell that is no operation is refused") {
  const std::string remedy = ": is no operation; write chunk, F, B, I or W, and micro-batch, as in 2F0";
  CHECK(refusal("0F0,0X0") == "row 1, column 2 (0X0)" + remedy);
  CHECK(refusal("0F0,hello") == "row 1, column 2 (hello)" + remedy);
  CHECK(refusal("0F0,0B0x") == "row 1, column 2 (0B0x)" + remedy);
  CHECK(refusal("0F0,-1F0") == "row 1, column 2 (-1F0)" + remedy);
  CHECK(refusal(std::string("0F0,\x01\xff")) ==
        "row 1, column 2 (?"
        "?)" +
            remedy);
}
TEST_CASE("a CSV operation without a micro-batch is refused") {
  CHECK(refusal("0F0,0B") == "row 1, column 2 (0B): the micro-batch is missing, as in 2F0");
}
TEST_CASE("CSV numbers that are too large are refused before anything is sized by them") {
  CHECK(refusal("99999F0") == "row 1, column 1 (99999F0): the chunk is too large; at most 32767");
  CHECK(refusal("0F99999999999999999999") ==
        "row 1, column 1 (0F99999999999999999999): the micro-batch is too large; at most 1048575");
  CHECK(refusal("0F1048575,1F0") == "row 1: 0F0 is missing: the step has micro-batches 0 to 1048575");
}
TEST_CASE("a CSV pair that is not closed, or that overlaps communication, is refused") {
  CHECK(refusal("(0F0;0B0") ==
        "row 1, column 1 ((0F0;0B0): is no pair of operations; write one as (0F1;1B0)OVERLAP_F_B");
  CHECK(refusal("(0F0;0SEND_F0)OVERLAP_F_B") ==
        "row 1, column 1 ((0F0;0SEND_F0)OVERLAP_F_B): only computations overlap");
}
TEST_CASE("a chunk that is nowhere in the CSV is refused") {
  CHECK(refusal("0F0,0B0\n2F0,2B0") ==
        "chunk 1 is nowhere, but chunk 2 is there; number the chunks from 0 without a gap");
}
TEST_CASE("a chunk on two ranks of the CSV is refused") {
  CHECK(refusal("0F0,0B0\n1F0,0F1,1B0") == "row 2, column 2 (0F1): the chunk is on rank 0 already, by row 1");
}
TEST_CASE("a missing operation of the CSV is refused") {
  CHECK(refusal("0F0,0F1,0B0,0B1\n1F0,1B0,1B1") == "row 2: 1F1 is missing: the step has micro-batches 0 to 1");
  CHECK(refusal("0F0,0F1,0B0\n1F0,1B0,1F1,1B1") ==
        "row 1: 0B1 is missing: the chunk never runs backward on the micro-batch");
}
TEST_CASE("a doubled operation of the CSV is refused, at the column of the file") {
  CHECK(refusal("0F0,,0F0,0B0") == "row 1, column 3 (0F0): it is there twice");
}
TEST_CASE("an impossible order in the CSV is refused") {
  CHECK(refusal("0B0,,0F0") == "row 1, column 1 (0B0): it comes before its forward");
}
TEST_CASE("a deadlock in the CSV is refused") {
  CHECK(
      refusal("0F0,0B0,0F1,0B1\n1F0,,1F1,1B0,1B1") ==
      "row 1, column 2 (0B0): deadlock: it waits for backward of chunk 1 on micro-batch 0, which rank 1 never reaches");
}
