#include "launcher/node/gpu_bus_ids.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

namespace espalier::launcher {
namespace {

namespace fs = std::filesystem;

struct Gpu {
  std::string bus_id;
  int minor = 0;
};

std::optional<int> number_in(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return std::nullopt;
  int number = -1;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + first, last, number);
  if (error != std::errc{} || end != last || number < 0) return std::nullopt;
  return number;
}

// Of the file `information`, which has lines such as "Device Minor: 	 2".
std::optional<int> minor_in(const fs::path& file) {
  static const std::string key = "Device Minor:";
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return number_in(line.substr(key.size()));
  return std::nullopt;
}

// In the order of the bus. Empty where a GPU has no minor number: those after it would be taken for others.
std::vector<Gpu> gpus_of(const fs::path& driver) {
  std::vector<Gpu> gpus;
  std::error_code error;
  for (fs::directory_iterator folder(driver, error), end; !error && folder != end; folder.increment(error)) {
    const std::optional<int> minor = minor_in(folder->path() / "information");
    if (!minor) return {};
    gpus.push_back({folder->path().filename().string(), *minor});
  }
  if (error) return {};
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.bus_id < b.bus_id; });
  return gpus;
}

// Empty where a number has no GPU or one that the process may not use.
std::map<int, std::string> chosen(const std::vector<Gpu>& gpus, const std::set<int>& wanted,
                                  const std::function<bool(int)>& may_use) {
  std::map<int, std::string> by_number;
  for (const int number : wanted) {
    if (static_cast<std::size_t>(number) >= gpus.size()) return {};
    const Gpu& gpu = gpus[static_cast<std::size_t>(number)];
    if (!may_use(gpu.minor)) return {};
    by_number[number] = gpu.bus_id;
  }
  return by_number;
}

}  // namespace

bool may_use_gpu(int minor) { return ::access(("/dev/nvidia" + std::to_string(minor)).c_str(), R_OK | W_OK) == 0; }

std::map<int, std::string> numbered_bus_ids(const std::string& slurm_gpus, const fs::path& driver,
                                            const std::function<bool(int)>& may_use) {
  if (slurm_gpus.ends_with(',')) return {};  // the loop would not see the empty number
  std::set<int> wanted;
  std::istringstream in(slurm_gpus);
  for (std::string one; std::getline(in, one, ',');) {
    const std::optional<int> number = number_in(one);
    if (!number || !wanted.insert(*number).second) return {};
  }
  std::vector<Gpu> gpus = gpus_of(driver);
  auto by_bus = chosen(gpus, wanted, may_use);
  if (!by_bus.empty()) return by_bus;
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.minor < b.minor; });
  return chosen(gpus, wanted, may_use);
}

std::string gpu_bus_ids(const std::string& slurm_gpus, const fs::path& driver,
                        const std::function<bool(int)>& may_use) {
  std::string list;
  for (const auto& [number, bus_id] : numbered_bus_ids(slurm_gpus, driver, may_use))
    list += (list.empty() ? "" : ",") + bus_id;
  return list;
}

}  // namespace espalier::launcher
