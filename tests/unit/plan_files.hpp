// Files for the tests of `espalier plan`, and the tool's messages about them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "planner/cli/commands.hpp"

namespace espalier::plan_files {

// A new folder that is removed with the object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "espalier-plan-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

// The message that `act` fails with, without the folder's path.
template <class Act>
std::string complaint(const Folder& folder, Act act) {
  try {
    act();
  } catch (const Error& error) {
    std::string text = error.what();
    const std::string prefix = folder.path("");
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) text.erase(at, prefix.size());
    return text;
  }
  return "accepted";
}

inline std::string plan(const std::string& job, const std::string& cluster, const std::string& gpus,
                        std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"plan", "--job", job, "--cluster", cluster, "--gpus", gpus});
  return cli::plan(cli::parse_arguments(more));
}

}  // namespace espalier::plan_files
