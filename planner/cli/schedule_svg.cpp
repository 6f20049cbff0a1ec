// Draws schedules as SVG: one row of boxes a rank, time from left to right, the micro-batch's number in each box.
#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/schedule_report.hpp"

namespace espalier::cli {
namespace {

constexpr double kWidth = 1400, kMargin = 60, kRow = 18, kHeading = 26;

// By kind, and lighter for every further chunk of the rank.
std::string colour(pipeline::Compute kind, int round) {
  const int hue = kind == pipeline::Compute::forward          ? 212
                  : kind == pipeline::Compute::backward       ? 160
                  : kind == pipeline::Compute::backward_input ? 176
                                                              : 128;
  return fmt::format("hsl({},55%,{}%)", hue, std::min(85, 58 + 14 * round));
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '&') safe += "&amp;";
    else if (letter == '<') safe += "&lt;";
    else if (letter == '>') safe += "&gt;";
    else safe += letter;
  }
  return safe;
}

std::string boxes(const ScheduleRow& row, int rank, double top, double scale) {
  std::string text;
  const auto& actions = row.schedule.actions[static_cast<std::size_t>(rank)];
  const auto& spans = row.result.spans[static_cast<std::size_t>(rank)];
  for (std::size_t at = 0; at < actions.size(); ++at) {
    int round = 0;
    for (int chunk = 0; chunk < actions[at].chunk; ++chunk)
      if (row.schedule.rank_of_chunk[static_cast<std::size_t>(chunk)] == rank) ++round;
    const double x = kMargin + spans[at].start * scale, width = (spans[at].end - spans[at].start) * scale;
    text += fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, top,
                        width, kRow - 2, colour(actions[at].kind, round));
    if (width >= 10)
      text += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x + width / 2,
                          top + kRow - 6, actions[at].micro_batch);
  }
  return text;
}

}  // namespace

std::string schedule_svg(const std::vector<ScheduleRow>& rows) {
  double longest = 0;
  for (const ScheduleRow& row : rows) longest = std::max(longest, row.result.time);
  const double scale = longest > 0 ? (kWidth - kMargin - 10) / longest : 1;
  std::string body;
  double top = 10;
  for (const ScheduleRow& row : rows) {
    body += fmt::format(
        "<text x=\"{}\" y=\"{:.1f}\" font-size=\"13\">{}: time {:.5g}, bubble {:.1f}%, memory {:.4g}{}</text>\n",
        kMargin, top + 14, escaped(row.name), row.result.time, 100 * row.result.bubble(),
        row.result.peak() / row.stage_activation, row.fits ? "" : ", does not fit");
    top += kHeading;
    for (int rank = 0; rank < static_cast<int>(row.schedule.actions.size()); ++rank, top += kRow)
      body += fmt::format("<text x=\"6\" y=\"{:.1f}\">rank {}</text>\n", top + kRow - 6, rank) +
              boxes(row, rank, top, scale);
    top += 12;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" font-family=\"sans-serif\" "
             "font-size=\"9\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             kWidth, top) +
         body + "</svg>\n";
}

}  // namespace espalier::cli
