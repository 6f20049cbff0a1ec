#include "tests/bench/planner/measurements.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <numeric>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/model/published_models.hpp"

namespace espalier::bench {
namespace {

constexpr const char* kRequired[] = {"model", "gpus", "nodes",         "placement",    "pp",
                                     "dp",    "tp",   "micro_batches", "global_batch", "iteration_time_s"};
constexpr const char* kOptional[] = {"fwdbwd_ms", "optimizer_ms", "family",   "layers",
                                     "hidden",    "heads",        "sequence", "vocabulary"};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::string cell;
  for (const char c : line) {
    if (c == ',') cells.push_back(std::exchange(cell, {}));
    else if (c != '\r') cell += c;
  }
  cells.push_back(cell);
  for (std::string& text : cells) {
    text.erase(0, text.find_first_not_of(" \t"));
    text.erase(text.find_last_not_of(" \t") + 1);
  }
  return cells;
}

class Row {
 public:
  Row(std::string where, const std::map<std::string, std::size_t>& columns, std::vector<std::string> cells)
      : where_(std::move(where)), columns_(columns), cells_(std::move(cells)) {}

  Error wrong(const std::string& column, const std::string& what) const {
    return Error(where_ + ": column " + column + ": " + what);
  }
  std::string text(const std::string& column) const {
    const auto at = columns_.find(column);
    return at == columns_.end() ? "" : cells_[at->second];
  }
  int whole(const std::string& column, int otherwise = 0) const {
    const std::string value = text(column);
    if (value.empty() && otherwise > 0) return otherwise;
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 1)
      throw wrong(column, "\"" + value + "\" is no whole number of at least 1");
    return number;
  }
  // Returns 0 for a time that was not measured.
  double time(const std::string& column, bool required) const {
    const std::string value = text(column);
    if (value.empty() && !required) return 0;
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || !(number > 0) || number > 1e9)
      throw wrong(column, "\"" + value + "\" is no positive time");
    return number;
  }

 private:
  std::string where_;
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> cells_;
};

ModelShape shape_of(const Row& row) {
  ModelShape shape;
  if (row.text("family").empty()) {
    try {
      shape = published_model(row.text("model"));
    } catch (const Error& error) {
      throw row.wrong("model", error.what());
    }
  } else {
    shape.family = row.text("family");
  }
  shape.layers = row.whole("layers", shape.layers);
  shape.hidden = row.whole("hidden", shape.hidden);
  shape.heads = row.whole("heads", shape.heads);
  // Measurements without this column were made with samples of 2048 tokens at most.
  shape.sequence = row.whole("sequence", std::min(shape.sequence, 2048));
  shape.vocabulary = row.whole("vocabulary", shape.vocabulary);
  shape.global_batch = row.whole("global_batch");
  shape.micro_batches = row.whole("micro_batches");
  return shape;
}

Measurement measurement_of(const Row& row, const std::string& where) {
  Measurement m;
  m.where = where;
  m.model = row.text("model");
  m.shape = shape_of(row);
  m.pp = row.whole("pp"), m.dp = row.whole("dp"), m.tp = row.whole("tp");
  m.micro_batches = m.shape.micro_batches;
  m.placement = row.text("placement");
  if (m.placement.empty() || m.placement.find_first_not_of("123456789") != std::string::npos)
    throw row.wrong("placement", "\"" + m.placement + "\" is not one digit (GPUs used) a node");
  const int gpus = row.whole("gpus");
  const int placed =
      std::accumulate(m.placement.begin(), m.placement.end(), 0, [](int sum, char c) { return sum + (c - '0'); });
  if (placed != gpus)
    throw row.wrong("placement", "holds " + std::to_string(placed) + " GPUs, the row says " + std::to_string(gpus));
  if (m.pp * m.dp * m.tp != gpus)
    throw row.wrong("gpus", std::to_string(gpus) + " is not pp x dp x tp = " + std::to_string(m.pp * m.dp * m.tp));
  if (static_cast<int>(m.placement.size()) != row.whole("nodes"))
    throw row.wrong("nodes", "the placement has " + std::to_string(m.placement.size()));
  if (m.shape.global_batch % m.micro_batches != 0)
    throw row.wrong("micro_batches", "does not divide the global batch of " + std::to_string(m.shape.global_batch));
  if (m.shape.global_batch / m.micro_batches < m.dp)
    throw row.wrong("dp", "a micro-batch of " + std::to_string(m.shape.global_batch / m.micro_batches) +
                              " samples cannot feed " + std::to_string(m.dp) + " replicas");
  if (m.pp > m.shape.layers)
    throw row.wrong("pp", "more stages than the model's " + std::to_string(m.shape.layers) + " layers");
  m.times.iteration = 1000 * row.time("iteration_time_s", true);
  m.times.forward_backward = row.time("fwdbwd_ms", false);
  m.times.optimizer = row.time("optimizer_ms", false);
  return m;
}

std::map<std::string, std::size_t> read_header(const std::string& where, const std::string& line) {
  std::map<std::string, std::size_t> columns;
  const auto names = split(line);
  for (std::size_t i = 0; i < names.size(); ++i) {
    bool known = false;
    for (const char* name : kRequired) known = known || names[i] == name;
    for (const char* name : kOptional) known = known || names[i] == name;
    if (!known) throw Error(where + ": column " + names[i] + ": unknown");
    if (!columns.emplace(names[i], i).second) throw Error(where + ": column " + names[i] + ": given twice");
  }
  for (const char* name : kRequired)
    if (!columns.count(name)) throw Error(where + ": column " + name + ": missing");
  return columns;
}

}  // namespace

std::string Measurement::name() const {
  std::string text = placement + " pp" + std::to_string(pp) + " dp" + std::to_string(dp) + " tp" + std::to_string(tp);
  if (micro_batches > 1) text += " x" + std::to_string(micro_batches);
  return text;
}

bool Measurement::same_model(const Measurement& other) const { return model == other.model; }

bool Measurement::same_plan(const Measurement& other) const {
  return same_model(other) && shape == other.shape && placement == other.placement && pp == other.pp &&
         dp == other.dp && tp == other.tp && micro_batches == other.micro_batches;
}

std::vector<Measurement> read_measurements(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(path + ": cannot be read");
  std::string line;
  if (!std::getline(file, line)) throw Error(path + ":1: the line that names the columns is missing");
  const auto columns = read_header(path + ":1", line);
  std::vector<Measurement> rows;
  for (int number = 2; std::getline(file, line); ++number) {
    if (line.empty() || line == "\r") continue;
    const std::string where = path + ":" + std::to_string(number);
    auto cells = split(line);
    if (cells.size() != columns.size())
      throw Error(where + ": has " + std::to_string(cells.size()) + " cells, there are " +
                  std::to_string(columns.size()) + " columns");
    rows.push_back(measurement_of(Row(where, columns, std::move(cells)), where));
  }
  if (rows.empty()) throw Error(path + ": holds no measurement");
  return rows;
}

}  // namespace espalier::bench
