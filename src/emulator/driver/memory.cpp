// Device and host memory, pools, and pointer attributes. Device addresses are host addresses of one reserved
// range; page-locked host memory comes from the same range, so that kernels reach it at the host's address.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/driver/state.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

// Device memory of the current context.
CUresult allocate_owned(CUdeviceptr* pointer, size_t bytes, const char* call) {
  if (CUresult r = allocate_device(pointer, bytes, call)) return r;
  std::lock_guard lock(state().mutex);
  state().owners[*pointer] = context_stack().back();
  return CUDA_SUCCESS;
}

CUresult allocate_host(CUdeviceptr* pointer, size_t bytes, HostMemory kind, const char* call) {
  if (CUresult r = ready()) return r;
  if (CUresult r = refuse_in_capture()) return r;
  if (CUresult r = allocate_owned(pointer, bytes, call)) return r;
  kind.bytes = bytes;
  std::lock_guard lock(state().mutex);
  state().host_memory[*pointer] = kind;
  return CUDA_SUCCESS;
}

// The module with a variable at that address, or null.
const CUmod_st* module_with(CUdeviceptr address) {
  const auto& modules = state().modules;
  const auto it = std::ranges::find_if(modules, [address](const CUmod_st* m) {
    return std::ranges::any_of(
        m->globals, [address](const auto& g) { return address - g.second.address < g.second.size; });
  });
  return it == modules.end() ? nullptr : *it;
}

// The context of the memory that begins at `begin`; null: no context's, as for pools and virtual memory (seen
// on an H100 with driver 580). A library's variables belong to every context, so the current one is returned.
CUcontext owner_of(CUdeviceptr pointer, CUdeviceptr begin) {
  State& s = state();
  if (const auto it = s.owners.find(begin); it != s.owners.end()) return it->second;
  const CUmod_st* module = module_with(pointer);
  if (!module) return nullptr;
  if (module->context) return module->context;
  return context_stack().empty() ? &s.primary : context_stack().back();
}

}  // namespace

namespace fp4lab::emu::driver {

HostMemory* host_memory(CUdeviceptr address) {
  auto& all = state().host_memory;
  auto next = all.upper_bound(address);
  if (next == all.begin()) return nullptr;
  auto& [begin, memory] = *std::prev(next);
  return address - begin < memory.bytes ? &memory : nullptr;
}

CUresult allocate_device(CUdeviceptr* pointer, size_t bytes, const char* call) {
  if (CUresult r = ready_anywhere()) return r;
  if (!pointer || !bytes) return CUDA_ERROR_INVALID_VALUE;
  *pointer = state().memory->allocate(bytes);
  if (*pointer) return CUDA_SUCCESS;
  return explain(CUDA_ERROR_OUT_OF_MEMORY, fmt::format("{}: {} bytes requested, {} of {} in use", call, bytes,
                                                       state().memory->used(), state().memory->capacity()));
}

CUresult free_device(CUdeviceptr pointer) {
  if (CUresult r = ready_anywhere()) return r;
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (module_with(pointer))
    return explain(CUDA_ERROR_INVALID_VALUE, fmt::format("cuMemFree({:#x}): a module's variable", pointer));
  if (auto it = s.host_memory.find(pointer); it != s.host_memory.end()) {
    if (it->second.kind != HostMemory::managed)
      return explain(CUDA_ERROR_INVALID_VALUE,
                     fmt::format("cuMemFree({:#x}): page-locked host memory", pointer));
    s.host_memory.erase(it);
  }
  leave_pool(pointer);
  s.owners.erase(pointer);
  if (s.graph_memory.contains(pointer) || s.memory->free(pointer)) return CUDA_SUCCESS;
  return explain(CUDA_ERROR_INVALID_VALUE,
                 fmt::format("cuMemFree({:#x}): {}", pointer, state().memory->describe(pointer)));
}

}  // namespace fp4lab::emu::driver

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  if (CUresult r = ready()) return r;
  if (CUresult r = refuse_in_capture()) return r;
  return allocate_owned(pointer, bytes, "cuMemAlloc");
}

CUresult cuMemAllocPitch(CUdeviceptr* pointer, size_t* pitch, size_t width, size_t height, unsigned element) {
  if (CUresult r = ready()) return r;
  if (!pitch || (element != 4 && element != 8 && element != 16)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = refuse_in_capture()) return r;
  *pitch = (width + 511) / 512 * 512;
  return allocate_owned(pointer, *pitch * height, "cuMemAllocPitch");
}

// In the memory's own context, whichever is current (seen on an H100, 2026-11-26).
CUresult cuMemFree(CUdeviceptr pointer) {
  if (CUresult r = ready_anywhere()) return r;
  if (!pointer) return CUDA_SUCCESS;
  if (CUresult r = refuse_in_capture()) return r;
  return free_device(pointer);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  const CUstream_st* s = stream_of(stream);
  if (CUresult r = ready_on(s)) return r;
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!pointer) return CUDA_SUCCESS;
  if (s->capture) {  // becomes a node that frees another node's allocation
    std::lock_guard lock(state().mutex);
    if (!state().graph_memory.contains(pointer)) return CUDA_ERROR_INVALID_VALUE;
  } else if (CUresult r = refuse_in_capture()) {
    return r;
  }
  return submit(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, {[=] { return free_device(pointer); }, pointer});
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  if (CUresult r = ready()) return r;
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  *total = state().memory->capacity();
  *free = *total - state().memory->used();
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  if (CUresult r = ready()) return r;
  const auto range = state().memory->find(pointer, 1);
  if (range.begin == range.end) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = range.begin;
  if (bytes) *bytes = range.end - range.begin;
  return CUDA_SUCCESS;
}

// Managed memory is device memory, which the host can access at its address anyway.
CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return allocate_host(pointer, bytes, {0, HostMemory::managed, flags}, "cuMemAllocManaged");
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!pointer || (flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
  *pointer = nullptr;
  if (!bytes) return ready();
  return allocate_host(reinterpret_cast<CUdeviceptr*>(pointer), bytes, {0, HostMemory::page_locked, flags},
                       "cuMemHostAlloc");
}

CUresult cuMemAllocHost(void** pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

CUresult cuMemFreeHost(void* pointer) {
  if (CUresult r = ready_anywhere()) return r;
  if (!pointer) return CUDA_SUCCESS;
  if (CUresult r = refuse_in_capture()) return r;
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto it = s.host_memory.find(reinterpret_cast<CUdeviceptr>(pointer));
  if (it == s.host_memory.end() || it->second.kind != HostMemory::page_locked)
    return CUDA_ERROR_INVALID_VALUE;
  s.memory->free(it->first);
  s.owners.erase(it->first);
  s.host_memory.erase(it);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  if (CUresult r = ready()) return r;
  constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                              CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  if (!pointer || !bytes || address + bytes < address || (flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = refuse_in_capture()) return r;
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.memory->adopt(address, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  s.host_memory[address] = {bytes, HostMemory::registered, flags};
  s.owners[address] = context_stack().back();
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* pointer) {
  if (CUresult r = ready_anywhere()) return r;
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = refuse_in_capture()) return r;
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto it = s.host_memory.find(reinterpret_cast<CUdeviceptr>(pointer));
  if (it == s.host_memory.end() || it->second.kind != HostMemory::registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  s.memory->disown(it->first);
  s.owners.erase(it->first);
  s.host_memory.erase(it);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned flags) {
  if (CUresult r = ready()) return r;
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (!device || !host_memory(reinterpret_cast<CUdeviceptr>(host))) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* host) {
  if (CUresult r = ready()) return r;
  std::lock_guard lock(state().mutex);
  const HostMemory* memory = host_memory(reinterpret_cast<CUdeviceptr>(host));
  if (!flags || !memory) return CUDA_ERROR_INVALID_VALUE;
  *flags = memory->flags;
  return CUDA_SUCCESS;
}

static CUresult not_emulated(CUpointer_attribute attribute) {
  return explain(CUDA_ERROR_NOT_SUPPORTED,
                 fmt::format("cuPointerGetAttribute: attribute {} is not emulated", int(attribute)));
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (CUresult r = ready(false)) return r;
  State& s = state();
  std::lock_guard lock(s.mutex);
  const HostMemory* memory = host_memory(pointer);
  const bool managed = memory && memory->kind == HostMemory::managed, host = memory && !managed;
  const GlobalMemory::Range range = s.memory->find(pointer, 1);
  if (!data || range.begin == range.end) return CUDA_ERROR_INVALID_VALUE;
  if (attribute <= 0 || attribute > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = owner_of(pointer, range.begin);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!memory) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(data) = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = managed;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = 0;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = range.begin;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = range.end - range.begin;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned*>(data) = 1;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:  // unique to an allocation while it lives
      *static_cast<unsigned long long*>(data) = range.begin;
      break;
    default:
      return not_emulated(attribute);
  }
  return CUDA_SUCCESS;
}
// For a pointer to unknown memory each attribute is 0, or no device, in its own size.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr pointer) {
  if (CUresult r = ready(false)) return r;
  if (!count || !attributes || !data || std::find(data, data + count, nullptr) != data + count)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const CUresult r = cuPointerGetAttribute(data[i], attributes[i], pointer);
    if ((r && r != CUDA_ERROR_INVALID_VALUE) || attributes[i] <= 0) return r;
    if (!r) continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_MAPPED:
        *static_cast<unsigned*>(data[i]) = 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(data[i]) = CU_DEVICE_INVALID;
        break;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<uint64_t*>(data[i]) = 0;
        break;
      default:
        return not_emulated(attributes[i]);
    }
  }
  return CUDA_SUCCESS;
}
