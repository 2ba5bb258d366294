// How many CTAs and clusters fit on the device.
#include <algorithm>

#include "emulator/driver/state.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

// CTAs per SM by shared memory (including 1 KiB for the system), threads and the CTA limit; PTX has no
// register count.
int ctas_per_sm(const CUfunc_st& f, int threads, size_t dynamic) {
  const DeviceModel& d = *state().device;
  const uint64_t shared = f.function->static_shared_bytes + dynamic + kReservedShared;
  const uint32_t warps = (uint32_t(threads) + kLanes - 1) / kLanes;
  // The kernel's limit, even if the program has set it below the default.
  const uint64_t limit =
      std::max<uint64_t>(48 * 1024, f.function->static_shared_bytes + uint64_t(f.max_dynamic_shared));
  if (!threads || f.function->static_shared_bytes + dynamic > limit) return 0;
  return int(std::min(
      {uint64_t(d.ctas_per_sm), d.shared_per_sm / shared, uint64_t(d.threads_per_sm / (warps * kLanes))}));
}

unsigned cluster_of(const CUlaunchConfig& c) {
  unsigned size = 1;
  for (unsigned i = 0; i < c.numAttrs; ++i)
    if (c.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      size = c.attrs[i].value.clusterDim.x * c.attrs[i].value.clusterDim.y * c.attrs[i].value.clusterDim.z;
  return size;
}

// Whether the arguments are valid.
CUresult check_function(CUfunction f) {
  if (CUresult r = ready()) return r;
  return exists(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult check_function(CUfunction f, const CUlaunchConfig* c) {
  if (CUresult r = ready()) return r;
  if (!f || !c) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_function(f)) return r;
  const bool empty =
      !c->gridDimX || !c->gridDimY || !c->gridDimZ || !c->blockDimX || !c->blockDimY || !c->blockDimZ;
  return empty || (c->numAttrs && !c->attrs) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f, int threads,
                                                              size_t dynamic, unsigned flags) {
  if (CUresult r = check_function(f)) return r;
  if (!blocks || threads <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = threads > 1024 ? 0 : ctas_per_sm(*f, threads, dynamic);
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int threads, size_t dynamic) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, dynamic, 0);
}
// The block size with the most resident threads per SM, and the number of blocks for all SMs.
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction f,
                                                   CUoccupancyB2DSize shared_of_block, size_t dynamic,
                                                   int limit, unsigned flags) {
  if (CUresult r = check_function(f)) return r;
  if (!grid || !block || limit < 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  const int most = limit > 0 ? std::min(limit, 1024) : 1024;
  int best = 0;
  for (int threads = most; threads > 0; threads = (threads - 1) / int(kLanes) * int(kLanes)) {
    const int ctas = ctas_per_sm(*f, threads, shared_of_block ? shared_of_block(threads) : dynamic);
    if (ctas * threads <= best) continue;
    best = ctas * threads;
    *block = threads;
    *grid = ctas * int(state().device->sms);
  }
  return best ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f,
                                          CUoccupancyB2DSize shared_of_block, size_t dynamic, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, shared_of_block, dynamic, limit, 0);
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction f, const CUlaunchConfig* c) {
  if (CUresult r = check_function(f, c)) return r;
  if (!clusters) return CUDA_ERROR_INVALID_VALUE;
  const unsigned size = cluster_of(*c);
  if (!size || size > largest_cluster(*f)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  *clusters = ctas_per_sm(*f, int(c->blockDimX * c->blockDimY * c->blockDimZ), c->sharedMemBytes) *
              int(state().device->sms) / int(size);
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction f, const CUlaunchConfig* c) {
  if (CUresult r = check_function(f, c)) return r;
  if (!size) return CUDA_ERROR_INVALID_VALUE;
  if (cluster_of(*c) > largest_cluster(*f)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  *size = int(largest_cluster(*f));
  return CUDA_SUCCESS;
}
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction f, int blocks, int threads) {
  if (CUresult r = check_function(f)) return r;
  if (!bytes || blocks <= 0 || threads <= 0 || ctas_per_sm(*f, threads, 0) < blocks)
    return CUDA_ERROR_INVALID_VALUE;
  const DeviceModel& d = *state().device;
  const size_t most = std::min<size_t>(d.shared_per_sm / unsigned(blocks), d.shared_per_cta_optin);
  *bytes = std::min<size_t>(most - f->function->static_shared_bytes, f->max_dynamic_shared);
  return CUDA_SUCCESS;
}
