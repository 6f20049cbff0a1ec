#include "torchrt/data_agreement.hpp"

#include <climits>

namespace espalier::torchrt {

namespace {

constexpr const char* kKeys[] = {"data", "validation"};

std::string what(const std::string& key) { return key == "data" ? "data file" : "validation file"; }

const DataFile* file_of(const DataFiles& files, const std::string& key) {
  if (key == "data") return &files.training;
  return files.validation ? &*files.validation : nullptr;
}

}  // namespace

int data_number(const DataFiles& files) {
  const DataMarks marks = data_marks(files);
  const std::uint64_t both =
      static_cast<std::uint64_t>(marks.data) ^ static_cast<std::uint64_t>(marks.validation) * 0x9e3779b97f4a7c15u;
  return static_cast<int>((both ^ both >> 31) & INT_MAX);
}

std::string data_report(const std::string& host, const DataFiles& files) {
  nlohmann::json report = to_facts(files);
  report["host"] = host;
  return report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string data_difference(const std::vector<std::vector<char>>& reports) {
  const auto report_of = [&](std::size_t rank) {
    return nlohmann::json::parse(reports[rank].begin(), reports[rank].end(), nullptr, false);
  };
  const nlohmann::json first = report_of(0);
  const auto reads = [](std::size_t rank, const nlohmann::json& report, const std::optional<DataFile>& file) {
    return "rank " + std::to_string(rank) + " on " + report.value("host", "?") + " reads " +
           (file ? describe(*file) : "none");
  };
  for (std::size_t rank = 1; rank < reports.size(); ++rank) {
    const nlohmann::json other = report_of(rank);
    for (const char* key : kKeys) {
      const std::optional<DataFile> one = data_file_from(first, key), two = data_file_from(other, key);
      if (one.has_value() == two.has_value() && (!one || one->is == two->is)) continue;
      return what(key) + ": " + reads(0, first, one) + ", " + reads(rank, other, two) +
             "; give all nodes the same file";
    }
  }
  return "data file: the ranks read different files; give all nodes the same file";
}

DataMarks data_marks(const DataFiles& files) {
  return {short_fingerprint(files.training.is), files.validation ? short_fingerprint(files.validation->is) : 0};
}

std::string changed_since(const nlohmann::json& facts, const std::string& checkpoint, const DataFiles& files) {
  for (const char* key : kKeys) {
    const DataFile* const now = file_of(files, key);
    const std::optional<DataFile> then = data_file_from(facts, key);
    if (!now || !then || now->is == then->is) continue;
    return checkpoint + ": was written with the " + what(key) + " " + describe(*then) + ", now it is " + describe(*now);
  }
  return "";
}

std::string changed_since(const DataMarks& before, const DataFiles& files) {
  const DataMarks now = data_marks(files);
  const auto differ = [](std::int64_t one, std::int64_t other) { return one != 0 && other != 0 && one != other; };
  const char* const key = differ(before.data, now.data)               ? "data"
                          : differ(before.validation, now.validation) ? "validation"
                                                                      : nullptr;
  if (!key) return "";
  return what(key) + " " + describe(*file_of(files, key)) + ": is not the one that the job has trained with so far";
}

}  // namespace espalier::torchrt
