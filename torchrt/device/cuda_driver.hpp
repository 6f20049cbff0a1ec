// The driver's virtual memory functions, looked up through the runtime at the first call. Nothing
// links libcuda, so the CUDA flavour starts on machines without a driver.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

namespace espalier::torchrt {

struct CudaDriver {
  PFN_cuMemGetAllocationGranularity_v10020 granularity;
  PFN_cuMemCreate_v10020 create;
  PFN_cuMemRelease_v10020 release;
  PFN_cuMemAddressReserve_v10020 reserve;
  PFN_cuMemAddressFree_v10020 free_address;
  PFN_cuMemMap_v10020 map;
  PFN_cuMemUnmap_v10020 unmap;
  PFN_cuMemSetAccess_v10020 set_access;
  PFN_cuMemExportToShareableHandle_v10020 export_handle;
  PFN_cuMemImportFromShareableHandle_v10020 import_handle;
  PFN_cuDeviceGetAttribute_v2000 attribute;
  PFN_cuGetErrorString_v6000 error_string;
};

// Throws Error when there is no driver, or a driver without these functions.
const CudaDriver& cuda_driver();

// Throw Error that names `what`: a DeviceError when the GPU is lost, a MemoryError when its memory
// is full. cudaGetLastError() then tells of no error, unless the GPU is lost.
void must(CUresult result, const char* what);
void must_run(int cuda_runtime_error, const char* what);

// The current GPU has less than a fiftieth of its memory and less than 256 MiB free. False when it cannot be asked.
bool gpu_nearly_full();

}  // namespace espalier::torchrt
