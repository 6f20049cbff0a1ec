// Strict reading of Hugging Face's config.json. Every key is read, or known not to affect the
// arithmetic, or refused by name. null counts as absent.
#pragma once

#include <initializer_list>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

namespace espalier::torchrt {

// Methods throw Error that names the file and the key.
class ConfigJson {
 public:
  explicit ConfigJson(const std::string& path);
  ConfigJson(nlohmann::json object, std::string what);

  bool has(const std::string& key) const;
  // Leaves `value` alone when the key is absent.
  void read(const std::string& key, int& value);  // at least 1
  void read(const std::string& key, double& value);
  void read(const std::string& key, bool& value);
  void read(const std::string& key, std::string& value);
  template <class Value>
  void require(const std::string& key, Value& value) {
    if (!has(key)) fail(key, "is missing; it decides the model's shape");
    read(key, value);
  }
  // If the key is there, it must have this value, because only this value is supported.
  void only(const std::string& key, const nlohmann::json& value);
  void ignore(std::initializer_list<const char*> keys);
  // A table inside this table; empty when absent.
  ConfigJson table(const std::string& key);
  const nlohmann::json& at(const std::string& key);
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;
  // Throws when the file has a key that was not asked for.
  void finish() const;

 private:
  nlohmann::json object_;
  std::string what_;
  std::set<std::string> known_;
};

}  // namespace espalier::torchrt
