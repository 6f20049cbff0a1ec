// The fuzz targets. Each gives an input, which may be any bytes, to the parser of its name, as the product does. It
// aborts when the parser breaks a promise, e.g. when what it has read and written again is read as something else. A
// parser refuses an input by an exception; that is no failure.
//
// libfuzzer.cpp runs one target under libFuzzer (`make test-fuzz`). corpora.cpp runs all of them on the seeds, within
// the unit tests.
#pragma once

#include <array>
#include <string_view>

namespace espalier::fuzz {

#define ESPALIER_FUZZ_TARGETS(X) \
  X(wire_frame)                  \
  X(wire_message)                \
  X(login)                       \
  X(event)                       \
  X(vault_packet)                \
  X(state_packet)                \
  X(manifest)                    \
  X(safetensors)                 \
  X(config_json)                 \
  X(training_toml)               \
  X(site_toml)                   \
  X(plan_toml)                   \
  X(hwloc_xml)                   \
  X(topology_text)               \
  X(host_list)                   \
  X(trace)                       \
  X(schedule_csv)                \
  X(spank_elastic_option)        \
  X(stage_profile)               \
  X(worker_hello)                \
  X(probe_request)               \
  X(slurm_text)

#define ESPALIER_DECLARE(NAME) void NAME(std::string_view input);
ESPALIER_FUZZ_TARGETS(ESPALIER_DECLARE)
#undef ESPALIER_DECLARE

struct Target {
  const char* name;
  void (*run)(std::string_view input);
};
#define ESPALIER_NAME(NAME) Target{#NAME, NAME},
inline constexpr std::array kTargets{ESPALIER_FUZZ_TARGETS(ESPALIER_NAME)};
#undef ESPALIER_NAME

// Aborts, so that libFuzzer keeps the input and the sanitizer prints the stack.
void require(bool condition);

}  // namespace espalier::fuzz
