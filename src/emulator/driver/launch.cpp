// Launches, with the checks that the hardware's driver makes before anything runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "emulator/core/place.h"
#include "emulator/driver/exchange.h"
#include "emulator/driver/findings.h"
#include "emulator/driver/state.h"
#include "emulator/isa/support.h"
#include "fp4lab/emulator.h"
#include "fp4lab/error.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

CUresult refuse(CUresult code, const CUfunc_st& f, const std::string& why) {
  return explain(code, fmt::format("launch of {}: {}", kernel_name(f.function->name), why));
}

// CTAs along one dimension of a grid that counts clusters; what does not fit in 32 bits is too large as it
// is.
uint32_t ctas(uint32_t clusters, uint32_t size) {
  return uint32_t(std::min<uint64_t>(uint64_t(clusters) * size, UINT32_MAX));
}

bool same(const Dim3& a, const Dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

CUresult check(const CUfunc_st& f, const LaunchConfig& c) {
  const DeviceModel& device = *state().device;
  const Function& function = *f.function;
  const uint64_t threads = c.block.count(), cluster = c.cluster.count();
  if (!c.grid.count() || !threads)
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("grid {}x{}x{}, block {}x{}x{}: a dimension is 0", c.grid.x, c.grid.y, c.grid.z,
                              c.block.x, c.block.y, c.block.z));
  if (c.grid.x > INT32_MAX || c.grid.y > 65535 || c.grid.z > 65535)
    return refuse(
        CUDA_ERROR_INVALID_VALUE, f,
        fmt::format("grid {}x{}x{}: x ends at 2147483647, y and z at 65535", c.grid.x, c.grid.y, c.grid.z));
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

void add(const Statistics& launch, double seconds) {
  State& s = state();
  s.all.warp_instructions += launch.warp_instructions;
  s.all_seconds += seconds;
  for (const auto& [op, count] : launch.by_opcode) {
    auto known = std::ranges::find(s.all.by_opcode, op, &std::pair<const Opcode*, uint64_t>::first);
    if (known == s.all.by_opcode.end())
      s.all.by_opcode.emplace_back(op, count);
    else
      known->second += count;
  }
}

CUresult run(const CUfunc_st& f, const LaunchConfig& config) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto start = std::chrono::steady_clock::now();
  LaunchResult result;
  Watchers watchers;
  if (is_observed(f))
    for (const auto& o : s.observers) watchers.add(*o);
  if (s.check) {
    if (!s.checker) s.checker = std::make_unique<OrderChecker>();
    watchers.add(*s.checker);
  }
  static const std::vector<OrderChecker::Finding> no_findings;
  s.notes.clear();
  s.findings = "[]";
  try {
    result =
        launch(*f.module->module, *f.function, config, *s.device, *s.memory, s.schedule, watchers.front());
  } catch (const fp4lab::Error& e) {
    return refuse(
        config.cooperative ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, f,
        e.what());
  }
  s.last_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  s.last = std::move(result.statistics);
  ++s.launches;
  s.findings = findings_json(result, f.function->name, s.check ? s.checker->findings() : no_findings);
  record_launch(f, s);
  if (s.tell_observed) tell_observed(f);
  if (s.tell_fidelity) add(s.last, s.last_seconds);
  s.notes = result.notes;
  if (s.check) {
    s.notes += s.checker->report(false);
    for (const OrderChecker::FoldedNotes& n : s.checker->folded_notes())
      if (s.told_notes.emplace(f.function->name, n.kind).second)
        explain(CUDA_SUCCESS, fmt::format("note: {}\n  kernel {}", n.text, kernel_name(f.function->name)));
    if (s.checker->errors()) {
      const std::string found = s.checker->report(true);
      result.report = result.ok ? found : result.report + "\nand before that:\n" + found;
      if (result.ok) result.kind = FaultKind::misuse;
      result.ok = false;
    }
  }
  bool news = false;  // a program that launches a kernel often is told once
  for (const Tolerated& t : result.tolerated)
    news |= s.told_notes.emplace(f.function->name, fmt::format("{} {}", int(t.kind), t.line)).second;
  if (news) explain(CUDA_SUCCESS, "note: " + result.notes);
  if (result.ok) return CUDA_SUCCESS;
  return context_stack().back()->sticky = explain(result_of(result.kind), result.report);
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
    if (bytes > function.param_bytes)
      return refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, f,
                    fmt::format("{} bytes of parameters given, {} needed", bytes, function.param_bytes));
    if (!buffer || bytes < function.param_bytes)
      return refuse(CUDA_ERROR_INVALID_VALUE, f,
                    fmt::format("{} bytes of parameters given, {} needed", bytes, function.param_bytes));
    std::memcpy(block->data(), buffer, function.param_bytes);
  } else if (!function.params.empty()) {
    return refuse(CUDA_ERROR_INVALID_VALUE, f,
                  fmt::format("no parameters given; the kernel has {}", function.params.size()));
  }
  return CUDA_SUCCESS;
}

}  // namespace

Dim3 fp4lab::emu::driver::required_cluster(const CUfunc_st& f) {
  const auto& compiled = f.function->req_cluster;
  if (compiled[0]) return {compiled[0], std::max(1u, compiled[1]), std::max(1u, compiled[2])};
  const auto asked = [&f](CUfunction_attribute a) {
    const auto it = f.attributes.find(a);
    return it == f.attributes.end() ? 0u : unsigned(it->second);
  };
  return {asked(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), asked(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
          asked(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
}

uint32_t fp4lab::emu::driver::largest_cluster(const CUfunc_st& f) {
  constexpr uint32_t kPortable = 8;
  return f.non_portable_cluster ? state().device->max_cluster : kPortable;
}

CUresult fp4lab::emu::driver::prepare_launch(const CUDA_KERNEL_NODE_PARAMS& shape,
                                             const LaunchAttributes& attributes, Work* work) {
  if (CUresult r = ready()) return r;
  // A kernel of a library is a function too.
  const CUfunction f = shape.func ? shape.func : reinterpret_cast<CUfunction>(shape.kern);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  const Function& function = *f->function;
  LaunchConfig config = config_of(shape, attributes);
  if (CUresult r = read_params(*f, shape.kernelParams, shape.extra, &config.params)) return r;
  if (const Dim3 c = required_cluster(*f); (c.x || c.y || c.z) && config.cluster.count() == 1)
    config.cluster = c;
  if (function.blocks_are_clusters)
    config.grid = {ctas(config.grid.x, config.cluster.x), ctas(config.grid.y, config.cluster.y),
                   ctas(config.grid.z, config.cluster.z)};
  if (CUresult r = check(*f, config)) return r;
  auto launch = kernel_launch(shape, f, attributes, config);
  *work = {[f, config = std::move(config)] { return run(*f, config); }, std::move(launch)};
  return CUDA_SUCCESS;
}

namespace {

CUresult launch_kernel(const CUDA_KERNEL_NODE_PARAMS& shape, const LaunchAttributes& attributes,
                       CUstream stream) {
  Work work;
  if (CUresult r = ready()) return r;
  const CUstream_st* known = stream_of(stream);
  if (!known || !shape.func) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUcontext of = shape.func->module->context; of && of != context_of(*known))
    return refuse(CUDA_ERROR_INVALID_HANDLE, *shape.func, "the function's context is not the stream's");
  if (CUresult r = prepare_launch(shape, attributes, &work)) return r;
  return submit(stream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
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
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  LaunchAttributes attributes;
  std::vector<CUevent> behind;  // kernels run one after the other: all of this one's CTAs are over by then
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
      // Hints, or orderings that hold because kernels run one after the other.
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

void fp4lab::emu::driver::tell_fidelity_at_exit() {
  State& s = state();
  if (s.tell_fidelity) return;
  s.tell_fidelity = true;
  std::atexit([] {
    const State& s = state();
    fmt::print(stderr,
               "fp4lab emulator: {}: {} launches, {:.2f} M warp instructions, {:.1f} s. Fidelity: {}\n",
               s.device->name, s.launches, double(s.all.warp_instructions) / 1e6, s.all_seconds,
               s.launches ? fidelity(s.all) : "nothing was run");
  });
}

extern "C" void fp4lab_emulator_statistics(fp4lab_emulator_stats* out) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const Statistics& l = s.last;
  *out = {s.launches, l.warp_instructions, l.async_ops, l.tma_bytes, l.mma_count, s.last_seconds};
}

extern "C" const char* fp4lab_emulator_fidelity() {
  static thread_local std::string line;
  std::lock_guard lock(state().mutex);
  line = fidelity(state().last);
  return line.c_str();
}
extern "C" const char* fp4lab_emulator_support() {
  static const std::string page = support_page();
  return page.c_str();
}
extern "C" const char* fp4lab_emulator_report() { return state().last_report.c_str(); }
extern "C" void fp4lab_emulator_quiet(int quiet) { state().quiet = quiet != 0; }
extern "C" void fp4lab_emulator_forgive() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.primary.sticky = CUDA_SUCCESS;
  for (CUctx_st* context : s.contexts) context->sticky = CUDA_SUCCESS;
}
extern "C" void fp4lab_emulator_check(int level) { state().check = level > 0; }
extern "C" const char* fp4lab_emulator_notes() { return state().notes.c_str(); }
extern "C" const char* fp4lab_emulator_findings() { return state().findings.c_str(); }
extern "C" void fp4lab_emulator_seed(unsigned long long seed) { state().schedule.seed = seed; }
