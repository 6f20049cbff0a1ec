// Messages between the launcher and its rank servers. A rank server is the process of one Slurm job on one node that
// starts the ranks of a generation there and is their PMIx server. Conversion as in messages.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/json.hpp"

namespace espalier::wire {

// Bytes travel in JSON strings: each byte is the character of the same number (ISO 8859-1). text_to_bytes throws Error
// on a character above 255.
std::string bytes_to_text(const std::string& bytes);
std::string text_to_bytes(const std::string& text);
// The same in base64: a third more than the bytes, where JSON writes most bytes that are no letters with six
// characters. base64_to_bytes throws Error on what is no base64.
std::string bytes_to_base64(const std::string& bytes);
std::string base64_to_bytes(const std::string& text);

// Of a message with bytes in `data`, or in `base64` where its receiver has said that it reads that. The first releases
// know `data` only, and a site upgrades its nodes one after the other.
template <class Message>
Message with_bytes(Message message, const std::string& bytes, bool base64) {
  if (base64) message.base64 = bytes_to_base64(bytes);
  else message.data = bytes_to_text(bytes);
  return message;
}
template <class Message>
std::string bytes_of(const Message& message) {
  return message.base64.empty() ? text_to_bytes(message.data) : base64_to_bytes(message.base64);
}

// ---- rank server -> launcher --------------------------------------------------------------------------------------

// A GPU on which training is unsafe.
struct GpuFault {
  int gpu = 0;       // Slurm's number of it on the node
  std::string text;  // what is wrong, and a remedy
};
void to_json(Json&, const GpuFault&);
void from_json(const Json&, GpuFault&);  // throws Error

// First message. `job` is the Slurm job whose GPUs the server's ranks use.
struct RankServerHello {
  static constexpr const char* type = "rank_server";
  JobId job = 0;
  std::string node;
  int pid = 0;
  std::vector<GpuFault> gpu_faults = {};  // of that job's GPUs on the node. May be absent
  bool base64 = false;                    // it reads FenceDone::base64. May be absent
};

// A rank has ended. `code` is as a shell reports it: the exit code, or 128 and the signal's number. `finalized` is
// false for a rank that called MPI_Init and ended without MPI_Finalize.
struct RankEnded {
  static constexpr const char* type = "rank_ended";
  int generation = 0;
  int rank = 0;
  int code = 0;
  bool finalized = true;
};

// A rank called MPI_Abort with `code`.
struct RankAborted {
  static constexpr const char* type = "rank_aborted";
  int generation = 0;
  int rank = 0;
  int code = 0;
};

// The server could not start the ranks of `generation`; none of them runs there.
struct RanksRefused {
  static constexpr const char* type = "ranks_refused";
  int generation = 0;
  std::string reason;
};

// From the server of rank 0, before its ranks start: where the ranks of the generation can meet. Nothing listens at the
// port; it is for rank 0 to take (MASTER_ADDR and MASTER_PORT of PyTorch's programs).
struct Rendezvous {
  static constexpr const char* type = "rendezvous";
  int generation = 0;
  std::string address;
  int port = 0;
};

// All ranks of this server have entered their fence number `number` (0, 1, ...) with bytes (bytes_of).
struct FenceEntered {
  static constexpr const char* type = "fence_entered";
  int generation = 0;
  std::int64_t number = 0;
  std::string data = {};
  std::string base64 = {};  // may be absent
};

// What a rank wrote to its standard output or standard error, bytes.
struct RankOutput {
  static constexpr const char* type = "rank_output";
  bool error = false;
  std::string text;
};

// Spares of the job's program fork: a node loads the program's libraries once, however many ranks it gets.
struct SparesFork {
  static constexpr const char* type = "spares_fork";
};

// ---- both ways ----------------------------------------------------------------------------------------------------

// A server wants what `rank` of another server has published (PMIx direct modex). The launcher passes the question on
// to that rank's server and the answer back. `ticket` is the asker's own number for the question.
struct ModexWanted {
  static constexpr const char* type = "modex_wanted";
  int generation = 0;
  int rank = 0;
  std::int64_t ticket = 0;
};
struct ModexFound {
  static constexpr const char* type = "modex_found";
  int generation = 0;
  std::int64_t ticket = 0;
  bool found = false;
  std::string data;  // bytes
};

// The exit code of a rank server on whose node no ranks can run: the node setup failed, or the container cannot be
// made.
inline constexpr int kCannotRun = 3;

// ---- launcher -> rank server --------------------------------------------------------------------------------------

// The ranks that one server of a world starts. `server` is unique in the world: MPI takes it for the name of a node.
struct RankPlace {
  std::string server;
  std::vector<int> ranks;
  std::vector<int> devices;  // by rank: which of the GPUs that its process can see is its own
};
void to_json(Json&, const RankPlace&);
void from_json(const Json&, RankPlace&);

// Start the ranks of places[here].
struct RunRanks {
  static constexpr const char* type = "run_ranks";
  int generation = 0;
  std::string name;  // of the PMIx namespace: random, so that no other user can guess it
  std::vector<RankPlace> places;
  int here = 0;
  std::vector<std::string> program;
  std::vector<std::string> environment;  // "NAME=value", whole
  std::string directory;                 // for scratch files of the generation; the server makes it
  std::string folder;                    // working directory
  std::vector<std::int64_t> limits;      // soft resource limits by number; -1: unlimited
  std::string network;                   // CIDR that MPI's connections use; empty: any
  bool first = false;  // generation 0: rank 0 has the job's standard input, and SIGTERM is not held back
  // Where the ranks of other servers meet rank 0: `rendezvous` of its server. Empty and 0 to that server itself.
  std::string address = {};
  int port = 0;
  bool base64 = false;  // the launcher reads FenceEntered::base64. May be absent
};

// All servers of the world have entered the fence. The bytes (bytes_of) are what they sent, in the order of places.
// `complete` is false when one of them is gone.
struct FenceDone {
  static constexpr const char* type = "fence_done";
  int generation = 0;
  std::int64_t number = 0;
  bool complete = false;
  std::string data = {};
  std::string base64 = {};  // may be absent
};

// Keep processes of the program that have loaded their libraries and wait, so that the next generation starts sooner.
// They are started with the variable ESPALIER_SPARE.
struct KeepSpares {
  static constexpr const char* type = "keep_spares";
  int count = 0;  // on this server
  std::vector<std::string> program;
  std::vector<std::string> environment;
  std::string folder;
  std::vector<std::int64_t> limits;
  bool forks = false;  // another server has said so of the program (SparesFork). May be absent
};

struct SignalRanks {
  static constexpr const char* type = "signal_ranks";
  int generation = 0;
  int number = 0;
};

// Kill the ranks of the generation (SIGKILL) and forget it.
struct EndRanks {
  static constexpr const char* type = "end_ranks";
  int generation = 0;
};

// So many bytes of output were passed on. A server has at most kMostOutput bytes on the way.
struct OutputTaken {
  static constexpr const char* type = "output_taken";
  std::int64_t bytes = 0;
};
inline constexpr std::int64_t kMostOutput = 256 << 10;

}  // namespace espalier::wire
