// Reads what Slurm's library does not tell: plugstack.conf, and the files of the plugins.
#include <glob.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "planner/cli/doctor/bounded.hpp"
#include "planner/cli/doctor/gather.hpp"
#include "planner/core/error.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr int kMostIncludes = 8;  // of files that include each other
constexpr double kSrunSeconds = 20;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> list;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) list.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return list;
}

PluginFile look_at(const std::string& path) {
  PluginFile plugin{path, ::access(path.c_str(), R_OK) == 0, std::nullopt};
  if (plugin.exists) plugin.built_for = plugin_version(path);
  return plugin;
}

struct PlugstackReader {
  std::string plugin, plugin_dir;
  std::vector<PlugstackLine> found;

  void read(const std::string& path, int depth) {
    std::ifstream file(path);
    if (!file && depth > 0) return;  // an include that matches nothing is no error, either
    if (!file) throw Error(path + ": cannot be read: " + std::strerror(errno));
    std::string text;
    for (int line = 1; std::getline(file, text); ++line) {
      text.resize(std::min(text.size(), text.find('#')));
      std::istringstream words(text);
      std::string kind, name;
      if (!(words >> kind >> name)) continue;
      if (kind == "include" && depth < kMostIncludes)
        for (const std::string& included : matches(name.front() == '/' ? name : folder_of(path) + name))
          read(included, depth + 1);
      if ((kind == "optional" || kind == "required") && name_of(name) == plugin) add(path, line, kind, name, words);
    }
  }

  void add(const std::string& path, int number, const std::string& kind, const std::string& name,
           std::istringstream& words) {
    PlugstackLine line{path, number, kind == "required", {}, {}};
    const std::string in_folder = name.front() == '/' ? name : find_plugin(plugin_dir, name);
    line.plugin = look_at(in_folder.empty() ? name : in_folder);
    for (std::string word; words >> word;) line.arguments.push_back(word);
    found.push_back(std::move(line));
  }
};

}  // namespace

std::string find_plugin(const std::string& plugin_dir, const std::string& file) {
  for (std::size_t begin = 0; begin <= plugin_dir.size();) {
    const std::size_t end = std::min(plugin_dir.find(':', begin), plugin_dir.size());
    const std::string path = plugin_dir.substr(begin, end - begin) + "/" + file;
    if (end > begin && ::access(path.c_str(), F_OK) == 0) return path;
    begin = end + 1;
  }
  return "";
}

std::vector<PlugstackLine> read_plugstack(const std::string& path, const std::string& plugin,
                                          const std::string& plugin_dir) {
  PlugstackReader reader{plugin, plugin_dir, {}};
  reader.read(path, 0);
  return reader.found;
}

Learned<Plugins> gather_plugins(const Slurm& slurm) {
  Plugins plugins;
  const std::string folders = slurm.setting("PluginDir");
  plugins.plugstack = slurm.setting("PlugStackConfig");
  if (plugins.plugstack.empty()) plugins.plugstack = folder_of(slurm.setting("SLURM_CONF")) + "plugstack.conf";
  if (const std::string path = find_plugin(folders, "job_submit_espalier.so"); !path.empty())
    plugins.submit = look_at(path);
  // What slurmctld tells is a path on its own host. On a site without files of configuration on the nodes (configless)
  // they are where slurmd keeps them.
  const char* own = std::getenv("SLURM_CONF");
  for (const std::string& folder : {folder_of(own == nullptr ? "" : own), std::string("/run/slurm/conf/")})
    if (const std::string path = folder + "plugstack.conf";
        ::access(plugins.plugstack.c_str(), F_OK) != 0 && !folder.empty() && ::access(path.c_str(), F_OK) == 0)
      plugins.plugstack = path;
  try {
    plugins.spank = read_plugstack(plugins.plugstack, "espalier.so", folders);
    plugins.pyxis = read_plugstack(plugins.plugstack, "spank_pyxis.so", folders);
  } catch (const Error& error) {
    return Learned<Plugins>::unknown(error.what());
  }
  const auto launcher = plugins.argument("launcher");
  plugins.launcher_there = launcher && ::access(launcher->c_str(), X_OK) == 0;
  return plugins;
}

Learned<bool> gather_srun_option() {
  const Bounded help = run_bounded({"srun", "--help"}, kSrunSeconds);
  if (!help.succeeded()) return Learned<bool>::unknown(help.problem());
  return help.output.find("--elastic") != std::string::npos;
}

}  // namespace espalier::cli::doctor
