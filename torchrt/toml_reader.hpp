// Strict reading of a TOML file: every key must be asked for, and every Error names file, line and
// key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

class TomlFile;

// One table. Methods throw Error. Valid as long as its file.
class TomlSection {
 public:
  // Leaves `value` alone when the key is absent. Numbers must lie in [least, most].
  void read(const std::string& key, int& value, std::int64_t least, std::int64_t most);
  void read(const std::string& key, std::int64_t& value, std::int64_t least, std::int64_t most);
  void read(const std::string& key, std::uint64_t& value, std::int64_t least, std::int64_t most);
  void read(const std::string& key, double& value, double least, double most);
  void read(const std::string& key, std::string& value);
  void read(const std::string& key, bool& value);
  void read(const std::string& key, std::vector<int>& value, std::int64_t least, std::int64_t most);
  // Reads a word from a list, in which each word stands for a value.
  template <class Value>
  void choose(const std::string& key, Value& value, std::initializer_list<std::pair<const char*, Value>> choices) {
    if (!has(key)) return note(key);
    std::string word, known;
    read(key, word);
    for (const auto& [name, meaning] : choices) {
      if (word == name) return static_cast<void>(value = meaning);
      known += (known.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    }
    fail(key, "is \"" + word + "\"; known are " + known);
  }
  template <class Value, class... Bounds>
  void require(const std::string& key, Value& value, Bounds... bounds) {
    if (!has(key)) missing(key);
    read(key, value, bounds...);
  }
  bool has(const std::string& key) const;
  // Throws an Error about a key, with the key's place in the file.
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;
  // Throws when the table holds a key that was not read.
  void finish() const;

 private:
  friend class TomlFile;
  TomlSection(const TomlFile& file, std::string name) : file_(&file), name_(std::move(name)) {}
  [[noreturn]] void missing(const std::string& key) const;
  void note(const std::string& key) { known_.push_back(key); }

  const TomlFile* file_;
  std::string name_;
  std::vector<std::string> known_;
};

class TomlFile {
 public:
  // `overrides`: "section.key=value", value in TOML's syntax or a bare word for a string.
  TomlFile(std::string path, const std::vector<std::string>& overrides);
  ~TomlFile();
  TomlSection section(const std::string& name, bool required);
  void finish() const;  // throws when the file holds a section that was not asked for

 private:
  friend class TomlSection;
  struct Content;
  std::string path_;
  std::unique_ptr<Content> content_;
  std::vector<std::string> known_;
};

}  // namespace espalier::torchrt
