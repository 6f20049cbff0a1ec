// The parsers that read users' text inside slurmctld and slurmstepd: the option, grants, TRES strings, srun's
// --multi-prog. And the file with the key of grants, which slurmctld reads.
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "planner/wire/frame_tags.hpp"
#include "planner/wire/grant.h"
#include "spank/elastic_option.h"
#include "spank/gpu_request.h"
#include "spank/multi_prog.h"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {
namespace {

void option(const std::string& text) {
  espalier_elastic value{-1, -1, -1, -1, "untouched", -1, -1, "untouched", -1, "untouched"};
  char why[ESPALIER_MESSAGE_MAX] = "";
  if (espalier_elastic_parse(text.c_str(), &value, why, sizeof(why)) != 0) {
    require(value.min == -1 && std::strcmp(value.deadline, "untouched") == 0);
    require(std::strncmp(why, "espalier: elastic: \"", 20) == 0 && std::strlen(why) < sizeof(why) - 1);
    for (const char* c = why; *c != '\0'; ++c) require(*c >= ' ' && *c <= '~');
    return;
  }
  require(value.min >= 0 && value.min <= ESPALIER_GPUS_LIMIT && value.max >= 0 && value.max <= ESPALIER_GPUS_LIMIT);
  require(value.min == 0 || value.max == 0 || value.min <= value.max);
  require(value.node_setup[0] == '\0' || value.node_setup[0] == '/');
  require(std::strlen(value.node_setup) < sizeof(value.node_setup));
  require(value.base >= 0 && value.base <= ESPALIER_GPUS_LIMIT && (value.base == 0 || value.movable != 0));
  for (const int number : {0, 1, 8, ESPALIER_GPUS_LIMIT}) {
    for (const int rc : {espalier_elastic_fits_site(text.c_str(), &value, number, why, sizeof(why)),
                         espalier_elastic_fits_request(text.c_str(), &value, number, why, sizeof(why))})
      require(rc == 0 || std::strlen(why) < sizeof(why) - 1);
  }
  require(std::strlen(value.deadline) == 0 || std::strlen(value.deadline) == ESPALIER_DEADLINE_MAX - 1);
}

// Nobody who does not know the key makes a grant. With the right code at its end, the text comes to the reader of
// parts.
void grant(const std::string& text) {
  const espalier_grant_key key{};
  espalier_grant read{};
  require(espalier_grant_open(text.c_str(), &key, &read) != 0);
  std::string sealed = text.substr(0, text.find('\0')) + ":";
  const auto code =
      wire::hmac({reinterpret_cast<const char*>(key.key), sizeof key.key}, sealed.substr(0, sealed.size() - 1));
  for (const unsigned char byte : code) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    sealed += digits;
  }
  if (espalier_grant_open(sealed.c_str(), &key, &read) != 0) return;
  require(read.gpus >= 0 && read.minutes >= 0 && read.expiry >= 0 && read.id[sizeof read.id - 1] == '\0' &&
          read.node[sizeof read.node - 1] == '\0');
  char made[ESPALIER_GRANT_MAX];
  if (espalier_grant_make(&read, &key, made) != 0) return;  // e.g. for no GPU
  espalier_grant again{};
  require(espalier_grant_open(made, &key, &again) == 0 && again.uid == read.uid && again.anchor == read.anchor &&
          again.gpus == read.gpus && again.minutes == read.minutes && again.expiry == read.expiry &&
          std::strcmp(again.id, read.id) == 0 && std::strcmp(again.node, read.node) == 0);
}

void key_file(std::string_view input) {
  const MemoryFile file(input);
  const std::string path = file.path();
  espalier_grant_key key{};
  char why[512] = "";
  require(espalier_grant_key_read(path.c_str(), &key, why, sizeof why) == -1);  // others may read it
  require(std::strlen(why) > 0);
  require(::chmod(path.c_str(), 0600) == 0);
  why[0] = '\0';
  const int found = espalier_grant_key_read(path.c_str(), &key, why, sizeof why);
  require(found == (std::strlen(why) == 0 ? 1 : -1));
  if (found != 1) return;
  const std::size_t length = ::strnlen(key.partition, sizeof key.partition);
  require(length > 0 && length < sizeof key.partition && std::strchr(key.partition, ' ') == nullptr);
}

}  // namespace

void spank_elastic_option(std::string_view input) {
  const std::string text(input);
  option(text);
  grant(text);
  key_file(input);
  const long gpus = espalier_gpus_in(text.c_str());
  require(gpus >= 0 && gpus <= ESPALIER_GPUS_LIMIT);
  const char* const parts = espalier_gpu_parts_in(text.c_str());
  require(parts == nullptr || *parts != '\0');
  espalier_shape shape{};
  shape.per_job = shape.per_node = shape.per_socket = shape.per_task = text.c_str();
  shape.nodes = shape.tasks = shape.sockets_per_node = ESPALIER_GPUS_LIMIT;
  int exact = -1;
  for (const char** const one : {&shape.per_job, &shape.per_node, &shape.per_task}) {
    const long all = espalier_gpus_requested(&shape, &exact);
    require(all >= 0 && all <= ESPALIER_GPUS_LIMIT && (exact == 0 || exact == 1));
    *one = nullptr;
  }
  espalier_is_multi_prog(text.c_str());
}

}  // namespace espalier::fuzz
