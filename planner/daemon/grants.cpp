#include "planner/daemon/grants.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "planner/wire/grant.h"
#include "planner/wire/handshake.hpp"

namespace espalier {
namespace {

std::string grant_of(const espalier_grant_key& key, uid_t user, JobId anchor, const ExtensionRequest& request) {
  espalier_grant grant{};
  wire::fresh_nonce().copy(grant.id, ESPALIER_GRANT_ID);
  grant.uid = user;
  grant.anchor = anchor;
  request.node.copy(grant.node, sizeof grant.node - 1);
  grant.gpus = request.gpus;
  grant.minutes = std::max(request.lease_minutes, 1);
  grant.expiry = std::time(nullptr) + ESPALIER_GRANT_SECONDS;
  char text[ESPALIER_GRANT_MAX];
  if (espalier_grant_make(&grant, &key, text) == 0) return text;
  spdlog::error("job {}: no grant can be made of {} GPUs on {}", anchor, request.gpus, request.node);
  return "";
}

}  // namespace

MakeGrant make_grants(const std::string& path, const std::string& partition) {
  const auto key = std::make_shared<espalier_grant_key>();
  char why[512] = "";
  const int found = espalier_grant_key_read(path.c_str(), key.get(), why, sizeof why);
  if (found < 0) spdlog::error("{}; extensions get no grants", why);
  if (found <= 0) return nullptr;
  if (key->partition != partition) {
    spdlog::error("{}: is for partition {}, and extensions.partition is {}; extensions get no grants", path,
                  key->partition, partition);
    return nullptr;
  }
  return [key](uid_t user, JobId anchor, const ExtensionRequest& request) {
    return grant_of(*key, user, anchor, request);
  };
}

}  // namespace espalier
