#include "launcher/conform/stage.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/process/child.hpp"

namespace espalier::launcher::conform {
namespace {

// No job of Slurm's has such a number: its largest is 67,043,328.
constexpr JobId kJob = 4'000'000'000;
constexpr const char* kNode = "stage";
constexpr int kGpus = 64;
constexpr double kStart = 120;  // seconds to `ready`, unless the hello asks for more

std::vector<Holding> holdings() {
  Holding all{kJob, kNode, {}};
  for (int gpu = 0; gpu < kGpus; ++gpu) all.gpus.push_back(gpu);
  return {all};
}

wire::Descriptor listen_on_loopback(int& port) {
  wire::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), 128) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error(std::string("127.0.0.1: cannot listen: ") + std::strerror(errno));
  port = ntohs(address.sin_port);
  return socket;
}

}  // namespace

Stage::Stage(Settings settings) : settings_(std::move(settings)), start_limit_(std::max(kStart, settings_.patience)) {
  door_ = {{wire::Service::worker}, kJob, token_, ::getuid()};
  const char* const folder = std::getenv("TMPDIR");
  directory_ = std::make_unique<Directory>(folder != nullptr && *folder == '/' ? folder : "/tmp", kJob, 0);
  listener_ = listen_on_loopback(port_);
  connections_ = loop_.on_readable(listener_.get(), [this] { accept(); });
  const wire::Door ranks{{wire::Service::ranks}, kJob, token_, ::getuid()};
  rank_listener_ = wire::listen_tcp(loop_, ranks, "127.0.0.1", 0, [this](const wire::ConnectionPtr& made) {
    made->on_frame = [this, raw = made.get()](const wire::Frame& frame) {
      const wire::ConnectionPtr self = raw->shared_from_this();
      if (frame.type == wire::RankServerHello::type)
        servers_->adopt(self, wire::from_frame<wire::RankServerHello>(frame));
    };
    made->on_closed = [](const std::string&) {};
  });
  RankServersSettings own;
  own.launcher = settings_.launcher;
  own.node = kNode;
  own.anchor = kJob;
  own.holdings = holdings();
  own.environment = environment(0, rank_listener_->port());
  own.environment.push_back("ESPALIER_TOKEN=" + token_);
  servers_ = std::make_unique<RankServers>(loop_, own, [](JobId) {});
  servers_->start();
  forget_state();
}

Stage::~Stage() {
  servers_->leave();
  until([this] { return servers_->left(); }, 10);
}

bool Stage::until(const std::function<bool()>& done, double seconds) {
  bool late = false;
  const wire::Watch limit = loop_.after(wire::Loop::Milliseconds(static_cast<long>(seconds * 1000)), [&] {
    late = true;
    loop_.stop();
  });
  // Conditions change by what arrives and by the ends of processes, and each of them is an event of the loop. The timer
  // looks for those that nothing announces.
  const wire::Watch look = loop_.every(wire::Loop::Milliseconds(20), [&] {
    if (done()) loop_.stop();
  });
  while (!done() && !late) loop_.run();
  return done();
}

void Stage::pass(double seconds) {
  until([] { return false; }, seconds);
}

void Stage::learn(const wire::WorkerHello& worker) {
  start_limit_ = std::max(start_limit_, static_cast<double>(worker.can.start_seconds));
  in_place_ = worker.can.in_place;
  const ParallelLimits& own = worker.hello.parallel;
  units_ = worker.can.data_only ? worker.can.units : std::vector{std::max(1, own.tp) * std::max(1, own.pp)};
}

void Stage::forget_state() {
  vault_.reset();
  vault_ = std::make_unique<Vault>(vault_name(vault_base_, std::to_string(kJob)));
}

std::vector<std::string> Stage::environment(int generation, int port) const {
  char heartbeat[32];
  std::snprintf(heartbeat, sizeof heartbeat, "%g", settings_.heartbeat);
  return {"ESPALIER_LAUNCHER=127.0.0.1:" + std::to_string(port),
          "ESPALIER_GENERATION=" + std::to_string(generation),
          "ESPALIER_DIRECTORY=" + (directory_->path() / ("g" + std::to_string(generation))).string(),
          "ESPALIER_ANCHOR=" + std::to_string(kJob),
          "ESPALIER_VAULT=" + vault_base_,
          std::string("ESPALIER_HEARTBEAT=") + heartbeat};
}

void Stage::enter(int number, const Line::Greeting& greeting, Callbacks callbacks) {
  greeting_ = greeting;
  generations_[number] = std::move(callbacks);
}

std::unique_ptr<Ranks> Stage::run(int number, const std::vector<GpuId>& gpus, const std::vector<std::string>& program,
                                  const std::vector<std::string>& variables, RanksCallbacks callbacks) {
  WorldRequest request;
  request.generation = number;
  request.gpus = gpus;
  request.holdings = holdings();
  request.program = program;
  auto own = environment(number, port_);
  for (const std::string& one : variables) {
    const std::string name = one.substr(0, one.find('=') + 1);
    std::erase_if(own, [&](const std::string& other) { return other.rfind(name, 0) == 0; });
    own.push_back(one);
  }
  request.environment = clean_environment(own);
  request.directory = directory_->generation(number).string();
  request.network = "127.0.0.0/8";
  return servers_->run(request, std::move(callbacks));
}

void Stage::accept() {
  std::erase_if(lines_, [](const std::unique_ptr<Line>& line) { return !line || line->ended(); });
  wire::Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  ++count_;
  const auto changed = [this] {
    // A hello says whose line it is. Deferred: the line that calls this may be moved.
    loop_.defer([this] {
      for (std::unique_ptr<Line>& line : lines_) {
        if (!line || line->frames.empty()) continue;
        const wire::Frame frame = line->frames.front();
        try {
          if (frame.type != wire::Hello::type) throw Error("`" + frame.type + "` comes before `hello`");
          const wire::WorkerHello worker = wire::read_hello(frame);
          const auto at = generations_.find(worker.hello.generation);
          if (at == generations_.end()) throw Error("hello.generation: there is no such generation");
          line->frames.pop_front();
          at->second.adopt(std::move(line), worker);
        } catch (const Error& error) {
          for (const auto& [number, generation] : generations_) generation.broken(error.what());
          if (line) line->close();  // adopt() may have taken it, and closed it
        }
      }
      loop_.stop();
    });
    for (const auto& [number, generation] : generations_) generation.came();
    loop_.stop();
  };
  lines_.push_back(std::make_unique<Line>(loop_, std::move(socket), door_, greeting_, changed));
}

}  // namespace espalier::launcher::conform
