// The fences of one generation's ranks: each is complete when the ranks of every place have entered it, and all get
// what was brought. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace espalier::launcher {

class Fences {
 public:
  explicit Fences(std::size_t places) : places_(places) {}

  // The ranks of a place enter with their data. The data of all once they are complete. Throws Error when too many are
  // open.
  std::optional<std::string> enter(std::size_t place, std::int64_t number, const std::string& data);
  // The ranks of a place are gone: no fence will be complete, now or later. Those that are open.
  std::vector<std::int64_t> end();
  bool broken() const { return broken_; }

 private:
  std::size_t places_;
  std::map<std::int64_t, std::map<std::size_t, std::string>> open_;  // by number: data by place
  bool broken_ = false;
};

}  // namespace espalier::launcher
