#include "torchrt/profiler/trace.hpp"

#include <filesystem>

#include "planner/core/json.hpp"

namespace espalier::torchrt {

std::string trace_events(std::span<const OpTimes> times, int rank) {
  std::string text;
  for (const OpTimes& one : times) {
    Json arguments = {{"step", one.step}, {"waited", one.start - one.begin}, {"sums", one.sums}};
    for (const auto& [name, value] :
         {std::pair("micro_batch", one.op.micro_batch), {"unit", one.op.unit}, {"peer", one.op.peer}})
      if (value >= 0) arguments[name] = value;
    const Json event = {
        {"name", describe(one.op.kind)}, {"ph", "X"},        {"pid", rank}, {"tid", 0}, {"ts", one.begin},
        {"dur", one.end - one.begin},    {"args", arguments}};
    text += event.dump() + ",\n";
  }
  return text;
}

std::string trace_file(const std::string& folder, int rank) {
  std::error_code ignored;  // opening the file reports a folder that is not there
  std::filesystem::create_directories(folder, ignored);
  return folder + "/rank-" + std::to_string(rank) + ".json";
}

void append_trace(LineFile& file, int rank, std::span<const OpTimes> times) {
  file.append((file.empty() ? "[\n" : "") + trace_events(times, rank));
}

}  // namespace espalier::torchrt
