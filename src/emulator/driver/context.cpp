// Contexts: the primary one and those that a program creates. They share the device's memory; each has its
// own sticky error.
#include <algorithm>
#include <iterator>
#include <vector>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

CUresult create(CUcontext* context, unsigned flags, CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!context || (flags & ~unsigned(CU_CTX_FLAGS_MASK))) return CUDA_ERROR_INVALID_VALUE;
  select_by_program();
  State& s = state();
  std::lock_guard lock(s.mutex);
  *context = new CUctx_st{flags};
  s.contexts.insert(*context);
  context_stack().push_back(*context);
  return CUDA_SUCCESS;
}

void reset_primary() {
  state().primary.sticky = CUDA_SUCCESS;
  state().primary.cache = CU_FUNC_CACHE_PREFER_NONE;
}

bool is_limit(CUlimit limit) { return limit >= 0 && limit < CU_LIMIT_MAX; }

bool known(CUcontext c) { return c == &state().primary || state().contexts.contains(c); }

}  // namespace

extern "C" {
#undef cuCtxCreate
CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}
#if CUDA_VERSION >= 13000
CUresult CUDAAPI cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}
#endif
}

CUresult cuCtxDestroy(CUcontext context) {
  if (CUresult r = ready(false)) return r;
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.contexts.erase(context)) return CUDA_ERROR_INVALID_CONTEXT;
  std::erase(context_stack(), context);
  std::vector<CUstream> streams;  // destroyed with the context, as are its events
  std::ranges::copy_if(s.streams, std::back_inserter(streams),
                       [&](CUstream x) { return x->context == context; });
  std::ranges::for_each(streams, cuStreamDestroy);
  std::vector<CUevent> events;
  std::ranges::copy_if(s.events, std::back_inserter(events),
                       [&](CUevent e) { return e->context == context; });
  std::ranges::for_each(events, cuEventDestroy);
  for (CUmod_st* module : s.modules)
    if (module->context == context) module->context = nullptr;
  std::erase_if(s.owners, [&](const auto& owner) { return owner.second == context; });
  delete context;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  select_by_program();
  ++state().primary_retained;
  *context = &state().primary;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  State& s = state();
  if (s.primary_retained && --s.primary_retained == 0) reset_primary();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  reset_primary();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (CUresult r = ready(false)) return r;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  *flags = state().primary.flags;
  *active = state().primary_retained > 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  if (CUresult r = ready(false)) return r;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (flags & ~unsigned(CU_CTX_FLAGS_MASK)) return CUDA_ERROR_INVALID_VALUE;
  state().primary.flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (CUresult r = ready(false)) return r;
  auto& stack = context_stack();
  if (!stack.empty()) stack.pop_back();
  if (!context) return CUDA_SUCCESS;
  if (!known(context)) return CUDA_ERROR_INVALID_CONTEXT;
  stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (CUresult r = ready(false)) return r;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = context_stack().empty() ? nullptr : context_stack().back();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (CUresult r = ready(false)) return r;
  if (!known(context)) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (CUresult r = ready(false)) return r;
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = context_stack().back();
  context_stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (CUresult r = ready(false)) return r;
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  if (CUresult r = ready(false)) return r;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *flags = context_stack().back()->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  if (CUresult r = ready(false)) return r;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  if (context ? !known(context) : context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;  // of contexts, since CUDA 3.2
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (CUresult r = ready()) return r;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  if (CUresult r = ready()) return r;
  ++state().synchronisations;
  return invalidate_captures() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

// The emulator enforces only the limit of the heap of malloc in kernels. Other limits are stored and
// returned.
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  if (CUresult r = ready()) return r;
  if (CUresult r = refuse_in_capture()) return r;
  // A stack is a multiple of 16 bytes and ends before 512 KiB (seen on an H200 with driver 580).
  constexpr size_t kNoStack = (512 << 10) - 16;
  const bool is_stack = limit == CU_LIMIT_STACK_SIZE;
  if (!is_limit(limit) || (is_stack && value >= kNoStack)) return CUDA_ERROR_INVALID_VALUE;
  if (is_stack) value = (value + 15) / 16 * 16;
  std::lock_guard lock(state().mutex);
  if (!state().limits.contains(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  state().limits[limit] = value;
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) state().memory->heap.limit = value;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  if (CUresult r = ready()) return r;
  if (!value || !is_limit(limit)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  const auto it = state().limits.find(limit);
  if (it == state().limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = it->second;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  if (CUresult r = ready()) return r;
  if (unsigned(config) > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = refuse_in_capture()) return r;
  context_stack().back()->cache = config;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  if (CUresult r = ready()) return r;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = context_stack().back()->cache;
  return CUDA_SUCCESS;
}
CUresult cuCtxResetPersistingL2Cache() { return ready(); }
CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  if (CUresult r = ready(false)) return r;
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  if (!context && context_stack().empty()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (context && !known(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *id = reinterpret_cast<uintptr_t>(context ? context : context_stack().back());
  return CUDA_SUCCESS;
}
