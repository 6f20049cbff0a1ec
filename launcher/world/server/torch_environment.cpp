#include "launcher/world/server/torch_environment.hpp"

namespace espalier::launcher {

std::vector<std::string> torch_environment(const RankPosition& position, int device, const Meeting& meeting) {
  return {"RANK=" + std::to_string(position.rank), "WORLD_SIZE=" + std::to_string(position.size),
          "LOCAL_RANK=" + std::to_string(device),  "LOCAL_WORLD_SIZE=" + std::to_string(position.local_size),
          "MASTER_ADDR=" + meeting.address,        "MASTER_PORT=" + std::to_string(meeting.port)};
}

}  // namespace espalier::launcher
