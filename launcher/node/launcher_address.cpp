#include "launcher/node/launcher_address.hpp"

#include <cstdlib>

#include "planner/core/error.hpp"

namespace espalier::launcher {

std::pair<std::string, std::uint16_t> launcher_address() {
  const char* text = std::getenv("ESPALIER_LAUNCHER");
  const std::string address = text == nullptr ? "" : text;
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) throw Error("ESPALIER_LAUNCHER: not set; start this through a launcher");
  const long port = std::strtol(address.c_str() + colon + 1, nullptr, 10);
  if (port < 1 || port > 65535) throw Error("ESPALIER_LAUNCHER: no port");
  return {address.substr(0, colon), static_cast<std::uint16_t>(port)};
}

}  // namespace espalier::launcher
