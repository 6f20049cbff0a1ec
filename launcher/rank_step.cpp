#include "launcher/rank_step.hpp"

#include "launcher/lost_teller.hpp"
#include "launcher/tether.hpp"
#include "launcher/tether_rank.hpp"

namespace espalier::launcher {

int rank(const std::vector<std::string>& arguments) {
  const LostTeller teller;
  return tether_rank(arguments, [&](int code) { teller.rank(code); });
}

int rank_step(const std::vector<std::string>& arguments) {
  const LostTeller teller;
  const int code = tether(arguments);
  if (code != 0) teller.rank(code);
  return code;
}

}  // namespace espalier::launcher
