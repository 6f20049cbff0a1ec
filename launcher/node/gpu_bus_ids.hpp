// Where on the PCI bus the GPUs of a Slurm job are. A place in CUDA's own count of GPUs is no identity: it changes when
// a GPU falls off the bus.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace espalier::launcher {

// Whether this process may use /dev/nvidiaN, where N is `minor`: with ConstrainDevices only its Slurm job's. Opens
// nothing.
bool may_use_gpu(int minor);

// `slurm_gpus`: Slurm's numbers of the GPUs, as in SLURM_STEP_GPUS, for example "0,2". `driver`: the folder of NVIDIA's
// kernel driver, with one folder for each GPU. Returns each GPU's bus id by its number, for example "0000:41:00.0".
//
// Slurm numbers a node's GPUs in the order of gres.conf. With AutoDetect that is their order on the PCI bus. Where the
// device files are written down, it is usually the order of their minor numbers. On most nodes both are the same. Where
// they differ, the order counts in which the process may use all of these GPUs; if both allow that, the bus's. Empty
// where neither does, or the driver does not name all GPUs.
std::map<int, std::string> numbered_bus_ids(const std::string& slurm_gpus,
                                            const std::filesystem::path& driver = "/proc/driver/nvidia/gpus",
                                            const std::function<bool(int minor)>& may_use = may_use_gpu);

// The same in the order of the numbers, for example "0000:41:00.0,0000:a1:00.0".
std::string gpu_bus_ids(const std::string& slurm_gpus, const std::filesystem::path& driver = "/proc/driver/nvidia/gpus",
                        const std::function<bool(int minor)>& may_use = may_use_gpu);

}  // namespace espalier::launcher
