// Device memory, copies and fills. Device addresses are host addresses of one reserved range, so a copy is a
// memcpy between checked ranges.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <iterator>

#include "emulator/driver/state.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

enum class End { device, host, any };  // what the call says an address is; any: unified addressing decides

bool pinned(CUdeviceptr address, size_t bytes) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  auto next = s.pinned.upper_bound(reinterpret_cast<void*>(address));
  if (next == s.pinned.begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  const auto first = reinterpret_cast<CUdeviceptr>(begin);
  return address - first <= size && bytes <= size - (address - first);
}

// The memory behind an address; null, with a message, for a range that no allocation holds. A device address
// may also be one of pinned host memory.
std::byte* checked(CUdeviceptr address, size_t bytes, End end, const char* call) {
  GlobalMemory& memory = *state().memory;
  auto* host = reinterpret_cast<std::byte*>(address);
  if (memory.owns(address)) {
    if (memory.find(address, bytes).contains(address, bytes)) return memory.host(address);
    explain(CUDA_ERROR_INVALID_VALUE,
            fmt::format("{}: {} bytes at {:#x}: {}", call, bytes, address, memory.describe(address)));
    return nullptr;
  }
  if (end != End::device || pinned(address, bytes)) return host;
  explain(CUDA_ERROR_INVALID_VALUE,
          fmt::format("{}: {:#x} is neither a device address nor pinned host memory", call, address));
  return nullptr;
}

CUresult copy(CUdeviceptr to, End to_end, CUdeviceptr from, End from_end, size_t bytes, const char* call) {
  if (!bytes) return CUDA_SUCCESS;
  if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
  std::byte* d = checked(to, bytes, to_end, call);
  const std::byte* s = d ? checked(from, bytes, from_end, call) : nullptr;
  if (!d || !s) return CUDA_ERROR_INVALID_VALUE;
  std::memmove(d, s, bytes);
  return CUDA_SUCCESS;
}

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

template <class T>
CUresult fill(CUdeviceptr to, size_t pitch, T value, size_t width, size_t height, const char* call) {
  if (!width || !height) return CUDA_SUCCESS;
  if (to % sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  std::byte* d = checked(to, (height - 1) * pitch + width * sizeof(T), End::device, call);
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  for (size_t row = 0; row < height; ++row) {
    if constexpr (sizeof(T) == 1)
      std::memset(d + row * pitch, value, width);
    else
      std::fill_n(reinterpret_cast<T*>(d + row * pitch), width, value);
  }
  return CUDA_SUCCESS;
}

End kind_of(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST ? End::host : type == CU_MEMORYTYPE_DEVICE ? End::device : End::any;
}

CUdeviceptr end_of(CUmemorytype type, const void* host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? address(host) : device;
}

CUresult copy_2d(const CUDA_MEMCPY2D& c, const char* call) {
  for (CUmemorytype type : {c.srcMemoryType, c.dstMemoryType})
    if (type == CU_MEMORYTYPE_ARRAY)
      return explain(CUDA_ERROR_NOT_SUPPORTED, fmt::format("{}: CUDA arrays are not emulated", call));
  const CUdeviceptr from =
      end_of(c.srcMemoryType, c.srcHost, c.srcDevice) + c.srcY * c.srcPitch + c.srcXInBytes;
  const CUdeviceptr to =
      end_of(c.dstMemoryType, c.dstHost, c.dstDevice) + c.dstY * c.dstPitch + c.dstXInBytes;
  for (size_t row = 0; row < c.Height; ++row)
    if (CUresult r = copy(to + row * c.dstPitch, kind_of(c.dstMemoryType), from + row * c.srcPitch,
                          kind_of(c.srcMemoryType), c.WidthInBytes, call))
      return r;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  if (CUresult r = ready()) return r;
  if (!pointer || !bytes) return CUDA_ERROR_INVALID_VALUE;
  *pointer = state().memory->allocate(bytes);
  if (*pointer) return CUDA_SUCCESS;
  return explain(CUDA_ERROR_OUT_OF_MEMORY,
                 fmt::format("cuMemAlloc: {} bytes asked for, {} of {} in use", bytes, state().memory->used(),
                             state().memory->capacity()));
}

CUresult cuMemAllocPitch(CUdeviceptr* pointer, size_t* pitch, size_t width, size_t height, unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return cuMemAlloc(pointer, *pitch * height);
}

CUresult cuMemFree(CUdeviceptr pointer) {
  if (CUresult r = ready()) return r;
  if (!pointer || state().memory->free(pointer)) return CUDA_SUCCESS;
  return explain(CUDA_ERROR_INVALID_VALUE,
                 fmt::format("cuMemFree({:#x}): {}", pointer, state().memory->describe(pointer)));
}

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  if (!stream_of(stream)) return CUDA_ERROR_INVALID_HANDLE;
  return cuMemAlloc(pointer, bytes);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, [=] { return cuMemFree(pointer); });
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  if (CUresult r = ready()) return r;
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

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  if (CUresult r = ready()) return r;
  if (!pointer || !bytes) return CUDA_ERROR_INVALID_VALUE;
  *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*pointer) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(state().mutex);
  state().pinned[*pointer] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost(void** pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

CUresult cuMemFreeHost(void* pointer) {
  if (CUresult r = ready()) return r;
  std::lock_guard lock(state().mutex);
  if (!state().pinned.erase(pointer)) return CUDA_ERROR_INVALID_VALUE;
  std::free(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned) {
  if (CUresult r = ready()) return r;
  std::lock_guard lock(state().mutex);
  if (!state().pinned.emplace(pointer, bytes).second) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* pointer) {
  if (CUresult r = ready()) return r;
  std::lock_guard lock(state().mutex);
  return state().pinned.erase(pointer) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy(to, End::any, from, End::any, bytes, "cuMemcpy"); });
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy(to, End::any, from, End::any, bytes, "cuMemcpyAsync"); });
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy(to, End::device, address(from), End::host, bytes, "cuMemcpyHtoD"); });
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy(address(to), End::host, from, End::device, bytes, "cuMemcpyDtoH"); });
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy(to, End::device, from, End::device, bytes, "cuMemcpyDtoD"); });
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy(to, End::device, address(from), End::host, bytes, "cuMemcpyHtoDAsync"); });
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy(address(to), End::host, from, End::device, bytes, "cuMemcpyDtoHAsync"); });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                [=] { return copy(to, End::device, from, End::device, bytes, "cuMemcpyDtoDAsync"); });
}
CUresult cuMemcpy2D(const CUDA_MEMCPY2D* c) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] { return copy_2d(c, "cuMemcpy2D"); });
}
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* c) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] { return copy_2d(c, "cuMemcpy2DUnaligned"); });
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* c, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] { return copy_2d(c, "cuMemcpy2DAsync"); });
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint8_t>(to, 0, value, count, 1, "cuMemsetD8"); });
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint16_t>(to, 0, value, count, 1, "cuMemsetD16"); });
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint32_t>(to, 0, value, count, 1, "cuMemsetD32"); });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint8_t>(to, 0, value, count, 1, "cuMemsetD8Async"); });
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint16_t>(to, 0, value, count, 1, "cuMemsetD16Async"); });
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint32_t>(to, 0, value, count, 1, "cuMemsetD32Async"); });
}
CUresult cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint8_t>(to, pitch, value, width, height, "cuMemsetD2D8"); });
}
CUresult cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint32_t>(to, pitch, value, width, height, "cuMemsetD2D32"); });
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (CUresult r = ready(false)) return r;
  const bool device = state().memory->owns(pointer);
  if (!device && !state().pinned.contains(reinterpret_cast<void*>(pointer))) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = &state().primary;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (device) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(data) = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = 0;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
