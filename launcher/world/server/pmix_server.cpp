#include "launcher/world/server/pmix_server.hpp"

#include <pmix.h>
#include <pmix_server.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "launcher/world/server/pmix_namespace.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {

// PMIx calls its host from threads of its own and with nothing that would name an object. So there is one bridge in the
// process: what PMIx says is put into a queue that the loop empties.
struct PmixServer::Bridge {
  Callbacks callbacks;
  std::mutex mutex;
  std::deque<std::function<void()>> said;
  wire::Descriptor wake;

  struct Question {  // of PMIx, not answered yet
    pmix_modex_cbfunc_t done = nullptr;
    void* context = nullptr;
  };
  std::map<std::int64_t, Question> questions;
  std::int64_t last_ticket = 0;

  void say(std::function<void()> what) {
    {
      const std::lock_guard lock(mutex);
      said.push_back(std::move(what));
    }
    const std::uint64_t one = 1;
    // The descriptor refuses only when it already says "wake up".
    [[maybe_unused]] const ssize_t told = ::write(wake.get(), &one, sizeof one);
  }
  void take() {
    std::uint64_t count = 0;
    if (::read(wake.get(), &count, sizeof count) < 0) return;
    std::deque<std::function<void()>> taken;
    {
      const std::lock_guard lock(mutex);
      taken.swap(said);
    }
    for (const auto& one : taken) one();
  }
  std::int64_t ask(pmix_modex_cbfunc_t done, void* context) {
    const std::lock_guard lock(mutex);
    questions[++last_ticket] = {done, context};
    return last_ticket;
  }
};

namespace {

using std::chrono::seconds;
constexpr seconds kAnswers{10};  // PMIx, to what its host asks of it

template <class Bridge>
std::shared_ptr<Bridge>& the_bridge() {
  static std::shared_ptr<Bridge> bridge;
  return bridge;
}

// Waits for one answer of PMIx. It outlives the wait: PMIx may answer after the time is up.
struct Answer {
  std::mutex mutex;
  std::condition_variable changed;
  bool there = false;
  pmix_status_t status = PMIX_ERR_TIMEOUT;

  static void take(pmix_status_t status, void* context) {
    const std::unique_ptr<std::shared_ptr<Answer>> self(static_cast<std::shared_ptr<Answer>*>(context));
    const std::lock_guard lock((*self)->mutex);
    (*self)->there = true;
    (*self)->status = status;
    (*self)->changed.notify_all();
  }
};

// `call` gets a callback and its context, and returns PMIx's status.
template <class Call>
void wait_for(const char* what, Call call) {
  const auto answer = std::make_shared<Answer>();
  auto* const context = new std::shared_ptr<Answer>(answer);
  pmix_status_t status = call(&Answer::take, context);
  if (status == PMIX_SUCCESS) {
    std::unique_lock lock(answer->mutex);
    answer->changed.wait_for(lock, kAnswers, [&] { return answer->there; });
    status = answer->status;
  } else {
    delete context;
  }
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    throw Error(std::string("pmix: ") + what + ": " + PMIx_Error_string(status));
}

pmix_proc_t process(const std::string& name, int rank) {
  pmix_proc_t proc{};
  std::strncpy(proc.nspace, name.c_str(), sizeof proc.nspace - 1);
  proc.rank = static_cast<pmix_rank_t>(rank);
  return proc;
}

struct Blob {
  std::string data;
  static void release(void* context) { delete static_cast<Blob*>(context); }
};

struct LookUp {
  std::function<void(bool, std::string)> found;
};

}  // namespace

// ---- what PMIx calls. All return at once.

template <class Bridge>
struct Hooks {
  static pmix_status_t connected(const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t, pmix_op_cbfunc_t, void*) {
    const auto bridge = the_bridge<Bridge>();
    if (bridge)
      bridge->say([bridge, name = std::string(proc->nspace), rank = static_cast<int>(proc->rank)] {
        bridge->callbacks.connected(name, rank);
      });
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_status_t finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) {
    const auto bridge = the_bridge<Bridge>();
    if (bridge)
      bridge->say([bridge, name = std::string(proc->nspace), rank = static_cast<int>(proc->rank)] {
        bridge->callbacks.finalized(name, rank);
      });
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_status_t abort(const pmix_proc_t* proc, void*, int status, const char*, pmix_proc_t*, std::size_t,
                             pmix_op_cbfunc_t, void*) {
    const auto bridge = the_bridge<Bridge>();
    if (bridge)
      bridge->say([bridge, name = std::string(proc->nspace), rank = static_cast<int>(proc->rank), status] {
        bridge->callbacks.aborted(name, rank, status);
      });
    return PMIX_OPERATION_SUCCEEDED;
  }
  // Only whole worlds are fenced: MPI's communicators of fewer ranks need no help of PMIx.
  static pmix_status_t fence(const pmix_proc_t* procs, std::size_t count, const pmix_info_t*, std::size_t, char* data,
                             std::size_t size, pmix_modex_cbfunc_t done, void* context) {
    const auto bridge = the_bridge<Bridge>();
    if (!bridge || count != 1 || procs[0].rank != PMIX_RANK_WILDCARD) return PMIX_ERR_NOT_SUPPORTED;
    std::string bytes(data == nullptr ? "" : data, data == nullptr ? 0 : size);
    const std::int64_t ticket = bridge->ask(done, context);
    bridge->say([bridge, ticket, name = std::string(procs[0].nspace), bytes = std::move(bytes)]() mutable {
      bridge->callbacks.fence(name, ticket, std::move(bytes));
    });
    return PMIX_SUCCESS;
  }
  static pmix_status_t wanted(const pmix_proc_t* proc, const pmix_info_t*, std::size_t, pmix_modex_cbfunc_t done,
                              void* context) {
    const auto bridge = the_bridge<Bridge>();
    if (!bridge) return PMIX_ERR_NOT_SUPPORTED;
    const std::int64_t ticket = bridge->ask(done, context);
    bridge->say([bridge, ticket, name = std::string(proc->nspace), rank = static_cast<int>(proc->rank)] {
      bridge->callbacks.wanted(name, rank, ticket);
    });
    return PMIX_SUCCESS;
  }
  // Events are registered and raised among the ranks of this server; none is passed on to others.
  static pmix_status_t register_events(pmix_status_t*, std::size_t, const pmix_info_t*, std::size_t, pmix_op_cbfunc_t,
                                       void*) {
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_status_t deregister_events(pmix_status_t*, std::size_t, pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_status_t notify_event(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, pmix_info_t*, std::size_t,
                                    pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_server_module_t module() {
    pmix_server_module_t module{};
    module.client_connected2 = connected;
    module.client_finalized = finalized;
    module.abort = abort;
    module.fence_nb = fence;
    module.direct_modex = wanted;
    module.register_events = register_events;
    module.deregister_events = deregister_events;
    module.notify_event = notify_event;
    return module;
  }
};

PmixServer::PmixServer(wire::Loop& loop, const std::string& server, const std::string& directory, Callbacks callbacks)
    : bridge_(std::make_shared<Bridge>()) {
  if (the_bridge<Bridge>()) throw Error("pmix: there is a server in this process already");
  bridge_->callbacks = std::move(callbacks);
  bridge_->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bridge_->wake) throw Error(std::string("pmix: no event descriptor: ") + std::strerror(errno));
  the_bridge<Bridge>() = bridge_;
  PmixInfos infos;
  infos.text(PMIX_SERVER_TMPDIR, directory);
  infos.text(PMIX_SYSTEM_TMPDIR, directory);
  infos.text(PMIX_HOSTNAME, server);
  static pmix_server_module_t module = Hooks<Bridge>::module();  // PMIx keeps the pointer
  const pmix_status_t status = PMIx_server_init(&module, infos.data(), infos.size());
  if (status != PMIX_SUCCESS) {
    the_bridge<Bridge>().reset();
    throw Error(std::string("pmix: the server cannot start: ") + PMIx_Error_string(status));
  }
  readable_ = loop.on_readable(bridge_->wake.get(), [bridge = bridge_] { bridge->take(); });
}

PmixServer::~PmixServer() {
  the_bridge<Bridge>().reset();
  PMIx_server_finalize();
}

void PmixServer::add(const PmixNamespace& space) {
  PmixInfos infos;
  describe(space, infos);
  const auto& ranks = space.places.at(space.here).ranks;
  pmix_nspace_t name{};
  std::strncpy(name, space.name.c_str(), sizeof name - 1);
  wait_for("the world cannot be registered", [&](pmix_op_cbfunc_t done, void* context) {
    return PMIx_server_register_nspace(name, static_cast<int>(ranks.size()), infos.data(), infos.size(), done, context);
  });
  for (const int rank : ranks) {
    const pmix_proc_t proc = process(space.name, rank);
    wait_for("a rank cannot be registered", [&](pmix_op_cbfunc_t done, void* context) {
      return PMIx_server_register_client(&proc, space.user, space.group, nullptr, done, context);
    });
  }
}

void PmixServer::remove(const std::string& name) {
  pmix_nspace_t space{};
  std::strncpy(space, name.c_str(), sizeof space - 1);
  PMIx_server_deregister_nspace(space, nullptr, nullptr);
}

void PmixServer::flush() { bridge_->take(); }

std::vector<std::string> PmixServer::environment(const std::string& name, int rank) const {
  const pmix_proc_t proc = process(name, rank);
  char** list = nullptr;
  const pmix_status_t status = PMIx_server_setup_fork(&proc, &list);
  std::vector<std::string> variables;
  for (char** at = list; at != nullptr && *at != nullptr; ++at) {
    variables.emplace_back(*at);
    std::free(*at);
  }
  std::free(list);
  if (status != PMIX_SUCCESS) throw Error(std::string("pmix: no environment for a rank: ") + PMIx_Error_string(status));
  return variables;
}

void PmixServer::answer(std::int64_t ticket, bool complete, std::string data) {
  Bridge::Question question;
  {
    const std::lock_guard lock(bridge_->mutex);
    const auto at = bridge_->questions.find(ticket);
    if (at == bridge_->questions.end()) return;
    question = at->second;
    bridge_->questions.erase(at);
  }
  if (question.done == nullptr) return;
  auto* const blob = new Blob{std::move(data)};
  question.done(complete ? PMIX_SUCCESS : PMIX_ERR_LOST_CONNECTION, blob->data.data(), blob->data.size(),
                question.context, &Blob::release, blob);
}

void PmixServer::look_up(const std::string& name, int rank, std::function<void(bool, std::string)> found) {
  const pmix_proc_t proc = process(name, rank);
  auto* const look_up = new LookUp{std::move(found)};
  const auto take = [](pmix_status_t status, char* data, std::size_t size, void* context) {
    const std::shared_ptr<LookUp> self(static_cast<LookUp*>(context));
    const auto bridge = the_bridge<Bridge>();
    if (!bridge) return;
    bridge->say([self, known = status == PMIX_SUCCESS,
                 bytes = data == nullptr ? std::string() : std::string(data, size)] { self->found(known, bytes); });
  };
  if (PMIx_server_dmodex_request(&proc, take, look_up) != PMIX_SUCCESS) {
    const auto failed = std::move(look_up->found);
    delete look_up;
    failed(false, "");
  }
}

}  // namespace espalier::launcher
