// Fuzz target of two parsers that read users' text inside slurmctld: the option and TRES strings.
// make build/fuzz/spank_elastic_option && build/fuzz/spank_elastic_option -max_total_time=60
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "spank/elastic_option.h"
#include "spank/gpu_request.h"
#include "spank/multi_prog.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void option(const std::string& text) {
  espalier_elastic value{-1, -1, -1, "untouched"};
  char why[ESPALIER_MESSAGE_MAX] = "";
  if (espalier_elastic_parse(text.c_str(), &value, why, sizeof(why)) != 0) {
    require(value.min == -1 && std::strcmp(value.deadline, "untouched") == 0);
    require(std::strncmp(why, "espalier: elastic: \"", 20) == 0 && std::strlen(why) < sizeof(why) - 1);
    for (const char* c = why; *c != '\0'; ++c) require(*c >= ' ' && *c <= '~');
    return;
  }
  require(value.min >= 0 && value.min <= ESPALIER_GPUS_LIMIT && value.max >= 0 && value.max <= ESPALIER_GPUS_LIMIT);
  require(value.min == 0 || value.max == 0 || value.min <= value.max);
  require(std::strlen(value.deadline) == 0 || std::strlen(value.deadline) == ESPALIER_DEADLINE_MAX - 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  option(text);
  const long gpus = espalier_gpus_in(text.c_str());
  require(gpus >= 0 && gpus <= ESPALIER_GPUS_LIMIT);
  espalier_is_multi_prog(text.c_str());
  return 0;
}
