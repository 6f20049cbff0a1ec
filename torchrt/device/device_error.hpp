// What a rank says last when its GPU fails: nothing. The launcher then takes it for dead, as it is, goes on without
// that GPU, and with state that was left behind.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::torchrt {

// The GPU, or this process's context on it, cannot be used any more.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Whether it is so after this error of CUDA's runtime or driver, which number these alike (CUresult, cudaError_t). Too
// little memory, a wrong argument and the like are the program's to tell of.
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
    case 999:  // unknown
      return true;
    default:
      return false;
  }
}

}  // namespace espalier::torchrt
