#include "torchrt/profiler/trace.hpp"

#include <filesystem>
#include <fstream>

#include "planner/core/error.hpp"
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

void append_trace(const std::string& folder, int rank, std::span<const OpTimes> times) {
  std::error_code ignored;  // opening the file reports a folder that is not there
  std::filesystem::create_directories(folder, ignored);
  const std::string path = folder + "/rank-" + std::to_string(rank) + ".json";
  const bool fresh = !std::filesystem::exists(path);
  std::ofstream out(path, std::ios::app);
  if (fresh) out << "[\n";
  out << trace_events(times, rank);
  if (!out.flush()) throw Error("profile.trace: " + path + " cannot be written");
}

void append_profile(const std::string& path, const Profile& profile) {
  std::ofstream out(path, std::ios::app);
  out << Json(profile).dump() << "\n";
  if (!out.flush()) throw Error("profile.path: " + path + " cannot be written");
}

}  // namespace espalier::torchrt
