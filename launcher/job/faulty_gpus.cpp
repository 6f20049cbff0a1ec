#include "launcher/job/faulty_gpus.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <string>

namespace espalier::launcher {
namespace {

constexpr int kMostGpus = 1024;                        // of a node
constexpr std::size_t kMostWords = 3, kLongest = 400;  // faults told of, and the length of one

// A text of another process is shown on a terminal.
std::string shown(std::string text) {
  text.resize(std::min(text.size(), kLongest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

void FaultyGpus::heard(const wire::RankServerHello& hello) {
  std::set<GpuId> gpus;
  std::string words;
  for (const wire::GpuFault& fault : hello.gpu_faults) {
    if (fault.gpu < 0 || fault.gpu >= kMostGpus || !gpus.insert({hello.node, fault.gpu}).second) continue;
    if (gpus.size() > kMostWords) continue;
    words += (words.empty() ? "GPU " : "; GPU ") + std::to_string(fault.gpu) + " " + shown(fault.text);
  }
  if (gpus.empty()) return;
  if (gpus.size() > kMostWords) words += "; and " + std::to_string(gpus.size() - kMostWords) + " more GPUs";
  recovery_.faulty(gpus);
  const std::string job = std::to_string(hello.job);
  if (bases_.second().id() == hello.job) {
    bases_.second().withdraw("base " + job + " is given back: " + hello.node + ": " + words);
    if (bases_.second().id() != hello.job) return;
  }
  if (extensions_.refuse(hello.job, "extension " + job + " on " + hello.node + " is given back: " + words)) return;
  // Another extension of the same change may have been refused a moment before.
  const auto held = extensions_.holdings(true);
  const bool leaves = extensions_.known(hello.job) &&
                      std::none_of(held.begin(), held.end(), [&](const Holding& one) { return one.job == hello.job; });
  spdlog::warn("espalier: launch: {}: {}; {}", hello.node, words,
               leaves ? "this is being given back" : "the job holds this already and keeps it");
}

}  // namespace espalier::launcher
