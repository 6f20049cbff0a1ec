// Limits on the texts of others: how large, how deep, how many. All limits of parsers are here, but for those that
// belong to a meaning (e.g. the most layers of a model, torchrt/config_model.cpp) and those of the option, which is C
// (spank/elastic_option.h) and of a frame as a whole (planner/wire/frame.hpp).
//
// Parsers of JSON and TOML, and what frees and prints their values, call themselves for each level: a text nested
// without end would end the process. A short text can also hold millions of values, each of which takes 16 bytes or
// more in memory. So each text is looked through before a parser gets it. All programs read such texts by these
// functions.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace espalier {

inline constexpr int kMaxDepth = 64;  // no text of Espalier comes near it

// Bytes.
inline constexpr std::size_t kMaxTomlText = 16u << 20;
inline constexpr std::size_t kMaxJsonText = std::size_t{1} << 30;        // a checkpoint's manifest names every slice
inline constexpr std::size_t kMaxSafetensorsHeader = 100'000'000;        // the format's own limit
inline constexpr std::size_t kMaxHwlocText = 2u << 20;                   // a node with 8 GPUs: below 100 KiB
inline constexpr std::size_t kMaxTopologyText = 64u << 20;               // 16,384 switches: 1 MiB
inline constexpr std::size_t kMaxScheduleText = std::size_t{256} << 20;  // 1024 stages, 1024 micro-batches: 100 MB
inline constexpr std::size_t kMaxTraceText = std::size_t{4} << 30;       // unpacked

// Numbers.
inline constexpr std::size_t kMaxFrameValues = std::size_t{1} << 20;  // a plan of 16,384 GPUs: some 50,000
inline constexpr std::size_t kMaxJsonValues = std::size_t{1} << 26;   // of a file
inline constexpr std::size_t kMaxHosts = std::size_t{1} << 17;        // of a host list; Slurm knows 65,536 nodes
inline constexpr std::size_t kMaxHwlocGpus = 256;
inline constexpr double kMaxTraceNumber = 1e15;  // of seconds and counts: sums and differences stay exact
inline constexpr int kMaxScheduleChunks = 1 << 15, kMaxScheduleMicroBatches = 1 << 20;

// Of a text that is no JSON, too.
struct JsonSize {
  int depth = 0;           // greatest depth of lists and objects
  std::size_t values = 0;  // at least as many as a parser makes, names in objects counted as well
};
JsonSize json_size(std::string_view text);
// The same of arrays, inline tables, and the tables that a dotted key makes.
int toml_depth(std::string_view text);

// Throws Error when the text is too long, nested too deeply or of too many values, nlohmann's exceptions when it is no
// JSON.
nlohmann::json parse_json(std::string_view text);
nlohmann::json parse_json(std::istream& in);
// A discarded value instead of an exception.
nlohmann::json try_json(std::string_view text);
nlohmann::json try_json(std::istream& in);

// Throws Error without a file name when toml::parse must not get the text.
void check_toml(std::string_view text);
// The file's or stream's text; throws Error when it has more than `most` bytes.
std::string read_text(std::istream& in, std::size_t most);

}  // namespace espalier
