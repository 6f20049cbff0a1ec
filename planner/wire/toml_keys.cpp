#include "planner/wire/toml_keys.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/wire/toml_version.hpp"

namespace espalier::wire {

toml::value parse_toml_file(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) throw Error(path + ": cannot be read; check the path and its mode");
  if (is_folder(path)) throw Error(path + ": is a folder; name a TOML file");
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown))
    throw Error(path + ": is a pipe or a device; name a TOML file");  // it is read twice
  try {
    std::ifstream in(path, std::ios::binary);
    check_toml(read_text(in, kMaxTomlText));
    return toml::parse(path);
  } catch (const toml::syntax_error& error) {
    throw Error(path + ":" + std::to_string(toml_error_line(error)) + ": no valid TOML: " + error.what());
  } catch (const std::exception& error) {
    throw Error(path + ": cannot be parsed: " + error.what());
  }
}

void read_toml_table(const std::string& path, const std::string& name, const toml::value& content,
                     const TomlKeys& known, const std::string& manual) {
  if (!content.is_table()) fail_toml(path, content, name, "must be a table");
  for (const auto& [key, value] : content.as_table()) {
    const auto setter = known.find(key);
    if (setter == known.end())
      fail_toml(path, value, name.empty() ? key : name + "." + key, "unknown key; see " + manual);
    setter->second(value);
  }
}

void fail_toml(const std::string& path, const toml::value& at, const std::string& key, const std::string& problem) {
  throw Error(path + ":" + std::to_string(toml_line(at)) + ": " + key + ": " + problem);
}

TomlSetter toml_real(const std::string& path, const std::string& key, double& out, double low, double high) {
  return [&out, path, key, low, high](const toml::value& value) {
    if (!value.is_floating() && !value.is_integer()) fail_toml(path, value, key, "must be a number");
    const double number = value.is_integer() ? static_cast<double>(value.as_integer()) : value.as_floating();
    if (!(number >= low && number <= high))
      fail_toml(path, value, key, "must be between " + std::to_string(low) + " and " + std::to_string(high));
    out = number;
  };
}

TomlSetter toml_text(const std::string& path, const std::string& key, std::string& out, bool may_be_empty) {
  return [&out, path, key, may_be_empty](const toml::value& value) {
    if (!value.is_string()) fail_toml(path, value, key, "must be a string");
    if (!may_be_empty && toml_string(value).empty()) fail_toml(path, value, key, "must not be empty");
    out = toml_string(value);
  };
}

TomlSetter toml_network(const std::string& path, const std::string& key, std::string& out) {
  return [&out, path, key](const toml::value& value) {
    toml_text(path, key, out, true)(value);
    if (out.empty()) return;
    const auto slash = std::min(out.find('/'), out.size());
    const char* const end = out.data() + out.size();
    in_addr address{};
    int bits = -1;
    const auto read = slash == out.size() ? std::from_chars_result{end, std::errc::invalid_argument}
                                          : std::from_chars(out.data() + slash + 1, end, bits);
    if (::inet_pton(AF_INET, out.substr(0, slash).c_str(), &address) != 1 || read.ec != std::errc() ||
        read.ptr != end || bits < 1 || bits > 32)
      fail_toml(path, value, key, "must be an IPv4 network such as \"10.0.0.0/16\", or empty");
  };
}

TomlSetter toml_address(const std::string& path, const std::string& key, std::string& out) {
  return [&out, path, key](const toml::value& value) {
    toml_text(path, key, out, true)(value);
    if (out.empty()) return;
    const auto colon = out.rfind(':');
    std::string host = out.substr(0, std::min(colon, out.size()));
    const char* const end = out.data() + out.size();
    int port = 0;
    const auto read = colon == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                 : std::from_chars(out.data() + colon + 1, end, port);
    in6_addr address{};
    const bool six = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (six) host = host.substr(1, host.size() - 2);
    if (::inet_pton(six ? AF_INET6 : AF_INET, host.c_str(), &address) != 1 || read.ec != std::errc() ||
        read.ptr != end || port < 1 || port > 65535)
      fail_toml(path, value, key, "must be a numeric address and a port such as \"127.0.0.1:7322\", or empty");
  };
}

TomlSetter toml_truth(const std::string& path, const std::string& key, bool& out) {
  return [&out, path, key](const toml::value& value) {
    if (!value.is_boolean()) fail_toml(path, value, key, "must be true or false");
    out = value.as_boolean();
  };
}

TomlSetter toml_one_of(const std::string& path, const std::string& key, std::string& out,
                       const std::vector<std::string>& allowed) {
  return [&out, path, key, allowed](const toml::value& value) {
    toml_text(path, key, out, false)(value);
    if (std::find(allowed.begin(), allowed.end(), out) != allowed.end()) return;
    std::string list;
    for (std::size_t i = 0; i < allowed.size(); ++i)
      list += (i == 0 ? "" : i + 1 < allowed.size() ? ", " : " or ") + allowed[i];
    fail_toml(path, value, key, "must be " + list);
  };
}

TomlSetter toml_texts(const std::string& path, const std::string& key, std::vector<std::string>& out) {
  return [&out, path, key](const toml::value& value) {
    if (!value.is_array()) fail_toml(path, value, key, "must be a list of strings");
    out.clear();
    for (const toml::value& entry : value.as_array()) {
      if (!entry.is_string() || toml_string(entry).empty())
        fail_toml(path, entry, key, "must be a list of strings that are not empty");
      out.push_back(toml_string(entry));
    }
  };
}

}  // namespace espalier::wire
