#include "launcher/slurm/ask_patiently.hpp"

#include "launcher/slurm/unanswered.hpp"

namespace espalier::launcher {

void ask_patiently(const std::function<void()>& ask, const std::function<void(const std::string& why)>& waits,
                   const Patience& patience) {
  const auto until = patience.now() + patience.most;
  for (bool told = false;; told = true) {
    try {
      return ask();
    } catch (const Unanswered& error) {
      if (patience.now() + patience.between > until) throw;
      if (!told) waits(error.what());
    }
    patience.sleep(patience.between);
  }
}

}  // namespace espalier::launcher
