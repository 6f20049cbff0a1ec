#include "torchrt/profiler/timeline.hpp"

namespace espalier::torchrt {

std::unique_ptr<Timeline> make_timeline(const Device&) { return make_host_timeline(); }

}  // namespace espalier::torchrt
