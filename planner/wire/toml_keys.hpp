// Strict reading of TOML files: a table of the keys that a file may have, with what each sets. Everything else in the
// file, a wrong type and a value out of range are Errors that name file, line and key.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <toml.hpp>
#include <vector>

namespace espalier::wire {

using TomlSetter = std::function<void(const toml::value&)>;
using TomlKeys = std::map<std::string, TomlSetter>;

// The whole file. Throws Error when it cannot be read or is no TOML.
toml::value parse_toml_file(const std::string& path);

// Sets what `content` gives of `known`. `name`: of the table, as the file writes it; empty: the file itself. `manual`:
// where a person reads about the keys, "espalier.toml(5)".
void read_toml_table(const std::string& path, const std::string& name, const toml::value& content,
                     const TomlKeys& known, const std::string& manual);

[[noreturn]] void fail_toml(const std::string& path, const toml::value& at, const std::string& key,
                            const std::string& problem);

// Setters. `key`: its full name, for messages; `out` must outlive the setter.
template <class Number>
TomlSetter toml_whole(const std::string& path, const std::string& key, Number& out, long low, long high) {
  return [&out, path, key, low, high](const toml::value& value) {
    if (!value.is_integer()) fail_toml(path, value, key, "must be a whole number");
    const auto number = value.as_integer();
    if (number < low || number > high)
      fail_toml(path, value, key, "must be between " + std::to_string(low) + " and " + std::to_string(high));
    out = static_cast<Number>(number);
  };
}
TomlSetter toml_real(const std::string& path, const std::string& key, double& out, double low, double high);
TomlSetter toml_text(const std::string& path, const std::string& key, std::string& out, bool may_be_empty);
// "", or an IPv4 network as "10.0.0.0/16".
TomlSetter toml_network(const std::string& path, const std::string& key, std::string& out);
// "", or a numeric address and a port as "127.0.0.1:80" or "[::1]:80".
TomlSetter toml_address(const std::string& path, const std::string& key, std::string& out);
TomlSetter toml_truth(const std::string& path, const std::string& key, bool& out);
TomlSetter toml_one_of(const std::string& path, const std::string& key, std::string& out,
                       const std::vector<std::string>& allowed);
TomlSetter toml_texts(const std::string& path, const std::string& key, std::vector<std::string>& out);

}  // namespace espalier::wire
