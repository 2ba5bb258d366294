// Launches by the driver's calls: parameters, attributes, streams.
#include "emulator/driver/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/driver/state.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

// CTAs along one dimension of a grid that counts clusters; clamped to 32 bits, which is too large anyway.
uint32_t ctas(uint32_t clusters, uint32_t size) {
  return uint32_t(std::min<uint64_t>(uint64_t(clusters) * size, UINT32_MAX));
}

std::shared_ptr<const KernelLaunch> kernel_launch(const CUDA_KERNEL_NODE_PARAMS& shape, CUfunction f,
                                                  const LaunchAttributes& attributes,
                                                  const LaunchConfig& config) {
  auto launch = std::make_shared<KernelLaunch>();
  launch->attributes = attributes;
  launch->block = config.params;
  for (const auto& p : f->function->params) launch->pointers.push_back(launch->block.data() + p.offset);
  launch->shape = shape;
  launch->shape.func = f;
  launch->shape.kernelParams = launch->pointers.data();
  launch->shape.extra = nullptr;
  return launch;
}

LaunchConfig config_of(const CUDA_KERNEL_NODE_PARAMS& p, const LaunchAttributes& attributes) {
  LaunchConfig config{{p.gridDimX, p.gridDimY, p.gridDimZ},
                      {p.blockDimX, p.blockDimY, p.blockDimZ},
                      {1, 1, 1},
                      p.sharedMemBytes,
                      {},
                      false};
  if (const auto a = attributes.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION); a != attributes.end())
    config.cluster = {a->second.clusterDim.x, a->second.clusterDim.y, a->second.clusterDim.z};
  if (const auto a = attributes.find(CU_LAUNCH_ATTRIBUTE_COOPERATIVE); a != attributes.end())
    config.cooperative = a->second.cooperative;
  return config;
}

// CU_LAUNCH_PARAM_BUFFER_POINTER: the buffer is the driver's block, which cuFuncGetParamInfo describes.
CUresult read_buffer(const CUfunc_st& f, void** extra, std::vector<std::byte>* block) {
  const Function& function = *f.function;
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (void** e = extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
    if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = e[1];
    else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<size_t*>(e[1]);
    else
      return refuse(CUDA_ERROR_INVALID_VALUE, f,
                    "an entry of `extra` is neither a buffer, its size nor the end");
  }
  const std::vector<uint32_t> offsets = driver_offsets(function);
  const size_t needed = offsets.empty() ? 0 : offsets.back() + function.params.back().size;
  const auto why = [&] {
    std::string text = fmt::format("{} bytes of parameters given, {} needed", bytes, needed);
    for (size_t i = 0; i < offsets.size(); ++i)
      if (offsets[i] != function.params[i].offset) {
        text += fmt::format(
            ": on this device parameter {}, aligned to {}, begins at {:#x} of the buffer "
            "(cuFuncGetParamInfo), not at {:#x}; or give kernelParams",
            i, function.params[i].align, offsets[i], function.params[i].offset);
        break;
      }
    return text;
  };
  if (bytes > needed) return refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, f, why());
  if (!buffer || bytes < needed) return refuse(CUDA_ERROR_INVALID_VALUE, f, why());
  for (size_t i = 0; i < offsets.size(); ++i)
    std::memcpy(block->data() + function.params[i].offset, static_cast<const std::byte*>(buffer) + offsets[i],
                function.params[i].size);
  return CUDA_SUCCESS;
}

// The kernel's parameters, one after the other as it reads them.
CUresult read_params(const CUfunc_st& f, void** params, void** extra, std::vector<std::byte>* block) {
  const Function& function = *f.function;
  block->assign(function.param_bytes, std::byte{0});
  if (params && extra)
    return refuse(CUDA_ERROR_INVALID_VALUE, f, "parameters given twice, by kernelParams and by extra");
  if (params) {
    for (size_t i = 0; i < function.params.size(); ++i) {
      if (!params[i])
        return refuse(
            CUDA_ERROR_INVALID_VALUE, f,
            fmt::format("kernelParams[{}] is null; the kernel has {} parameters", i, function.params.size()));
      std::memcpy(block->data() + function.params[i].offset, params[i], function.params[i].size);
    }
  } else if (extra) {
    return read_buffer(f, extra, block);
  } else if (!function.params.empty()) {
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("no parameters given; the kernel has {}", function.params.size()));
  }
  return CUDA_SUCCESS;
}

// Programmatic dependent launch.
bool is_early(const LaunchAttributes& attributes) {
  const auto early = attributes.find(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  return early != attributes.end() && early->second.programmaticStreamSerializationAllowed;
}

}  // namespace

CUresult fp4lab::emu::driver::prepare_launch(const CUDA_KERNEL_NODE_PARAMS& shape,
                                             const LaunchAttributes& attributes, Work* work,
                                             bool behind_kernel, uint64_t stream) {
  if (CUresult r = ready_anywhere()) return r;
  // A library's kernel is a function too.
  const CUfunction f = shape.func ? shape.func : reinterpret_cast<CUfunction>(shape.kern);
  if (!exists(f)) return CUDA_ERROR_INVALID_HANDLE;
  const Function& function = *f->function;
  LaunchConfig config = config_of(shape, attributes);
  if (CUresult r = read_params(*f, shape.kernelParams, shape.extra, &config.params)) return r;
  if (const Dim3 c = required_cluster(*f); (c.x || c.y || c.z) && config.cluster.count() == 1)
    config.cluster = c;
  // For a kernel with __block_size__ the launch passes a block of 1, and the kernel has its own.
  if (function.blocks_are_clusters && function.req_ntid[0] && config.block.count() == 1)
    config.block = {function.req_ntid[0], std::max(1u, function.req_ntid[1]),
                    std::max(1u, function.req_ntid[2])};
  if (function.blocks_are_clusters)
    config.grid = {ctas(config.grid.x, config.cluster.x), ctas(config.grid.y, config.cluster.y),
                   ctas(config.grid.z, config.cluster.z)};
  if (CUresult r = check_launch(*f, config)) return r;
  auto launch = kernel_launch(shape, f, attributes, config);
  const bool early = behind_kernel && is_early(attributes);
  State& s = state();
  s.overlapping |= is_early(attributes);
  config.early = early, config.may_overlap = s.overlapping, config.stream = stream;
  // A graph may outlive the module.
  *work = {[f, config = std::move(config), early] {
             return exists(f) ? run_launch(*f, config, early) : CUDA_ERROR_INVALID_HANDLE;
           },
           std::move(launch)};
  return CUDA_SUCCESS;
}

namespace {

bool is_kernel(const CUgraphNode_st* node) { return node->type == CU_GRAPH_NODE_TYPE_KERNEL; }

// Whether the stream's last work was a kernel and nothing has waited for it since.
bool is_behind_kernel(const CUstream_st& stream) {
  if (stream.capture) return std::ranges::any_of(stream.tail, is_kernel);
  std::lock_guard lock(state().mutex);
  return stream.last_work == CU_GRAPH_NODE_TYPE_KERNEL && stream.synchronised == state().synchronisations;
}

// The edges from kernels that a captured launch need not wait for (CUDA Programming Guide, programmatic
// dependent launch in graphs).
void mark_early(CUgraphNode_st& node) {
  CUgraphEdgeData early{};
  early.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  early.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  for (CUgraphNode need : node.needs)
    if (is_kernel(need)) node.edges[need] = early;
}

CUresult launch_kernel(const CUDA_KERNEL_NODE_PARAMS& shape, const LaunchAttributes& attributes,
                       CUstream stream) {
  Work work;
  CUstream_st* known = stream_of(stream);
  if (CUresult r = ready_on(known)) return r;
  if (!known || !exists(shape.func)) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUcontext of = shape.func->module->context; of && of != context_of(*known))
    return refuse(CUDA_ERROR_INVALID_HANDLE, *shape.func, "the function's context is not the stream's");
  if (CUresult r = prepare_launch(shape, attributes, &work, is_behind_kernel(*known),
                                  known->capture ? kOfGraphs : reinterpret_cast<uint64_t>(known)))
    return r;
  if (CUresult r = submit(stream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work))) return r;
  if (known->capture && is_early(attributes)) mark_early(*known->tail.front());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void** params, void** extra) {
  return launch_kernel({f, gx, gy, gz, bx, by, bz, shared, params, extra, nullptr, nullptr}, {}, stream);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                   unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                   void** params) {
  return launch_kernel({f, gx, gy, gz, bx, by, bz, shared, params, nullptr, nullptr, nullptr},
                       {{CU_LAUNCH_ATTRIBUTE_COOPERATIVE, {.cooperative = 1}}}, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** params, void** extra) {
  if (!c || (c->numAttrs && !c->attrs)) return CUDA_ERROR_INVALID_VALUE;
  LaunchAttributes attributes;
  std::vector<CUevent> behind;  // recorded after the kernel, when all its CTAs have ended
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    const CUlaunchAttribute& a = c->attrs[i];
    switch (a.id) {
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        behind.push_back(a.value.programmaticEvent.event);
        break;
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        behind.push_back(a.value.launchCompletionEvent.event);
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      // Hints, or orderings that are satisfied because kernels are serialised.
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        attributes[a.id] = a.value;
        break;
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
        break;
      default:
        return explain(a.id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING ? CUDA_ERROR_INVALID_VALUE
                                                                                 : CUDA_ERROR_NOT_SUPPORTED,
                       fmt::format("cuLaunchKernelEx: launch attribute {} is not emulated", int(a.id)));
    }
  }
  const CUDA_KERNEL_NODE_PARAMS shape{f,
                                      c->gridDimX,
                                      c->gridDimY,
                                      c->gridDimZ,
                                      c->blockDimX,
                                      c->blockDimY,
                                      c->blockDimZ,
                                      c->sharedMemBytes,
                                      params,
                                      extra,
                                      nullptr,
                                      nullptr};
  if (CUresult r = launch_kernel(shape, attributes, c->hStream)) return r;
  for (CUevent event : behind)
    if (CUresult r = cuEventRecord(event, c->hStream)) return r;
  return CUDA_SUCCESS;
}
