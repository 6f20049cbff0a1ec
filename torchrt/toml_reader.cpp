#include "torchrt/toml_reader.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <toml.hpp>

#include "planner/core/open_input.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/wire/toml_version.hpp"

namespace espalier::torchrt {

struct TomlFile::Content {
  toml::value root;
  std::map<std::string, std::string> overridden;  // "section.key" -> the override's text

  const toml::value* find(const std::string& section, const std::string& key) const {
    if (!root.is_table() || root.as_table().count(section) == 0) return nullptr;
    const toml::value& table = root.as_table().at(section);
    return table.as_table().count(key) == 0 ? nullptr : &table.as_table().at(key);
  }
};

namespace {

std::string line_of(const toml::value& value) { return std::to_string(wire::toml_line(value)); }

toml::value parse_override_value(const std::string& text) {
  std::istringstream typed("value = " + text + "\n");
  try {
    check_toml(text);
    return toml::find(toml::parse(typed, "--set"), "value");
  } catch (const std::exception&) {
    return toml::value(text);  // a bare word, because shells strip quotes
  }
}

std::string where(const std::string& path, const std::map<std::string, std::string>& overridden,
                  const std::string& name, const toml::value* value) {
  const auto found = overridden.find(name);
  if (found != overridden.end()) return "--set " + found->second + ": " + name;
  return path + ":" + (value ? line_of(*value) + ":" : "") + " " + name;
}

std::string kind_of(const toml::value& value) {
  std::ostringstream text;
  text << value.type();
  return text.str();
}

}  // namespace

TomlFile::TomlFile(std::string path, const std::vector<std::string>& overrides)
    : path_(std::move(path)), content_(std::make_unique<Content>()) {
  std::ifstream in = open_input(path_);
  if (!in) throw Error(path_ + ": cannot be read; give the path of a training configuration");
  try {
    std::istringstream text(read_text(in, kMaxTomlText));
    check_toml(text.view());
    content_->root = toml::parse(text, path_);
  } catch (const std::exception& problem) {
    throw Error(path_ + ": is not valid TOML: " + problem.what());
  }
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('='), dot = text.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot > equals || dot == 0 || dot + 1 == equals)
      throw Error("--set " + text + ": is not of the form section.key=value");
    const std::string section = text.substr(0, dot), key = text.substr(dot + 1, equals - dot - 1);
    if (content_->root.as_table().count(section) == 0) content_->root.as_table()[section] = toml::table();
    if (!content_->root.as_table().at(section).is_table()) continue;  // section() reports the error
    content_->root.as_table().at(section).as_table()[key] = parse_override_value(text.substr(equals + 1));
    content_->overridden[section + "." + key] = text;
  }
}

TomlFile::~TomlFile() = default;

TomlSection TomlFile::section(const std::string& name, bool required) {
  known_.push_back(name);
  const auto& table = content_->root.as_table();
  if (table.count(name) == 0) {
    if (required) throw Error(path_ + ": [" + name + "]: is missing");
  } else if (!table.at(name).is_table()) {
    throw Error(path_ + ":" + line_of(table.at(name)) + ": " + name + ": must be a table; write [" + name + "]");
  }
  return TomlSection(*this, name);
}

void TomlFile::finish() const {
  for (const auto& [name, value] : content_->root.as_table()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    for (const auto& [override_name, text] : content_->overridden)
      if (override_name.rfind(name + ".", 0) == 0)
        throw Error("--set " + text + ": there is no section [" + name + "]");
    throw Error(path_ + ":" + line_of(value) + ": " + name + ": unknown key; remove it");
  }
}

bool TomlSection::has(const std::string& key) const { return file_->content_->find(name_, key) != nullptr; }

void TomlSection::missing(const std::string& key) const {
  throw Error(file_->path_ + ": " + name_ + "." + key + ": is missing; add it to [" + name_ + "]");
}

void TomlSection::fail(const std::string& key, const std::string& problem) const {
  throw Error(where(file_->path_, file_->content_->overridden, name_ + "." + key, file_->content_->find(name_, key)) +
              ": " + problem);
}

void TomlSection::read(const std::string& key, std::int64_t& value, std::int64_t least, std::int64_t most) {
  note(key);
  const toml::value* found = file_->content_->find(name_, key);
  if (!found) return;
  if (!found->is_integer()) fail(key, "must be an integer, not " + kind_of(*found));
  value = found->as_integer();
  if (value < least || value > most)
    fail(key, "is " + std::to_string(value) + "; it must lie between " + std::to_string(least) + " and " +
                  std::to_string(most));
}

void TomlSection::read(const std::string& key, int& value, std::int64_t least, std::int64_t most) {
  std::int64_t wide = value;
  read(key, wide, least, most);
  value = static_cast<int>(wide);
}

void TomlSection::read(const std::string& key, std::uint64_t& value, std::int64_t least, std::int64_t most) {
  auto wide = static_cast<std::int64_t>(value);
  read(key, wide, least, most);
  value = static_cast<std::uint64_t>(wide);
}

void TomlSection::read(const std::string& key, double& value, double least, double most) {
  note(key);
  const toml::value* found = file_->content_->find(name_, key);
  if (!found) return;
  if (!found->is_floating() && !found->is_integer()) fail(key, "must be a number, not " + kind_of(*found));
  value = found->is_integer() ? static_cast<double>(found->as_integer()) : found->as_floating();
  if (!(value >= least && value <= most)) {
    std::ostringstream text;
    text << "is " << value << "; it must lie between " << least << " and " << most;
    fail(key, text.str());
  }
}

void TomlSection::read(const std::string& key, std::string& value) {
  note(key);
  const toml::value* found = file_->content_->find(name_, key);
  if (!found) return;
  if (!found->is_string()) fail(key, "must be a string, not " + kind_of(*found));
  value = wire::toml_string(*found);
}

void TomlSection::read(const std::string& key, std::vector<int>& value, std::int64_t least, std::int64_t most) {
  note(key);
  const toml::value* found = file_->content_->find(name_, key);
  if (!found) return;
  if (!found->is_array()) fail(key, "must be a list of integers, not " + kind_of(*found));
  value.clear();
  for (const toml::value& one : found->as_array()) {
    if (!one.is_integer()) fail(key, "must be a list of integers; it holds " + kind_of(one));
    const std::int64_t number = one.as_integer();
    if (number < least || number > most)
      fail(key, "holds " + std::to_string(number) + "; numbers must lie between " + std::to_string(least) + " and " +
                    std::to_string(most));
    value.push_back(static_cast<int>(number));
  }
}

void TomlSection::read(const std::string& key, bool& value) {
  note(key);
  const toml::value* found = file_->content_->find(name_, key);
  if (!found) return;
  if (!found->is_boolean()) fail(key, "must be true or false, not " + kind_of(*found));
  value = found->as_boolean();
}

void TomlSection::finish() const {
  const auto& root = file_->content_->root.as_table();
  if (root.count(name_) == 0) return;
  for (const auto& [key, value] : root.at(name_).as_table())
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      fail(key, "unknown key; remove it or correct its name");
}

}  // namespace espalier::torchrt
