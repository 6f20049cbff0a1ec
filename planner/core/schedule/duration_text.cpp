#include "planner/core/schedule/duration_text.hpp"

#include <cstdio>

namespace espalier {

std::string duration_text(double seconds) {
  const char* unit = " s";
  if (seconds >= 172800) seconds /= 86400, unit = " days";
  else if (seconds >= 7200) seconds /= 3600, unit = " h";
  else if (seconds >= 120) seconds /= 60, unit = " min";
  char text[48];
  std::snprintf(text, sizeof text, "%.3g%s", seconds, unit);
  return text;
}

}  // namespace espalier
