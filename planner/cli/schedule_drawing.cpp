// Draws a schedule as text: one line a rank, time from left to right.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "planner/cli/schedule_report.hpp"
#include "planner/core/pipeline/action_text.hpp"

namespace espalier::cli {
namespace {

constexpr double kMostColumns = 160;

// Columns a unit of time: the shortest action has one, unless the line gets too long.
double scale(const ScheduleRow& row) {
  double shortest = row.result.time;
  for (const auto& spans : row.result.spans)
    for (const auto& span : spans) shortest = std::min(shortest, span.end - span.start);
  return std::min(1 / shortest, kMostColumns / row.result.time);
}

}  // namespace

std::string schedule_drawing(const ScheduleRow& row) {
  const double columns = scale(row);
  const auto column = [columns](double time) { return static_cast<std::size_t>(std::lround(time * columns)); };
  const int ranks = static_cast<int>(row.schedule.actions.size());
  std::string text =
      fmt::format("{}, time {:.5g}, bubble {:.1f}%\n", row.name, row.result.time, 100 * row.result.bubble());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& actions = row.schedule.actions[static_cast<std::size_t>(rank)];
    const auto& spans = row.result.spans[static_cast<std::size_t>(rank)];
    std::string line(column(row.result.time), '.');
    const int first_chunk =
        static_cast<int>(std::find(row.schedule.rank_of_chunk.begin(), row.schedule.rank_of_chunk.end(), rank) -
                         row.schedule.rank_of_chunk.begin());
    for (std::size_t at = 0; at < actions.size(); ++at) {
      const char upper = pipeline::letter(actions[at].kind);
      const char drawn = actions[at].chunk == first_chunk ? static_cast<char>(std::tolower(upper)) : upper;
      for (std::size_t c = column(spans[at].start); c < std::min(column(spans[at].end), line.size()); ++c)
        line[c] = drawn;
    }
    text += fmt::format("{:>4} |{}| {:>5.1f}%  memory {:.4g}\n", rank, line, 100 * row.result.bubble(rank),
                        row.result.ranks[static_cast<std::size_t>(rank)].peak / row.stage_activation);
  }
  return text;
}

std::string schedule_drawing_legend() {
  return "f forward, b backward, i gradients of inputs, w gradients of parameters, . waiting; a rank's first chunk in\n"
         "small letters, its others in capitals. At the end of a line: idle share of the time, and activations.\n";
}

}  // namespace espalier::cli
