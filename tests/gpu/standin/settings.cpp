#include "tests/gpu/standin/settings.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>

namespace standin {

namespace {

std::string word(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::strtoull(value, nullptr, 10) : otherwise;
}

std::vector<int> list(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) numbers.push_back(std::atoi(one.c_str()));
  return numbers;
}

Settings read() {
  Settings found;
  found.gpus = static_cast<int>(number("STANDIN_GPUS", 1));
  found.node = static_cast<int>(number("STANDIN_NODE", static_cast<std::uint64_t>(found.gpus)));
  const std::string peers = word("STANDIN_PEERS", "all");
  found.peers = peers == "all" ? 0 : peers == "none" ? 1 : std::atoi(peers.c_str());
  found.exclusive = word("STANDIN_EXCLUSIVE", "0") == "1";
  found.name = word("STANDIN_NAME", "stand-in for a GPU");
  found.descriptors = word("STANDIN_DESCRIPTORS", "1") != "0";
  found.persistence = word("STANDIN_PERSISTENCE", "1") != "0";
  found.poison = word("STANDIN_POISON", "0") == "1";
  found.memory = number("STANDIN_MEMORY", 0);
  found.context = number("STANDIN_CONTEXT", 0);
  found.communicator = number("STANDIN_COMM", 0);
  found.domain = word("STANDIN_DOMAIN", "0");
  found.folder = word("STANDIN_FOLDER", "");
  found.delay_us = number("STANDIN_DELAY", 0);
  found.seed = number("STANDIN_SEED", 1);
  found.rank = std::atoi(word("OMPI_COMM_WORLD_RANK", "0").c_str());
  std::vector<int> order = list(word("STANDIN_ORDER", ""));
  if (order.empty() || word("CUDA_DEVICE_ORDER", "FASTEST_FIRST") == "PCI_BUS_ID") {
    order.clear();
    for (int gpu = 0; gpu < found.gpus; ++gpu) order.push_back(gpu);
  }
  if (std::getenv("STANDIN_ALLOWED") != nullptr) {
    const std::vector<int> allowed = list(std::getenv("STANDIN_ALLOWED"));
    std::erase_if(order, [&](int gpu) { return std::count(allowed.begin(), allowed.end(), gpu) == 0; });
  }
  found.visible = order;
  if (const char* const chosen = std::getenv("CUDA_VISIBLE_DEVICES")) {
    found.visible.clear();
    for (const int ordinal : list(chosen)) {
      if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= order.size()) break;
      found.visible.push_back(order[static_cast<std::size_t>(ordinal)]);
    }
  }
  return found;
}

struct Fault {
  std::string call;
  std::uint64_t count = 0;
  bool lasting = false;
  int code = 0;
};

std::vector<Fault> read_faults() {
  std::vector<Fault> faults;
  std::istringstream in(word("STANDIN_FAULTS", ""));
  for (std::string text; std::getline(in, text, ',');) {
    bool here = true;
    if (const auto colon = text.find(':'); colon != std::string::npos) {
      std::istringstream who(text.substr(0, colon));
      int value = 0;
      for (char key = 0; who >> key >> value;)
        here =
            here && std::atoi(word(key == 'g' ? "ESPALIER_GENERATION" : "OMPI_COMM_WORLD_RANK", "0").c_str()) == value;
      text = text.substr(colon + 1);
    }
    const auto at = text.find('@'), equals = text.find('=');
    if (at == std::string::npos || equals == std::string::npos) {
      std::fprintf(stderr, "stand-in: STANDIN_FAULTS: '%s' is not CALL@COUNT=CODE\n", text.c_str());
      std::abort();
    }
    const std::string count = text.substr(at + 1, equals - at - 1);
    if (here)
      faults.push_back({text.substr(0, at), std::strtoull(count.c_str(), nullptr, 10), count.ends_with('+'),
                        std::atoi(text.substr(equals + 1).c_str())});
  }
  return faults;
}

// In a file that is mapped, so that a process that is killed leaves its counts: 48 bytes of name, 8 of the count.
struct Row {
  char name[48];
  std::atomic<std::uint64_t> count;
};
constexpr std::size_t kRows = 256;

class Counts {
 public:
  Counts() {
    void* memory = MAP_FAILED;
    if (!settings().folder.empty()) {
      const std::string path = settings().folder + "/counts." + std::to_string(::getpid());
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (fd >= 0 && ::ftruncate(fd, kRows * sizeof(Row)) == 0)
        memory = ::mmap(nullptr, kRows * sizeof(Row), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (fd >= 0) ::close(fd);
    }
    if (memory == MAP_FAILED) memory = std::calloc(kRows, sizeof(Row));
    rows_ = static_cast<Row*>(memory);
  }
  std::uint64_t add(const char* name, std::uint64_t amount) {
    for (std::size_t i = 0; i < kRows; ++i) {
      if (rows_[i].name[0] == '\0') {
        const std::lock_guard lock(mutex_);
        if (rows_[i].name[0] == '\0') std::strncpy(rows_[i].name, name, sizeof rows_[i].name - 1);
      }
      if (std::strncmp(rows_[i].name, name, sizeof rows_[i].name - 1) == 0) return rows_[i].count += amount;
    }
    return 0;
  }

 private:
  Row* rows_;
  std::mutex mutex_;
};

Counts& counts() {
  static Counts* const all = new Counts;
  return *all;
}

}  // namespace

bool Settings::sees(int gpu) const { return std::count(visible.begin(), visible.end(), gpu) > 0; }

bool Settings::reaches(int from, int to) const {
  return from == to || (same_node(from, to) && (peers == 0 || from / peers == to / peers));
}

const Settings& settings() {
  static const Settings* const found = new Settings(read());
  return *found;
}

int count_call(const char* name) {
  const std::uint64_t now = counts().add(name, 1);
  static const std::vector<Fault>* const faults = new std::vector<Fault>(read_faults());
  for (const Fault& fault : *faults)
    if (fault.call == name && (now == fault.count || (fault.lasting && now > fault.count))) {
      std::fprintf(stderr, "stand-in: rank %d: %s call %llu fails with %d, as STANDIN_FAULTS says\n", settings().rank,
                   name, static_cast<unsigned long long>(now), fault.code);
      return fault.code;
    }
  return 0;
}

void count(const char* name, std::uint64_t amount) { counts().add(name, amount); }

}  // namespace standin
