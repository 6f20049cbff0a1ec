#include "torchrt/handoff/transfer/regions.hpp"

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

// `rows` and `columns` count within the shard.
void add_rows(const TensorSpec& tensor, Range rows, Range columns, std::vector<Rectangle>& found) {
  std::int64_t before = 0;  // rows of the shard
  for (const Range& run : tensor.rows) {
    const Range part = intersection(rows, {before, run.count});
    if (part.count > 0)
      found.push_back(
          {{run.first + part.first - before, part.count}, {tensor.columns.first + columns.first, columns.count}});
    before += run.count;
  }
}

}  // namespace

std::vector<Rectangle> regions(const TensorSpec& tensor, Range held) {
  const auto start = static_cast<std::int64_t>(tensor.offset);
  Range local = intersection(held, {start, static_cast<std::int64_t>(tensor.elements())});
  if (local.count == 0) return {};
  local.first -= start;
  const std::int64_t width = tensor.columns.count;
  std::int64_t row = local.first / width;
  const std::int64_t column = local.first % width, last_row = local.end() / width, last_column = local.end() % width;
  std::vector<Rectangle> found;
  if (row == last_row) {
    add_rows(tensor, {row, 1}, {column, local.count}, found);
    return found;
  }
  if (column > 0) add_rows(tensor, {row++, 1}, {column, width - column}, found);
  if (row < last_row) add_rows(tensor, {row, last_row - row}, {0, width}, found);
  if (last_column > 0) add_rows(tensor, {last_row, 1}, {0, last_column}, found);
  return found;
}

std::int64_t place_of(const TensorSpec& tensor, std::int64_t row, std::int64_t column) {
  std::int64_t before = 0;
  for (const Range& run : tensor.rows) {
    if (run.first <= row && row < run.end())
      return static_cast<std::int64_t>(tensor.offset) + (before + row - run.first) * tensor.columns.count + column -
             tensor.columns.first;
    before += run.count;
  }
  ESPALIER_INVARIANT(!"the shard holds the row");
}

}  // namespace espalier::torchrt
