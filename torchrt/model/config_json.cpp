#include "torchrt/model/config_json.hpp"

#include <cmath>
#include <fstream>
#include <limits>

#include "planner/core/error.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::torchrt {

namespace {

nlohmann::json load(const std::string& path) {
  std::ifstream file = open_input(path);
  if (!file) throw Error(path + ": cannot be read; give the path of a model's config.json");
  try {
    return parse_json(file);
  } catch (const std::exception& error) {
    throw Error(path + ": is not JSON: " + error.what());
  }
}

}  // namespace

ConfigJson::ConfigJson(const std::string& path) : ConfigJson(load(path), path) {}

ConfigJson::ConfigJson(nlohmann::json object, std::string what) : object_(std::move(object)), what_(std::move(what)) {
  if (!object_.is_object()) throw Error(what_ + ": must be a JSON object");
}

bool ConfigJson::has(const std::string& key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

const nlohmann::json& ConfigJson::at(const std::string& key) {
  known_.insert(key);
  return object_.at(key);
}

void ConfigJson::read(const std::string& key, int& value) {
  known_.insert(key);
  if (!has(key)) return;
  const nlohmann::json& given = object_.at(key);
  if (!given.is_number_integer() || given < 1 || given > std::numeric_limits<int>::max())
    fail(key, "is " + given.dump() + ", must be a whole number of at least 1");
  value = given.get<int>();
}

void ConfigJson::read(const std::string& key, double& value) {
  known_.insert(key);
  if (!has(key)) return;
  const nlohmann::json& given = object_.at(key);
  if (!given.is_number() || !std::isfinite(given.get<double>())) fail(key, "is " + given.dump() + ", must be a number");
  value = given.get<double>();
}

void ConfigJson::read(const std::string& key, bool& value) {
  known_.insert(key);
  if (!has(key)) return;
  const nlohmann::json& given = object_.at(key);
  if (!given.is_boolean()) fail(key, "is " + given.dump() + ", must be true or false");
  value = given.get<bool>();
}

void ConfigJson::read(const std::string& key, std::string& value) {
  known_.insert(key);
  if (!has(key)) return;
  const nlohmann::json& given = object_.at(key);
  if (!given.is_string()) fail(key, "is " + given.dump() + ", must be a string");
  value = given.get<std::string>();
}

void ConfigJson::only(const std::string& key, const nlohmann::json& value) {
  known_.insert(key);
  if (has(key) && object_.at(key) != value)
    fail(key, "is " + object_.at(key).dump() + ", which this runtime does not compute; only " + value.dump() +
                  " is supported");
}

void ConfigJson::ignore(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }

ConfigJson ConfigJson::table(const std::string& key) {
  known_.insert(key);
  return {has(key) ? object_.at(key) : nlohmann::json::object(), what_ + "." + key};
}

void ConfigJson::fail(const std::string& key, const std::string& problem) const {
  throw Error(what_ + "." + key + ": " + problem);
}

void ConfigJson::finish() const {
  for (const auto& [key, value] : object_.items())
    if (!known_.contains(key) && !value.is_null())
      fail(key, "is not known to this runtime; remove it if it does not change what the model computes");
}

}  // namespace espalier::torchrt
