// Gathers the facts of `espalier doctor`. Nothing here changes anything, and everything has a time limit.
#pragma once

#include <string>

#include "planner/cli/doctor/facts.hpp"

namespace espalier::cli::doctor {

// All facts but Facts::administrator. `config`: the path of espalier.toml as the user gave it, or empty. Takes a minute
// or two where nothing answers, and a second or two where everything does.
Facts gather(const std::string& config);

// The parts of it. None throws.
Learned<Slurm> gather_slurm();
Learned<Plugins> gather_plugins(const Slurm& slurm);
Learned<bool> gather_srun_option();
Learned<double> gather_munge();
void gather_planner(Facts& facts);   // needs facts.config
void gather_programs(Facts& facts);  // needs facts.prefix and facts.plugins
void gather_gpus(Facts& facts);
Learned<std::map<std::string, std::vector<std::string>>> gather_addresses(const std::vector<Node>& nodes);

// SLURM_VERSION_NUMBER of the headers that a plugin was compiled with; nullopt where the file cannot be read or does
// not tell. The plugin is not loaded: nothing of it runs.
std::optional<std::uint32_t> plugin_version(const std::string& path);

// The lines of a plugstack.conf, and of the files that it includes, which name a file `plugin`. A relative path is
// looked for in the folders of `plugin_dir` (PluginDir of slurm.conf). Throws Error when `path` cannot be read.
std::vector<PlugstackLine> read_plugstack(const std::string& path, const std::string& plugin,
                                          const std::string& plugin_dir);

// The first of PluginDir's folders that has the file; empty: none has.
std::string find_plugin(const std::string& plugin_dir, const std::string& file);

}  // namespace espalier::cli::doctor
