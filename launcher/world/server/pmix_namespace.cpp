#include "launcher/world/server/pmix_namespace.hpp"

#include <pmix.h>
#include <pmix_server.h>
#include <pmix_version.h>

#include <cstdlib>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

// `generate` is PMIx_generate_regex or PMIx_generate_ppn.
void compressed(PmixInfos& infos, const char* key, const std::string& list,
                pmix_status_t (*generate)(const char*, char**)) {
  char* text = nullptr;
  if (generate(list.c_str(), &text) != PMIX_SUCCESS || text == nullptr)
    throw Error(std::string("pmix: ") + key + " of this world cannot be made");
  infos.regex(key, text);
  std::free(text);
}

}  // namespace

bool peers_by_node() { return PMIX_VERSION_MAJOR >= 6; }

PmixInfos::~PmixInfos() {
  for (pmix_info_t& info : infos_) PMIX_VALUE_DESTRUCT(&info.value);
}

void PmixInfos::load(const char* key, const void* value, pmix_data_type_t type) {
  pmix_info_t& info = infos_.emplace_back();
  if (PMIx_Info_load(&info, key, value, type) != PMIX_SUCCESS) throw Error(std::string("pmix: ") + key + " is refused");
}
void PmixInfos::text(const char* key, const std::string& value) { load(key, value.c_str(), PMIX_STRING); }
void PmixInfos::regex(const char* key, const char* value) { load(key, value, PMIX_REGEX); }
void PmixInfos::number(const char* key, std::uint32_t value) { load(key, &value, PMIX_UINT32); }
void PmixInfos::small(const char* key, std::uint16_t value) { load(key, &value, PMIX_UINT16); }
void PmixInfos::rank(const char* key, int value) {
  const auto rank = static_cast<pmix_rank_t>(value);
  load(key, &rank, PMIX_PROC_RANK);
}
void PmixInfos::flag(const char* key, bool value) { load(key, &value, PMIX_BOOL); }
void PmixInfos::array(const char* key, const PmixInfos& value) {
  pmix_data_array_t list{};
  list.type = PMIX_INFO;
  list.size = value.infos_.size();
  list.array = const_cast<pmix_info_t*>(value.infos_.data());  // is copied
  load(key, &list, PMIX_DATA_ARRAY);
}

void describe(const PmixNamespace& space, PmixInfos& infos) {
  const auto size = static_cast<std::uint32_t>(space.size());
  const auto& here = space.places.at(space.here).ranks;
  std::string servers, ranks;
  for (const PmixNamespace::Place& place : space.places) {
    servers += (servers.empty() ? "" : ",") + place.server;
    ranks += (ranks.empty() ? "" : ";") + joined(place.ranks);
  }
  compressed(infos, PMIX_NODE_MAP, servers, PMIx_generate_regex);
  compressed(infos, PMIX_PROC_MAP, ranks, PMIx_generate_ppn);
  infos.text(PMIX_JOBID, space.name);
  infos.number(PMIX_UNIV_SIZE, size);
  infos.number(PMIX_JOB_SIZE, size);
  infos.number(PMIX_APP_SIZE, size);
  infos.number(PMIX_MAX_PROCS, size);
  infos.number(PMIX_JOB_NUM_APPS, 1);
  infos.number(PMIX_NUM_NODES, static_cast<std::uint32_t>(space.places.size()));
  infos.number(PMIX_NODE_SIZE, static_cast<std::uint32_t>(here.size()));
  infos.number(PMIX_LOCAL_SIZE, static_cast<std::uint32_t>(here.size()));
  infos.text(PMIX_LOCAL_PEERS, joined(peers_by_node() ? space.ranks_of_this_node() : here));
  infos.rank(PMIX_LOCALLDR, here.front());
  infos.text(PMIX_TMPDIR, space.directory);
  infos.text(PMIX_NSDIR, space.directory);
  infos.flag(PMIX_TDIR_RMCLEAN, true);
  for (std::size_t server = 0; server < space.places.size(); ++server) {
    const PmixNamespace::Place& place = space.places[server];
    for (std::size_t at = 0; at < place.ranks.size(); ++at) {
      PmixInfos process;
      const int rank = place.ranks[at];
      process.rank(PMIX_RANK, rank);
      process.small(PMIX_LOCAL_RANK, static_cast<std::uint16_t>(at));
      process.small(PMIX_NODE_RANK, static_cast<std::uint16_t>(at));
      process.rank(PMIX_GLOBAL_RANK, rank);
      process.rank(PMIX_APP_RANK, rank);
      process.number(PMIX_APPNUM, 0);
      process.number(PMIX_NODEID, static_cast<std::uint32_t>(server));
      process.text(PMIX_HOSTNAME, place.server);
      if (server == space.here) process.text(PMIX_PROCDIR, space.directory + "/" + std::to_string(rank));
      infos.array(PMIX_PROC_INFO_ARRAY, process);
    }
  }
}

}  // namespace espalier::launcher
