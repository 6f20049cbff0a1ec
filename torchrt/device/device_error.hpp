// The error of a GPU that has failed. A rank with this error reports nothing to the launcher. The
// launcher then takes the rank for dead, and goes on without that GPU and with the state left in
// memory.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::torchrt {

// The GPU, or this process's context on it, is not usable, or no longer.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// True when this CUDA error means a DeviceError. Runtime and driver number these errors alike
// (cudaError_t, CUresult). Other errors, such as too little memory or a wrong argument, are the
// program's own.
constexpr bool loses_device(int cuda_error) {
  switch (cuda_error) {
    case 46:   // devices unavailable
    case 214:  // uncorrectable ECC error
    case 220:  // uncorrectable NVLink error
    case 226:  // contained
    case 700:  // illegal address
    case 702:  // launch timed out
    case 709:  // context is destroyed
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failed
    case 721:  // tensor memory leak
    case 802:  // the system is not ready: NVSwitch is not set up
    case 803:  // the driver's parts do not fit together
    case 999:  // unknown
      return true;
    default:
      return false;
  }
}

}  // namespace espalier::torchrt
