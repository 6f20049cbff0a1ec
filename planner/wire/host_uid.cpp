#include "planner/wire/host_uid.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace espalier::wire {

uid_t host_uid() {
  const char* const value = std::getenv("ESPALIER_UID");
  const std::string_view text = value == nullptr ? "" : value;
  uid_t uid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uid);
  return !text.empty() && error == std::errc{} && end == text.data() + text.size() ? uid : ::geteuid();
}

}  // namespace espalier::wire
