#include "planner/cli/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/pipeline/placement.hpp"

namespace espalier::cli {

int ScheduleRow::chunks_per_rank() const {
  std::size_t most = 0;
  for (const auto& chunks :
       pipeline::chunks_of_ranks(schedule.rank_of_chunk, static_cast<int>(schedule.actions.size())))
    most = std::max(most, chunks.size());
  return static_cast<int>(most);
}

nlohmann::json schedule_json(const ScheduleRow& row) {
  nlohmann::json ranks = nlohmann::json::array();
  const auto chunks =
      pipeline::chunks_of_ranks(row.schedule.rank_of_chunk, static_cast<int>(row.schedule.actions.size()));
  for (std::size_t r = 0; r < chunks.size(); ++r) {
    const auto rank = static_cast<int>(r);
    ranks.push_back({{"rank", rank},
                     {"chunks", chunks[r]},
                     {"busy", row.result.ranks[r].busy},
                     {"first", row.result.ranks[r].first},
                     {"last", row.result.ranks[r].last},
                     {"bubble", row.result.bubble(rank)},
                     {"span_bubble", row.result.span_bubble(rank)},
                     {"peak_activation_micro_batches", row.result.ranks[r].peak / row.stage_activation}});
  }
  nlohmann::json json = {{"kind", row.name},
                         {"ranks", chunks.size()},
                         {"micro_batches", row.schedule.micro_batches},
                         {"chunks", row.schedule.rank_of_chunk.size()},
                         {"time", row.result.time},
                         {"bubble", row.result.bubble()},
                         {"span_bubble", row.result.span_bubble()},
                         {"peak_activation_micro_batches", row.result.peak() / row.stage_activation},
                         {"fits", row.fits},
                         {"by_rank", ranks}};
  if (!row.best_generator.empty()) {
    json["best_generator"] = row.best_generator;
    json["best_generator_time"] = row.generator_time;
  }
  return json;
}

std::string schedule_table(const std::vector<ScheduleRow>& rows, bool limited) {
  std::size_t width = 8;
  for (const ScheduleRow& row : rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("{:<{}}  {:>6}  {:>10}  {:>7}  {:>7}  {:>7}\n", "schedule", width, "chunks", "time",
                                 "bubble", "in span", "memory");
  for (const ScheduleRow& row : rows)
    text +=
        fmt::format("{:<{}}  {:>6}  {:>10.5g}  {:>6.1f}%  {:>6.1f}%  {:>7.4g}{}\n", row.name, width,
                    row.chunks_per_rank(), row.result.time, 100 * row.result.bubble(), 100 * row.result.span_bubble(),
                    row.result.peak() / row.stage_activation, limited && !row.fits ? "  does not fit" : "");
  return text +
         "\nchunks: on each rank. bubble: idle share of the time. in span: idle share of each rank's span, from its\n"
         "first operation to its last. memory: activations that the fullest rank keeps at once, in micro-batches of\n"
         "a rank's part of the model (1F1B's first rank keeps as many as there are ranks).\n";
}

}  // namespace espalier::cli
