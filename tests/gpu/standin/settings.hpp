// What the stand-ins imitate, from the environment. Read once, at the first call. Unset: one large GPU that never
// fails.
//
//   STANDIN_GPUS      GPUs of this machine (1)
//   STANDIN_NODE      GPUs of one node (all): GPUs 0..N-1 are on the first node, the next N on the second. A process
//                     reaches memory of GPUs of its own node only.
//   STANDIN_ALLOWED   the GPUs that the process's Slurm job was given, e.g. "0,1" (all). It sees no other one, as with
//                     ConstrainDevices.
//   STANDIN_PEERS     N: a GPU reaches memory of its group of N only; "none": it reaches no other's ("all")
//   STANDIN_DESCRIPTORS  "0": memory has no descriptors, as on old GPUs; CUDA IPC is what is left
//   STANDIN_EXCLUSIVE "1": compute mode "exclusive process": one process for each GPU
//   STANDIN_NAME      product name ("stand-in for a GPU")
//   STANDIN_MEMORY    bytes of each GPU's memory (0: no limit)
//   STANDIN_CONTEXT   bytes that a process's context takes of it (0)
//   STANDIN_COMM      bytes that each NCCL communicator takes of it (0)
//   STANDIN_PERSISTENCE  "0": state that only descriptors hold is lost when the last context of its GPU ends. Needs
//                     STANDIN_FOLDER.
//   STANDIN_ORDER     CUDA's own order of the GPUs ("fastest first"), which CUDA_DEVICE_ORDER=PCI_BUS_ID replaces
//   STANDIN_DOMAIN    a word: processes with another one use other GPUs ("0")
//   STANDIN_FOLDER    where counts of calls are written (none)
//   STANDIN_DELAY     the longest time, in microseconds, that work on a stream is held up (0)
//   STANDIN_SEED      of those times (1)
//   STANDIN_POISON    "1": torch's memory that is given back is filled with 0xFF
//   STANDIN_FAULTS    errors: [gGENERATION][rRANK]:CALL@COUNT=CODE, comma separated; COUNT+: from that call on.
//                     E.g. "r1:cuMemCreate@3=2,ncclGroupEnd@5=1,torch@100=700"; "torch" is an allocation by torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace standin {

struct Settings {
  int gpus = 1, node = 0;
  int peers = 0;             // GPUs of a group that reach each other; 0: all do
  std::vector<int> visible;  // GPUs by ordinal, after CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER
  bool exclusive = false, descriptors = true, persistence = true, poison = false;
  std::size_t memory = 0, context = 0, communicator = 0;
  std::string domain, folder, name;
  std::uint64_t delay_us = 0, seed = 1;
  int rank = 0;

  bool sees(int gpu) const;
  // Whether code on `from` reaches memory of `to`.
  bool reaches(int from, int to) const;
  bool same_node(int a, int b) const { return a / node == b / node; }
};

const Settings& settings();

// Counts the call. Returns the error that is due at this call, or 0.
int count_call(const char* name);
void count(const char* name, std::uint64_t amount);

}  // namespace standin
