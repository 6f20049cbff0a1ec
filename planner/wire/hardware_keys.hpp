// The sections [network] and [gpu.NAME], which espalier.toml and the cluster files of `espalier plan` share.
#pragma once

#include <set>
#include <string>

#include "planner/core/topology/hardware_overrides.hpp"
#include "planner/wire/toml_keys.hpp"

namespace espalier::wire {

// Reads `section` if it is [network] or [gpu], and returns true. Throws Error as read_toml_table()
// does.
bool read_hardware_section(const std::string& path, const std::string& section, const toml::value& content,
                           HardwareOverrides& out, const std::string& manual);

// The figures that a file gives, as "network.nic_gb_s". Its sections have been read.
std::set<std::string> hardware_keys(const toml::value& root);

// Checks keys against each other after the whole file has been read. Throws Error.
void check_hardware(const std::string& path, const HardwareOverrides& hardware);

}  // namespace espalier::wire
