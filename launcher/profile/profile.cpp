// `espalier-launch profile`: its command line, and the submission of profile jobs.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <thread>

#include "launcher/process/description.hpp"
#include "launcher/process/execute.hpp"
#include "launcher/profile/profile_job.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

constexpr char kUsage[] = "profile [--max=GPUS] [--accuracy=bitwise|relaxed] JOB -- PROGRAM [ARGUMENT...]";
constexpr int kTries = 15;  // a second apart, until Slurm has told espalierd of a job that was just submitted

template <class Number>
Number number(const std::string& what, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1)
    throw Error("profile: " + what + ": \"" + text + "\" is not a number from 1 up");
  return value;
}

struct Words {
  ProfileRequest request;
  bool inside = false;
};

Words parse(const std::vector<std::string>& words) {
  Words parsed;
  std::size_t at = 0;
  for (; at < words.size() && words[at] != "--"; ++at) {
    const std::string& word = words[at];
    if (word == "--inside") {
      parsed.inside = true;
    } else if (word.starts_with("--max=")) {
      parsed.request.max_gpus = number<int>("--max", word.substr(6));
    } else if (word.starts_with("--accuracy=")) {
      parsed.request.accuracy = word.substr(11);
      if (parsed.request.accuracy != "bitwise" && parsed.request.accuracy != "relaxed")
        throw Error("profile: --accuracy is neither bitwise nor relaxed");
    } else if (word.starts_with("-")) {
      throw Error("profile: " + word + ": no such option; write " + kUsage);
    } else if (parsed.request.job != 0) {
      throw Error("profile: " + word + ": one job is expected; write -- before the program");
    } else {
      parsed.request.job = number<JobId>("JOB", word);
    }
  }
  if (parsed.request.job == 0) throw Error("profile: no job is given; write the number that sbatch printed");
  if (at < words.size())
    parsed.request.program.assign(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  if (parsed.request.program.empty())
    throw Error("profile: no program is given; write -- and what the job's srun runs, with its arguments");
  return parsed;
}

Json places_of(const wire::Config& config, const std::vector<uid_t>& planner_uids, const ProfileRequest& request) {
  for (int i = 0; i < kTries; ++i) {
    Json reply = ask_planner(config, planner_uids, "stage_places", {{"job", request.job}});
    if (!reply.value("again", false)) return reply.at("places");
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  throw Error("job " + std::to_string(request.job) + ": espalierd knows no such job of yours; see squeue");
}

}  // namespace

int profile(const std::vector<std::string>& words) {
  if (!words.empty() && (words.front() == "--help" || words.front() == "-h")) {
    std::printf(
        "Usage: espalier %s\n"
        "Measures a job of yours that waits in Slurm's queue, stage by stage, on idle GPUs, so that it starts wide.\n\n"
        "  JOB                the number that sbatch printed\n"
        "  PROGRAM            what the job's srun runs, with its arguments\n"
        "      --max=GPUS     MAX of the job's --elastic (the site's limit)\n"
        "      --accuracy=    that of the job's --elastic, bitwise (the default) or relaxed\n\n"
        "See espalier(1).\n",
        kUsage);
    return 0;
  }
  const Words parsed = parse(words);
  const ProfileRequest& request = parsed.request;
  if (parsed.inside) return run_profile_job(request);
  if (execution_error(request.program.front()) == 0) must_profile_stages(request.program);
  const wire::Config config = wire::load_config();
  const SlurmSite site = load_site(config.extension_qos);
  const Json places = places_of(config, site.planner_uids, request);
  if (places.empty())
    throw Error("job " + std::to_string(request.job) + ": each GPU type that it may have has its profile job already");
  int submitted = 0;
  for (const Json& place : places) try {
      const JobId id = submit_profile_job(config, site.cluster, request, place, 0);
      ++submitted;
      std::printf("Profile job %u of job %u %s on a GPU of %s (%s)\n", id, request.job,
                  place.value("idle", false) ? "starts" : "waits for its turn",
                  place.at("node").get<std::string>().c_str(), place.at("type").get<std::string>().c_str());
    } catch (const Error& error) {
      std::fprintf(stderr, "espalier: %s\n", error.what());
    }
  return submitted > 0 ? 0 : 1;
}

}  // namespace espalier::launcher
