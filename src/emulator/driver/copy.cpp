// Copies and fills. Device addresses are host addresses of one reserved range, so a copy is a memmove between
// checked ranges.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/driver/state.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

enum class End { device, host, any };  // the kind of address by the call; any: by unified addressing

// The host memory of an address; null, with a message, for a range that no allocation contains. A device
// address may also be one of page-locked host memory.
std::byte* checked(CUdeviceptr address, size_t bytes, End end, const char* call) {
  GlobalMemory& memory = *state().memory;
  if (memory.find(address, bytes).contains(address, bytes)) return memory.host(address);
  if (!memory.owns(address) && end != End::device) return reinterpret_cast<std::byte*>(address);
  explain(
      CUDA_ERROR_INVALID_VALUE,
      memory.owns(address)
          ? fmt::format("{}: {} bytes at {:#x}: {}", call, bytes, address, memory.describe(address))
          : fmt::format("{}: {:#x} is neither a device address nor page-locked host memory", call, address));
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
  if (to % sizeof(T) || (height > 1 && pitch < width * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
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

// The address of one end of a 2D or 3D copy: base + z slices + y rows + x bytes.
CUdeviceptr corner(CUdeviceptr base, size_t pitch, size_t height, size_t x, size_t y, size_t z) {
  return base + (z * height + y) * pitch + x;
}

CUresult copy_3d(const CUDA_MEMCPY3D& c, const char* call) {
  for (CUmemorytype type : {c.srcMemoryType, c.dstMemoryType})
    if (type == CU_MEMORYTYPE_ARRAY)
      return explain(CUDA_ERROR_NOT_SUPPORTED, fmt::format("{}: CUDA arrays are not emulated", call));
  const auto overlap = [&](size_t pitch, size_t x) {
    return c.Height > 1 && pitch && pitch < x + c.WidthInBytes;
  };
  if (overlap(c.srcPitch, c.srcXInBytes) || overlap(c.dstPitch, c.dstXInBytes))
    return explain(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: rows of {} bytes, pitches of {} and {}", call,
                                                         c.WidthInBytes, c.srcPitch, c.dstPitch));
  const CUdeviceptr from = end_of(c.srcMemoryType, c.srcHost, c.srcDevice),
                    to = end_of(c.dstMemoryType, c.dstHost, c.dstDevice);
  for (size_t z = 0; z < c.Depth; ++z)
    for (size_t y = 0; y < c.Height; ++y)
      if (CUresult r = copy(corner(to, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY + y, c.dstZ + z),
                            kind_of(c.dstMemoryType),
                            corner(from, c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY + y, c.srcZ + z),
                            kind_of(c.srcMemoryType), c.WidthInBytes, call))
        return r;
  return CUDA_SUCCESS;
}

CUresult copy_2d(const CUDA_MEMCPY2D& c, const char* call) {
  CUDA_MEMCPY3D all{};
  all.srcMemoryType = c.srcMemoryType, all.dstMemoryType = c.dstMemoryType;
  all.srcHost = c.srcHost, all.srcDevice = c.srcDevice, all.dstHost = c.dstHost, all.dstDevice = c.dstDevice;
  all.srcPitch = c.srcPitch, all.srcXInBytes = c.srcXInBytes, all.srcY = c.srcY;
  all.dstPitch = c.dstPitch, all.dstXInBytes = c.dstXInBytes, all.dstY = c.dstY;
  all.WidthInBytes = c.WidthInBytes, all.Height = c.Height, all.Depth = 1;
  return copy_3d(all, call);
}

}  // namespace

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
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] { return copy_2d(c, "cuMemcpy2D"); });
}
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* c) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] { return copy_2d(c, "cuMemcpy2DUnaligned"); });
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* c, CUstream stream) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] { return copy_2d(c, "cuMemcpy2DAsync"); });
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D* c) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] { return copy_3d(c, "cuMemcpy3D"); });
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* c, CUstream stream) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] { return copy_3d(c, "cuMemcpy3DAsync"); });
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return cuMemcpyDtoD(to, from, bytes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream handle) {
  CUstream_st* stream = stream_of(handle);
  if (stream && stream->capture) {  // not capturable (seen on an H200 with driver 580)
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return cuMemcpyDtoDAsync(to, from, bytes, handle);
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
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint8_t>(to, pitch, value, width, height, "cuMemsetD2D8Async"); });
}
CUresult cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint16_t>(to, pitch, value, width, height, "cuMemsetD2D16"); });
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint16_t>(to, pitch, value, width, height, "cuMemsetD2D16Async"); });
}
CUresult cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  return submit(nullptr, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint32_t>(to, pitch, value, width, height, "cuMemsetD2D32"); });
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                            CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET,
                [=] { return fill<uint32_t>(to, pitch, value, width, height, "cuMemsetD2D32Async"); });
}
