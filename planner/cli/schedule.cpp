// `espalier schedule`: makes, reads and searches pipeline schedules, and compares them.
#include <cerrno>
#include <cstring>
#include <fstream>

#include "planner/cli/commands.hpp"
#include "planner/cli/schedule_costs.hpp"
#include "planner/cli/schedule_job.hpp"
#include "planner/cli/schedule_report.hpp"
#include "planner/cli/schedule_search.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::cli {
namespace {

pipeline::Schedule read_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(file + ": cannot be read: " + std::strerror(errno) + "; name another file by --file");
  try {
    const std::string text = read_text(in, kMaxScheduleText);
    if (in.bad()) throw Error(std::string("cannot be read: ") + std::strerror(errno) + "; name another file by --file");
    return pipeline::read_csv(text);
  } catch (const Error& error) {
    throw Error(file + ": " + error.what());
  }
}

void write_file(const std::string& file, const char* option, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw Error(file + ": cannot be written: " + std::strerror(errno) + "; name another file by " + option);
}

ScheduleRow row_of(const ScheduleArguments& arguments, const std::string& name, pipeline::Schedule schedule) {
  ScheduleRow row;
  row.name = name;
  const pipeline::Costs costs = schedule_costs(arguments, schedule);
  row.result = pipeline::simulate(schedule, costs);
  row.stage_activation = stage_activation(costs, schedule);
  const std::vector<double> memory = schedule_memory(arguments, schedule);
  for (std::size_t rank = 0; rank < memory.size(); ++rank)
    row.fits = row.fits && row.result.ranks[rank].peak <= memory[rank] * (1 + 1e-9);
  row.schedule = std::move(schedule);
  return row;
}

int chunks_of(const ScheduleArguments& arguments, const pipeline::Generator& kind) {
  if (kind.chunks_per_rank > 0) return kind.chunks_per_rank;
  if (arguments.chunks > 0) return arguments.chunks;
  return std::string(kind.name) == "interleaved" ? 2 : 1;
}

std::vector<ScheduleRow> all_rows(const ScheduleArguments& arguments) {
  std::vector<ScheduleRow> rows;
  if (!arguments.file.empty()) rows.push_back(row_of(arguments, arguments.file, read_file(arguments.file)));
  for (const std::string& kind : arguments.kinds) {
    const int chunks = chunks_of(arguments, pipeline::generator(kind));
    rows.push_back(
        row_of(arguments, kind, pipeline::generate(kind, {arguments.ranks, arguments.micro_batches, chunks})));
  }
  if (!arguments.search) return rows;
  pipeline::Found found = searched_schedule(arguments, arguments.file.empty() ? nullptr : &rows[0].schedule);
  ScheduleRow& row = rows.emplace_back(row_of(arguments, "searched", std::move(found.schedule)));
  row.best_generator = found.best_generator;
  row.generator_time = found.generator_time;
  return rows;
}

void expect_one_fits(const std::vector<ScheduleRow>& rows) {
  const ScheduleRow* least = nullptr;
  for (const ScheduleRow& row : rows) {
    if (row.fits) return;
    if (!least || row.result.peak() < least->result.peak()) least = &row;
  }
  throw Error("--memory: none of the schedules fits; " + least->name + " needs least, " +
              std::to_string(least->result.peak()) + " on its fullest rank");
}

}  // namespace

std::string schedule(const std::vector<std::string>& words) {
  std::string help;
  auto parsed = parse_schedule(words, help);
  if (!parsed) return help;
  const bool of_job = parsed->job > 0 || !parsed->profile.empty(), limited = !parsed->memory.empty();
  const std::string told = of_job ? take_job(*parsed) : "";
  const std::vector<ScheduleRow> rows = all_rows(*parsed);
  // Of --file --search it is the searched one.
  if (!parsed->csv.empty() && rows.size() != 1 && !(parsed->search && rows.size() == 2 && !parsed->file.empty()))
    throw UsageError("--csv: writes one schedule; choose it by --kind, --file or --search");
  if (limited) expect_one_fits(rows);
  if (!parsed->csv.empty()) write_file(parsed->csv, "--csv", pipeline::write_csv(rows.back().schedule));
  if (!parsed->svg.empty()) write_file(parsed->svg, "--svg", schedule_svg(rows));
  if (parsed->json) {
    if (rows.size() == 1) return schedule_json(rows[0]).dump(2) + "\n";
    nlohmann::json all = nlohmann::json::array();
    for (const ScheduleRow& row : rows) all.push_back(schedule_json(row));
    return nlohmann::json{{"schedules", all}}.dump(2) + "\n";
  }
  std::string text = told + schedule_table(rows, !parsed->memory.empty());
  if (!parsed->draw) return text;
  for (const ScheduleRow& row : rows) text += "\n" + schedule_drawing(row);
  return text + "\n" + schedule_drawing_legend();
}

}  // namespace espalier::cli
