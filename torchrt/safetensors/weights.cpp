#include "torchrt/safetensors/weights.hpp"

#include <filesystem>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::torchrt {

namespace {

namespace fs = std::filesystem;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string inside(const std::string& folder) {
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
    const fs::path path = fs::path(folder) / name;
    if (fs::exists(path)) return path;
  }
  throw Error("weights " + folder + ": holds neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace

Weights::Weights(const std::string& path) : path_(path) {
  std::error_code problem;
  if (fs::is_directory(path, problem)) path_ = inside(path);
  if (ends_with(path_, ".json")) read_index(path_);
  else add(path_);
}

void Weights::add(const std::string& path) {
  auto file = std::make_unique<SafetensorsFile>(path);
  for (const auto& [name, tensor] : file->tensors())
    if (!tensors_.emplace(name, Found{&tensor, file.get()}).second)
      throw Error("weights " + path_ + ": tensor " + name + ": is in two files");
  files_.emplace(path, std::move(file));
}

void Weights::read_index(const std::string& path) {
  std::ifstream in = open_input(path);
  if (!in) throw Error("weights " + path + ": cannot be read");
  const Json index = try_json(in);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw Error("weights " + path + ": is no index: it has no weight_map");
  const fs::path folder = fs::path(path).parent_path();
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      throw Error("weights " + path + ": tensor " + name + ": its place is no name of a file beside the index");
    const std::string place = folder / file.get<std::string>();
    if (files_.count(place) == 0) add(place);
    if (files_.at(place)->find(name) == nullptr)
      throw Error("weights " + path + ": tensor " + name + ": is not in " + place + ", where the index places it");
  }
}

Weights::Found Weights::find(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) found = tensors_.find(name.substr(name.find('.') + 1));
  if (found == tensors_.end()) throw Error("weights " + path_ + ": tensor " + name + ": is missing");
  return found->second;
}

}  // namespace espalier::torchrt
