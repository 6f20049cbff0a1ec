#include "torchrt/handoff/state_address.hpp"

#include "planner/wire/frame_tags.hpp"

namespace espalier::torchrt {

std::string state_address(const std::string& token, int generation, int rank) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr std::size_t kBytes = 16;
  const std::string which = "g" + std::to_string(generation) + "-r" + std::to_string(rank);
  const wire::Key key = wire::hmac(token, "espalier-worker state socket " + which);
  std::string name = "espalier-" + which + "-";
  for (std::size_t i = 0; i < kBytes; ++i) {
    name += kDigits[key[i] >> 4];
    name += kDigits[key[i] & 15];
  }
  return name;
}

}  // namespace espalier::torchrt
