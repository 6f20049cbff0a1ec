#include "torchrt/model/prepare_torch.hpp"

#include <ATen/Parallel.h>

#include <cstdlib>
#include <cstring>

#include "torchrt/model/host_memory.hpp"

namespace espalier::torchrt {

namespace {

// Users set the variable to ":4096:8" so that cuBLAS gives the same result every time. cuBLAS does so anyway where its
// caller gives it a workspace, and torch gives it one for each stream. While the variable is set, torch 2.11 reads it
// with a regular expression before every product of matrices. That takes longer than to launch the product: on an H100,
// forward passes of single samples took three times as long. Another value limits memory, and stays.
void forget_usual_workspace() {
  constexpr const char* kName = "CUBLAS_WORKSPACE_CONFIG";
  const char* const value = std::getenv(kName);
  if (value != nullptr && std::strcmp(value, ":4096:8") == 0) ::unsetenv(kName);
}

}  // namespace

void prepare_torch(int threads) {
  // MKL otherwise chooses kernels by the alignment of its operands, and losses would depend on addresses.
  ::setenv("MKL_CBWR", "AUTO,STRICT", 0);
  forget_usual_workspace();
  count_host_memory();
  at::set_num_threads(threads);
  at::set_num_interop_threads(1);
}

}  // namespace espalier::torchrt
