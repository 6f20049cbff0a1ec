// Which errors of a GPU, as NVIDIA's management library (NVML) tells them, make training on it unsafe. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace espalier::launcher {

// Of one GPU. What NVML does not tell keeps the value that says nothing against the GPU.
struct GpuErrors {
  enum class State { unknown, reached, lost, needs_reset };
  State state = State::unknown;       // unknown: NVML does not know the GPU, or may not ask it
  bool mig = false;                   // it is divided: its counters are those of all who use a part of it
  int major = 0, minor = 0;           // compute capability; 0: not known
  std::uint64_t uncorrectable = 0;    // ECC errors since the driver was loaded
  bool pages_pending = false;         // Volta and older: a page with errors is retired at the next reset
  std::uint32_t rows_remapped = 0;    // since the GPU was made
  bool remapping_pending = false;     // Ampere and newer: a row with errors is remapped at the next reset
  bool remapping_failed = false;      // a row with errors has no spare row
  std::uint32_t recovery_action = 0;  // what the driver asks for before the GPU is used again; 0: nothing
};

// What is wrong with the GPU, and a remedy, as in "its driver asks for a reset; reset the GPU or drain the node".
// Empty: nothing is known that makes training on it unsafe.
//
// The rule, and its sources. A GPU is unsafe where its memory may be handed out with cells that are known to be bad, or
// where the driver does not want it used.
// - It is lost, or needs a reset: NVML answers so instead of telling anything (nvmlReturn_t in the NVML API Reference).
// - The driver asks for a reset of the GPU (1) or a reboot of the node (2). Other recovery actions forbid nothing. To
//   drain a GPU is asked for one with a page out of use, too, on which new work can be started (below). Later numbers
//   differ between drivers, and drivers before 565 tell none (NVIDIA GPU Memory Error Management, "Error Recovery and
//   Response Flags", https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/).
// - A row could not be remapped. NVIDIA takes such a GPU back ("RMA Policy Thresholds for Row-Remapping", ibid.).
// - A row waits to be remapped, on a GPU that cannot take pages out of use meanwhile. GA100, GH100 and GB10x can
//   (dynamic page offlining: "Supported GPUs", ibid.), and for them NVIDIA says that new work can be started "without
//   affecting accuracy and performance". These are the compute capabilities 8.0, 9.0 and 10.x. GA10x, AD10x and others
//   remap rows without it.
// - On Volta and older: an uncorrectable error since the driver was loaded, because "no further context will be created
//   on the GPU until the DBE is mapped out", or a page that waits to be retired (NVIDIA Dynamic Page Retirement,
//   https://docs.nvidia.com/deploy/dynamic-page-retirement/).
// So uncorrectable errors alone forbid nothing on Ampere and newer: they have ended the process that met them, and the
// memory is out of use or remapped. A GPU in MIG mode gets no verdict: NVML tells less of it.
std::string fault_of(const GpuErrors& gpu);

}  // namespace espalier::launcher
