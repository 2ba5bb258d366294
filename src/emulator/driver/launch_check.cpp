// The limits of a launch.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/core/place.h"
#include "emulator/driver/launch.h"

namespace fp4lab::emu::driver {

CUresult refuse(CUresult code, const CUfunc_st& f, const std::string& why) {
  return explain(code, fmt::format("launch of {}: {}", kernel_name(f.function->name), why));
}

std::vector<uint32_t> driver_offsets(const Function& f) {
  const uint32_t base = state().device->param_bank;
  std::vector<uint32_t> offsets;
  uint32_t end = base;
  for (const Parameter& p : f.params) {
    end = (end + p.align - 1) / p.align * p.align;
    offsets.push_back(end - base);
    end += p.size;
  }
  return offsets;
}

static bool same(const Dim3& a, const Dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

CUresult check_launch(const CUfunc_st& f, const LaunchConfig& c) {
  const DeviceModel& device = *state().device;
  const Function& function = *f.function;
  const uint64_t threads = c.block.count(), cluster = c.cluster.count();
  if (!c.grid.count() || !threads)
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("grid {}x{}x{}, block {}x{}x{}: a dimension is 0", c.grid.x, c.grid.y, c.grid.z,
                              c.block.x, c.block.y, c.block.z));
  if (c.grid.x > INT32_MAX || c.grid.y > 65535 || c.grid.z > 65535)
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("grid {}x{}x{}: x may be at most 2147483647, y and z 65535", c.grid.x, c.grid.y,
                              c.grid.z));
  if (threads > 1024 || c.block.z > 64)
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("block {}x{}x{} = {} threads; 1024 is the limit, 64 in z", c.block.x, c.block.y,
                              c.block.z, threads));
  const auto volume = [](const uint32_t(&n)[3]) {
    return uint64_t(n[0]) * std::max(1u, n[1]) * std::max(1u, n[2]);
  };
  if (function.max_ntid[0] && threads > volume(function.max_ntid))
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("{} threads in a block; the kernel was compiled for at most {} (.maxntid)",
                              threads, volume(function.max_ntid)));
  if (function.req_ntid[0] && threads != volume(function.req_ntid))
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("{} threads in a block; the kernel requires {} (.reqntid)", threads,
                              volume(function.req_ntid)));
  if (c.dynamic_shared > f.max_dynamic_shared)
    return refuse(c.cooperative ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("{} bytes of dynamic shared memory; {} are allowed until "
                              "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raises it (at most {})",
                              c.dynamic_shared, f.max_dynamic_shared, device.shared_per_cta_optin));
  if (c.dynamic_shared + function.static_shared_bytes > device.shared_per_cta_optin)
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("{} + {} bytes of shared memory; a block may have {}", c.dynamic_shared,
                              function.static_shared_bytes, device.shared_per_cta_optin));
  if (!cluster)
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, f,
                  fmt::format("cluster {}x{}x{}: a dimension is 0", c.cluster.x, c.cluster.y, c.cluster.z));
  if (c.grid.x % c.cluster.x || c.grid.y % c.cluster.y || c.grid.z % c.cluster.z)
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, f,
                  fmt::format("grid {}x{}x{} is not a multiple of the cluster {}x{}x{}", c.grid.x, c.grid.y,
                              c.grid.z, c.cluster.x, c.cluster.y, c.cluster.z));
  const Dim3 required = required_cluster(f);
  if (required.count() && !same(required, c.cluster))
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, f,
                  fmt::format("cluster {}x{}x{}; the kernel requires {}x{}x{} (.reqnctapercluster)",
                              c.cluster.x, c.cluster.y, c.cluster.z, required.x, required.y, required.z));
  const uint32_t limit = largest_cluster(f);
  if (cluster > limit)
    return refuse(
        CUDA_ERROR_INVALID_CLUSTER_SIZE, f,
        fmt::format(
            "a cluster of {} CTAs; the limit is {}{}", cluster, limit,
            f.non_portable_cluster ? "" : " without CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"));
  return CUDA_SUCCESS;
}

Dim3 required_cluster(const CUfunc_st& f) {
  const auto& compiled = f.function->req_cluster;
  if (compiled[0]) return {compiled[0], std::max(1u, compiled[1]), std::max(1u, compiled[2])};
  const auto asked = [&f](CUfunction_attribute a) {
    const auto it = f.attributes.find(a);
    return it == f.attributes.end() ? 0u : unsigned(it->second);
  };
  return {asked(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), asked(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
          asked(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
}

uint32_t largest_cluster(const CUfunc_st& f) {
  constexpr uint32_t kPortable = 8;
  return f.non_portable_cluster ? state().device->max_cluster : kPortable;
}

}  // namespace fp4lab::emu::driver
