#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "launcher/node/base_tenure.hpp"
#include "launcher/node/directory.hpp"
#include "launcher/node/keeper.hpp"
#include "launcher/node/keeper_parts.hpp"
#include "launcher/node/keepers_step.hpp"
#include "launcher/node/node_holder.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') throw Error(std::string(name) + ": not set; the launcher starts bases");
  return value;
}

// The submitted job has ended without a launcher that could end this. The base ends with its batch script; without that
// one, which may have been lost with its node, nobody else ends it. While the submitted job runs, training may go on
// without this node.
void end_remains(const JobContext& context, JobId submitted, bool batch) {
  if (!batch) return give_back(context.job, context.step);
  for (const SlurmJob& extension : extensions_of(submitted)) give_back(extension.id);
}

}  // namespace

int keep_base(bool batch) {
  Watcher watcher{read_context({}), milliseconds(1000)};
  watcher.heartbeat = milliseconds(static_cast<long>(watcher.context.config.heartbeat_seconds * 1000));
  const LauncherPlace place = own_launcher();
  const std::string prefix = variable("ESPALIER_VAULT");
  auto vault = open_vault(prefix, watcher.context.job);
  std::optional<KeepersStep> others;
  if (batch) others.emplace(watcher.context);
  else say_kept();
  BaseTenure tenure(Clock::now(), batch, milliseconds(std::lround(watcher.context.config.adoption_minutes * 60000)), {},
                    batch ? milliseconds(0) : spread_of(watcher.context.node));
  const bool told = NodeHolder(watcher, place.anchor, prefix, tenure, vault.get(), false).hold();
  vault.reset();
  // Other nodes of the base have keepers of their own, and this keeper's own step must not end before it is done.
  if (batch) fence(watcher.context.job);
  else fence_node(watcher.context.job);
  if (const char* directory = std::getenv("ESPALIER_DIRECTORY"); directory != nullptr)
    remove_if_abandoned(std::filesystem::path(directory).parent_path());
  if (!told) try {
      if (has_ended(place.anchor)) end_remains(watcher.context, place.anchor, batch);
    } catch (const Error& error) {
      std::fprintf(stderr, "espalier: keeper: %s\n", error.what());
    }
  return 0;
}

}  // namespace espalier::launcher
