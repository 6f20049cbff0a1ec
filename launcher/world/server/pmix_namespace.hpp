// What PMIx is told of a namespace when it is registered.
#pragma once

#include <pmix_common.h>

#include <string>
#include <vector>

#include "launcher/world/server/pmix_server.hpp"

namespace espalier::launcher {

// Owns PMIx's values.
class PmixInfos {
 public:
  PmixInfos() = default;
  ~PmixInfos();
  PmixInfos(const PmixInfos&) = delete;
  PmixInfos& operator=(const PmixInfos&) = delete;

  void text(const char* key, const std::string& value);
  void regex(const char* key, const char* value);  // of PMIx_generate_regex: it may hold zero bytes
  void number(const char* key, std::uint32_t value);
  void small(const char* key, std::uint16_t value);
  void rank(const char* key, int value);
  void flag(const char* key, bool value);
  void array(const char* key, const PmixInfos& value);

  pmix_info_t* data() { return infos_.data(); }
  std::size_t size() const { return infos_.size(); }

 private:
  void load(const char* key, const void* value, pmix_data_type_t type);
  std::vector<pmix_info_t> infos_;
};

// Job, node and process information for PMIx_server_register_nspace. Throws Error.
void describe(const PmixNamespace& space, PmixInfos& infos);

}  // namespace espalier::launcher
