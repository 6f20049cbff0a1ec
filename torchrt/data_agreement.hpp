// All ranks of a generation, the generation before and the checkpoint must have read the same data: a sample's number
// is the position in the data, and in another file it means another sample. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "torchrt/data_fingerprint.hpp"

namespace espalier::torchrt {

// Between 0 and INT_MAX. Ranks with the same number read the same files.
int data_number(const DataFiles& files);
// What a rank tells the others where the numbers differ.
std::string data_report(const std::string& host, const DataFiles& files);
// The message about the first rank that differs from rank 0. `reports`: of all ranks, by rank.
std::string data_difference(const std::vector<std::vector<char>>& reports);

// What a generation's marks tell of its files (planner/wire/vault_message.hpp). 0: not told, or no file.
struct DataMarks {
  std::int64_t data = 0, validation = 0;
};
DataMarks data_marks(const DataFiles& files);

// Which of `files` is another one than before; empty: none. What was not recorded is not compared.
// `facts`: of the checkpoint that is called `checkpoint`. `before`: of the generation before.
std::string changed_since(const nlohmann::json& facts, const std::string& checkpoint, const DataFiles& files);
std::string changed_since(const DataMarks& before, const DataFiles& files);
// Follow these words: training is refused, or data.changed lets it go on.
inline constexpr const char* kRestoreData = "; restore the file, or set data.changed = true to go on with this one";
inline constexpr const char* kGoesOn = "; training goes on with this one, because data.changed = true";

}  // namespace espalier::torchrt
