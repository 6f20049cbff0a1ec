#include "planner/core/pipeline/csv.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/action_text.hpp"
#include "planner/core/pipeline/check.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::pipeline {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\"";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// "row 2, column 3 (1F0): why". Cells may hold anything: what is shown of them is short and printable.
[[noreturn]] void refuse(int row, int column, std::string_view cell, const std::string& why) {
  std::string text = "row " + std::to_string(row + 1);
  if (column >= 0) text += ", column " + std::to_string(column + 1);
  std::string shown(cell.substr(0, 40));
  for (char& letter : shown)
    if (letter < ' ' || letter > '~') letter = '?';
  if (!shown.empty()) text += " (" + shown + ")";
  throw Error(text + ": " + why);
}

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Schedule run() {
    std::vector<std::string_view> rows = split(text_, '\n');
    while (!rows.empty() && trimmed(rows.back()).empty()) rows.pop_back();
    if (rows.empty()) throw Error("the file is empty; write one row for each rank");
    for (std::size_t row = 0; row < rows.size(); ++row) read_row(static_cast<int>(row), rows[row]);
    place_chunks();
    expect_all_forwards();
    for (const Problem& problem : find_problems(schedule_)) report(problem);
    return std::move(schedule_);
  }

 private:
  void read_row(int row, std::string_view text) {
    schedule_.actions.emplace_back();
    columns_.emplace_back();
    const auto cells = split(text, ',');
    for (std::size_t column = 0; column < cells.size(); ++column)
      read_cell(row, static_cast<int>(column), trimmed(cells[column]));
    if (schedule_.actions.back().empty()) refuse(row, -1, "", "the rank computes nothing; leave no row empty");
  }

  void read_cell(int row, int column, std::string_view cell) {
    if (cell.empty()) return;
    if (cell.front() != '(') return add(row, column, read_action(row, column, cell));
    const std::size_t end = cell.find(')');
    if (end == std::string_view::npos || cell.substr(end + 1) != "OVERLAP_F_B")
      refuse(row, column, cell, "is no pair of operations; write one as (0F1;1B0)OVERLAP_F_B");
    for (const std::string_view part : split(cell.substr(1, end - 1), ';')) {
      const auto action = read_action(row, column, trimmed(part));
      if (!action) refuse(row, column, cell, "only computations overlap");
      add(row, column, action);
    }
  }

  void add(int row, int column, const std::optional<Action>& action) {
    if (!action) return;
    schedule_.actions[static_cast<std::size_t>(row)].push_back(*action);
    columns_[static_cast<std::size_t>(row)].push_back(column);
  }

  // nullopt: communication.
  std::optional<Action> read_action(int row, int column, std::string_view text) const {
    const auto number = [&](std::string_view digits, int limit, const char* what) {
      int value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error == std::errc::result_out_of_range || (error == std::errc() && value >= limit))
        refuse(row, column, text, std::string("the ") + what + " is too large; at most " + std::to_string(limit - 1));
      return value;
    };
    const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
    const auto kind_begin = std::find_if_not(text.begin(), text.end(), is_digit);
    const auto kind_end = std::find_if(kind_begin, text.end(), is_digit);
    const std::string_view before(text.begin(), kind_begin), kind(kind_begin, kind_end), after(kind_end, text.end());
    if (before.empty() || kind.empty() || !std::all_of(after.begin(), after.end(), is_digit))
      refuse(row, column, text, "is no operation; write chunk, F, B, I or W, and micro-batch, as in 2F0");
    const int chunk = number(before, kMaxScheduleChunks, "chunk");
    if (kind == "UNSHARD" || kind == "RESHARD" || kind == "REDUCE_GRAD") return std::nullopt;
    if (after.empty()) refuse(row, column, text, "the micro-batch is missing, as in 2F0");
    const int micro_batch = number(after, kMaxScheduleMicroBatches, "micro-batch");
    if (kind == "SEND_F" || kind == "RECV_F" || kind == "SEND_B" || kind == "RECV_B") return std::nullopt;
    for (const Compute one : {Compute::forward, Compute::backward, Compute::backward_input, Compute::backward_weight})
      if (kind.size() == 1 && kind[0] == letter(one)) return Action{one, chunk, micro_batch};
    refuse(row, column, text, "is no operation; write chunk, F, B, I or W, and micro-batch, as in 2F0");
  }

  // A chunk is on the rank of the first row that has it.
  void place_chunks() {
    for (std::size_t row = 0; row < schedule_.actions.size(); ++row)
      for (std::size_t at = 0; at < schedule_.actions[row].size(); ++at) {
        const Action& action = schedule_.actions[row][at];
        const auto chunk = static_cast<std::size_t>(action.chunk);
        if (chunk >= schedule_.rank_of_chunk.size()) schedule_.rank_of_chunk.resize(chunk + 1, -1);
        int& rank = schedule_.rank_of_chunk[chunk];
        if (rank < 0) rank = static_cast<int>(row);
        if (rank != static_cast<int>(row))
          refuse(static_cast<int>(row), columns_[row][at], to_string(action),
                 "the chunk is on rank " + std::to_string(rank) + " already, by row " + std::to_string(rank + 1));
        schedule_.micro_batches = std::max(schedule_.micro_batches, action.micro_batch + 1);
      }
    for (std::size_t chunk = 0; chunk < schedule_.rank_of_chunk.size(); ++chunk)
      if (schedule_.rank_of_chunk[chunk] < 0)
        throw Error("chunk " + std::to_string(chunk) + " is nowhere, but chunk " +
                    std::to_string(schedule_.rank_of_chunk.size() - 1) +
                    " is there; number the chunks from 0 without a gap");
  }

  // Before anything is sized by chunks times micro-batches: those are numbers that anybody may have written.
  void expect_all_forwards() const {
    std::set<std::pair<int, int>> there;
    for (const auto& list : schedule_.actions)
      for (const Action& action : list)
        if (action.kind == Compute::forward) there.emplace(action.chunk, action.micro_batch);
    for (int chunk = 0; chunk < static_cast<int>(schedule_.rank_of_chunk.size()); ++chunk)
      for (int m = 0; m < schedule_.micro_batches; ++m)
        if (!there.contains({chunk, m}))
          refuse(schedule_.rank_of_chunk[static_cast<std::size_t>(chunk)], -1, "",
                 to_string(Action{Compute::forward, chunk, m}) + " is missing: the step has micro-batches 0 to " +
                     std::to_string(schedule_.micro_batches - 1));
  }

  [[noreturn]] void report(const Problem& problem) const {
    if (problem.rank < 0) throw Error(problem.text);
    const auto rank = static_cast<std::size_t>(problem.rank);
    if (problem.at < 0) refuse(problem.rank, -1, "", problem.text);
    const auto at = static_cast<std::size_t>(problem.at);
    refuse(problem.rank, columns_[rank][at], to_string(schedule_.actions[rank][at]), problem.text);
  }

  const std::string& text_;
  Schedule schedule_;
  std::vector<std::vector<int>> columns_;  // of each action
};

}  // namespace

Schedule read_csv(const std::string& text) { return Reader(text).run(); }

std::string write_csv(const Schedule& schedule) {
  std::string text;
  for (const auto& list : schedule.actions) {
    for (std::size_t at = 0; at < list.size(); ++at) text += (at > 0 ? "," : "") + to_string(list[at]);
    text += "\n";
  }
  return text;
}

}  // namespace espalier::pipeline
