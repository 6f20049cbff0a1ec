// Times for people.
#pragma once

#include <string>

namespace espalier {

std::string duration_text(double seconds);  // "45 s", "12.3 min", "5.2 h", "3.1 days": three digits

}  // namespace espalier
