#pragma once

namespace espalier::torchrt {

// Call it before any other function of torch in the process. It sets reproducible kernels and
// `threads` threads, and has memory counted.
void prepare_torch(int threads);

}  // namespace espalier::torchrt
