// A stand-in for libnvidia-ml.so.1, NVIDIA's management library. It answers from the file that NVML_STANDIN names: in
// each line the name of a node or *, the bus id of a GPU or "init", and words such as capability=8.6 pending=1. The
// first line that fits counts. A GPU without a line is not known. Lines of "init" say what happens when the library is
// started: hang, crash or result=NUMBER.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalid = 2, kNotSupported = 3, kNotFound = 6;
constexpr unsigned kRecoveryAction = 230;
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type, result;
  unsigned long long value;
};

using Words = std::map<std::string, std::string>;

// Null: no line fits.
std::unique_ptr<Words> words_of(const std::string& what) {
  const char* const path = std::getenv("NVML_STANDIN");
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::ifstream file(path == nullptr ? "" : path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string node, gpu;
    if (!(in >> node >> gpu) || (node != "*" && node != host) || gpu != what) continue;
    auto words = std::make_unique<Words>();
    for (std::string word; in >> word;) {
      const auto equals = word.find('=');
      (*words)[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
    }
    return words;
  }
  return nullptr;
}

// A question of this name hangs, crashes or has a result of its own: hang=NAME, crash=NAME, NAME=result:NUMBER.
int mood(const Words& words, const std::string& name) {
  const auto is = [&](const char* key) { return words.contains(key) && words.at(key) == name; };
  if (is("hang"))
    for (;;) ::pause();
  if (is("crash")) std::raise(SIGSEGV);
  const auto own = words.find(name + "_result");
  return own == words.end() ? kSuccess : std::atoi(own->second.c_str());
}

template <class Out>
int number(void* device, const char* name, Out* out) {
  const Words& words = *static_cast<Words*>(device);
  if (const int result = mood(words, name); result != kSuccess) return result;
  const auto found = words.find(name);
  if (found == words.end()) return kNotSupported;
  *out = static_cast<Out>(std::strtoull(found->second.c_str(), nullptr, 10));
  return kSuccess;
}

std::vector<std::unique_ptr<Words>> devices;
bool started = false;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (const auto words = words_of("init"); words) {
    if (words->contains("hang"))
      for (;;) ::pause();
    if (words->contains("crash")) std::raise(SIGSEGV);
    if (words->contains("result")) return std::atoi(words->at("result").c_str());
  }
  started = true;
  return kSuccess;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (!started) return 1;
  auto words = words_of(bus_id);
  if (!words) return kNotFound;
  if (const int result = mood(*words, "handle"); result != kSuccess) return result;
  *device = words.get();
  devices.push_back(std::move(words));
  return kSuccess;
}

int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* later) {
  *later = 0;
  return number(device, "mig", now);
}

int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  const Words& words = *static_cast<Words*>(device);
  if (const int result = mood(words, "capability"); result != kSuccess) return result;
  if (!words.contains("capability")) return kNotSupported;
  char dot = 0;
  std::istringstream(words.at("capability")) >> *major >> dot >> *minor;
  return kSuccess;
}

int nvmlDeviceGetTotalEccErrors(void* device, int error, int counter, unsigned long long* count) {
  if (error != 1 || counter != 0) return kInvalid;  // uncorrected, volatile
  return number(device, "uncorrectable", count);
}

int nvmlDeviceGetRetiredPagesPendingStatus(void* device, int* pending) { return number(device, "pages", pending); }

int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = *failed = 0;
  if (const int result = number(device, "pending", pending); result != kSuccess) return result;
  number(device, "failed", failed);
  if (number(device, "rows", uncorrected) != kSuccess) *uncorrected = 0;
  return kSuccess;
}

int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* fields) {
  for (int i = 0; i < count; ++i) {
    unsigned action = 0;
    fields[i].result = fields[i].field == kRecoveryAction ? number(device, "action", &action) : kNotSupported;
    fields[i].value = action;
  }
  return kSuccess;
}

}  // extern "C"
