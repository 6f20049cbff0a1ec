// State that outlives the process that made it.
#include "launcher/node/vault.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "planner/core/error.hpp"
#include "planner/wire/packet_socket.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/recovery/marks.hpp"
#include "torchrt/recovery/vault_client.hpp"

using namespace espalier;
using namespace espalier::torchrt;
using launcher::Vault;

namespace {

std::string unique_base() {
  static int count = 0;
  return "espalier-vault-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

// A process of its own that deposits and then waits for its end.
class Worker {
 public:
  explicit Worker(const std::function<void()>& work) {
    int ready[2] = {};
    REQUIRE(::pipe(ready) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      try {
        work();
        [[maybe_unused]] const ssize_t told = ::write(ready[1], "r", 1);
        for (;;) ::pause();
      } catch (...) {
      }
      ::_exit(1);
    }
    ::close(ready[1]);
    char told = 0;
    CHECK(::read(ready[0], &told, 1) == 1);
    ::close(ready[0]);
  }
  ~Worker() { end(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  // How it ended; waits for it.
  int wait() {
    int status = 0;
    if (process_ > 0) ::waitpid(process_, &status, 0);
    process_ = -1;
    return status;
  }
  void end() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    wait();
  }
  void stop() const { ::kill(process_, SIGSTOP); }

 private:
  pid_t process_ = -1;
};

// Deposits one unit, number 2, that says `text` and stands after `step`.
std::function<void()> deposits(const std::string& vault, int generation, int rank, std::int64_t step,
                               const std::string& text) {
  return [=] {
    static Marks marks(4, 77);
    static auto memory = make_cpu_device()->allocate(4096, "espalier-test");
    static VaultLine line(vault, generation, rank, marks);
    std::strcpy(static_cast<char*>(memory->data()), text.c_str());
    line.deposit(rank, 2, 0, 2, memory->fd(), memory->bytes());
    marks.set(2, step);
    marks.agreed(step, 1.5, 2.5, 3.5);
  };
}

}  // namespace

TEST_CASE("what a killed process deposited is there, at the step it stood at") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Vault vault(name);
  CHECK(vaults_here(base) == std::vector<std::string>{name});
  Worker worker(deposits(name, 3, 5, 41, "weights"));
  worker.end();
  const auto items = take_inventory(name, 3, 4);
  REQUIRE(items.size() == 1);
  CHECK(items[0].holder == 5);
  CHECK(items[0].rank == 5);
  CHECK(items[0].unit == 2);
  CHECK(items[0].step == 41);
  CHECK(items[0].bytes == 4096);
  const auto memory = make_cpu_device()->adopt(fetch_deposit(name, 3, items[0]), 4096);
  CHECK(std::string(static_cast<char*>(memory->data())) == "weights");
  const wire::VaultMarks marks = read_marks(fetch_marks(name, 3, 5));
  CHECK(marks.settings == 77);
  CHECK(marks.step == 41);
  CHECK(marks.loss == 1.5);
  CHECK(take_inventory(name, 2, 4).empty());
}

TEST_CASE(
    "the state of an ended generation is let go when it is of no use; its snapshots, marks and other generations "
    "stay") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Vault vault(name);
  const auto with_copy = [&](int generation, int rank) {
    return [=] {
      static Marks marks(4, 77);
      static auto memory = make_cpu_device()->allocate(4096, "espalier-test");
      static VaultLine line(name, generation, rank, marks);
      for (const int slot : {0, 1}) line.deposit(rank, 2, slot, 2 + slot, memory->fd(), memory->bytes());
      for (const int mark : {2, 3}) marks.set(mark, 8);
      marks.agreed(8, 1.5, 1, 1);
    };
  };
  Worker lost(with_copy(0, 0)), other(with_copy(1, 0)), living(with_copy(0, 1));
  lost.end();
  other.end();
  for (int tries = 0; tries < 1000; ++tries) {  // the vault hears of a death a little later
    const auto items = take_inventory(name, 0, 0);
    if (std::any_of(items.begin(), items.end(), [](const auto& item) { return item.holder == 0 && item.step == 8; }))
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  discard_state(name, 0);
  std::vector<std::array<int, 2>> left;
  for (const wire::VaultItem& item : take_inventory(name, 0, 0)) left.push_back({item.holder, item.slot});
  CHECK(left == std::vector<std::array<int, 2>>{{0, 1}, {1, 0}, {1, 1}});
  CHECK(read_marks(fetch_marks(name, 0, 0)).loss == 1.5);
  CHECK(take_inventory(name, 1, 1).size() == 2);
}

TEST_CASE("an inventory ends whoever of an older generation still lives, also who stands still, and nobody else") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Vault vault(name);
  Worker running(deposits(name, 0, 0, 7, "a")), stopped(deposits(name, 0, 1, 7, "b")),
      next(deposits(name, 1, 0, -1, "c"));
  stopped.stop();
  CHECK(take_inventory(name, 0, 1).size() == 2);
  CHECK(WTERMSIG(running.wait()) == SIGKILL);
  CHECK(WTERMSIG(stopped.wait()) == SIGKILL);
  for (const wire::VaultItem& item : take_inventory(name, 0, 1)) CHECK(item.step == 7);
  // What the living may change is of no use to anybody.
  const auto living = take_inventory(name, 1, 1);
  REQUIRE(living.size() == 1);
  CHECK(living[0].step == -1);
  CHECK_THROWS_WITH_AS(fetch_deposit(name, 1, living[0]), doctest::Contains("does not hold"), Error);
}

TEST_CASE("who is changing its state may finish, but not for ever") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Vault vault(name);
  const auto changes = [&](int rank, int milliseconds) {
    return [=] {
      static Marks marks(4, 77);
      static auto memory = make_cpu_device()->allocate(4096, "espalier-test");
      static VaultLine line(name, 0, rank, marks);
      line.deposit(rank, 2, 0, 2, memory->fd(), memory->bytes());
      marks.agreed(8, 1, 1, 1);
      std::thread([milliseconds] {
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
        marks.set(2, 8);
      }).detach();
    };
  };
  const Worker soon(changes(0, 30)), never(changes(1, 100000));
  std::map<int, std::int64_t> steps;
  for (const wire::VaultItem& item : take_inventory(name, 0, 1)) steps[item.rank] = item.step;
  CHECK(steps == std::map<int, std::int64_t>{{0, 8}, {1, -1}});
}

TEST_CASE("older generations are let go when they are not needed any more") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  Vault vault(name);
  Worker(deposits(name, 0, 0, 7, "a")).end();
  Worker(deposits(name, 1, 0, 8, "b")).end();
  CHECK(take_inventory(name, 0, 2).size() == 1);
  vault.keep(1, 1);
  for (int i = 0; i < 200 && !take_inventory(name, 0, 2).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(take_inventory(name, 0, 2).empty());
  CHECK(take_inventory(name, 1, 2).size() == 1);
}

TEST_CASE("copies outlive what they were made of, unless they are torn") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  Vault vault(name);
  const auto with_copies = [&](int rank, std::int64_t copy, std::int64_t other_copy) {
    return [=] {
      deposits(name, 0, rank, 7, "a")();
      static Marks marks(4, 77);
      static VaultLine line(name, 0, rank + 1, marks);
      static auto memory = make_cpu_device()->allocate(4096, "espalier-test");
      line.deposit(rank, 2, 1, 0, memory->fd(), memory->bytes());
      line.deposit(rank, 2, 2, 1, memory->fd(), memory->bytes());
      marks.set(0, copy);
      marks.set(1, other_copy);
    };
  };
  Worker(with_copies(0, 5, -1)).end();
  Worker(with_copies(2, -1, -1)).end();
  Worker alive(with_copies(4, 6, -1));
  const auto left = [&](std::size_t expected) {
    for (int i = 0; i < 200 && take_inventory(name, 0, 0).size() != expected; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return take_inventory(name, 0, 0);
  };
  // Of the dead what is torn goes at once; who still lives keeps all.
  CHECK(left(6).size() == 6);
  CHECK(read_marks(fetch_marks(name, 0, 3)).settings == 77);
  vault.keep(1, 0);
  auto items = left(4);
  REQUIRE(items.size() == 4);
  CHECK(items[0].slot == 1);
  CHECK(items[0].rank == 0);
  CHECK(items[0].step == 5);
  CHECK(read_marks(fetch_marks(name, 0, 1)).settings == 77);
  CHECK_THROWS_AS(fetch_marks(name, 0, 0), Error);
  CHECK_THROWS_AS(fetch_marks(name, 0, 3), Error);
  alive.end();
  items = left(2);
  REQUIRE(items.size() == 2);
  CHECK(items[1].step == 6);
  vault.keep(1, 1);
  CHECK(left(0).empty());
}

TEST_CASE("marks say for ever whether a step was agreed upon") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Vault vault(name);
  Worker(deposits(name, 0, 0, 7, "a")).end();
  Worker([&] {
    static Marks marks(4, 77);
    static VaultLine line(name, 0, 1, marks);
    static auto memory = make_cpu_device()->allocate(4096, "espalier-test");
    line.deposit(1, 2, 0, 2, memory->fd(), memory->bytes());
    marks.set(2, 7);
  }).end();
  take_inventory(name, 0, 1);
  CHECK(read_marks(fetch_marks(name, 0, 0)).trained == 1);
  CHECK(read_marks(fetch_marks(name, 0, 1)).trained == 0);
}

TEST_CASE("what a generation left that was given up goes when the older one has lived on for a while") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Vault vault(name, std::chrono::milliseconds(2000));
  Worker old(deposits(name, 0, 0, 7, "a"));
  Worker(deposits(name, 1, 0, 7, "b")).end();
  // As nobody older than generation 0, the asker ends nobody.
  CHECK(take_inventory(name, 1, 0).size() == 1);
  for (int i = 0; i < 500 && !take_inventory(name, 1, 0).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(take_inventory(name, 1, 0).empty());
  old.end();
  std::this_thread::sleep_for(std::chrono::milliseconds(4000));
  CHECK(take_inventory(name, 0, 0).size() == 1);
}

TEST_CASE("one rank deposits once; another generation's is another") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Vault vault(name);
  const Marks marks(4, 77);
  const VaultLine first(name, 0, 0, marks), second(name, 1, 0, marks);
  CHECK_THROWS_WITH_AS(VaultLine(name, 0, 0, marks), doctest::Contains("has deposited here already"), Error);
  CHECK_THROWS_AS(Vault{name}, Error);
}

TEST_CASE("names that another user has taken cost a recovery no time, and the vault gets a name all the same") {
  if (::geteuid() != 0) return;  // only root can be two users
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Worker squatter([&] {
    if (::setuid(65534) != 0) throw Error("setuid");
    static std::vector<wire::Descriptor> held;
    for (int i = -1; i < 40; ++i) {
      const std::string taken = i < 0 ? name : base + "-" + std::to_string(100 + i);
      held.push_back(wire::listen_packets(taken));
    }
  });
  const Vault vault(name);
  const auto start = std::chrono::steady_clock::now();
  const auto here = vaults_here(base);
  REQUIRE(here.size() == 1);
  CHECK(here[0].starts_with(name + "."));
  Worker(deposits(here[0], 0, 0, 7, "a")).end();
  CHECK(take_inventory(here[0], 0, 1).size() == 1);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));  // one name alone could cost 5 s
}

TEST_CASE("nonsense costs a client its connection and the vault nothing") {
  const std::string base = unique_base(), name = launcher::vault_name(base, "17");
  const Vault vault(name);
  const auto hangs_up = [&](const void* packet, std::size_t bytes, int fd) {
    const wire::Descriptor line = wire::connect_packets(name, std::chrono::seconds(5));
    wire::send_packet(line.get(), packet, bytes, fd);
    char answer[256];
    wire::Descriptor none;
    return wire::receive_packet(line.get(), answer, sizeof answer, none) <= 0;
  };
  const Marks marks(4, 77);
  wire::VaultRequest request;
  CHECK(hangs_up("hello", 5, -1));
  CHECK(hangs_up(&request, sizeof request, -1));  // no marks
  request.bytes = std::uint64_t{1} << 40;
  CHECK(hangs_up(&request, sizeof request, marks.fd()));
  request.kind = wire::VaultRequestKind::deposit;  // of nobody
  CHECK(hangs_up(&request, sizeof request, marks.fd()));
  request.kind = static_cast<wire::VaultRequestKind>(99);
  CHECK(hangs_up(&request, sizeof request, -1));
  // Marks that could be pulled away from under the vault.
  const wire::Descriptor unsealed(::memfd_create("espalier-test", MFD_CLOEXEC));
  REQUIRE(::ftruncate(unsealed.get(), 4096) == 0);
  request = {};
  request.bytes = 4096;
  const wire::Descriptor line = wire::connect_packets(name, std::chrono::seconds(5));
  REQUIRE(wire::send_packet(line.get(), &request, sizeof request, unsealed.get()));
  wire::VaultReply reply;
  wire::Descriptor none;
  REQUIRE(wire::receive_packet(line.get(), &reply, sizeof reply, none) == sizeof reply);
  CHECK(reply.kind == wire::VaultReplyKind::refused);
  Worker(deposits(name, 3, 5, 41, "weights")).end();
  CHECK(take_inventory(name, 3, 4).size() == 1);
}

TEST_CASE("without a vault there is none, and nothing to be had from it") {
  const std::string base = unique_base();
  CHECK(vaults_here(base).empty());
  CHECK_THROWS_AS(take_inventory(base + "-17", 0, 1), Error);
}
