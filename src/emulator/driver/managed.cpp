// Managed memory: host and device share one memory, so advice and prefetches move nothing; they are checked
// and stored for queries.
#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

CUresult check(CUmemLocation where) {
  switch (where.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return where.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// In the form in which the attributes return it.
int ordinal(CUmemLocation where) {
  return where.type == CU_MEM_LOCATION_TYPE_DEVICE ? where.id : CU_DEVICE_CPU;
}

// Calls `body` for the managed memory that contains [p, p + bytes). For ordinary host memory, which these
// calls allow too, nothing is stored or refused.
template <class Body>
CUresult with_managed(CUdeviceptr p, size_t bytes, Body&& body) {
  if (CUresult r = ready()) return r;
  std::lock_guard lock(state().mutex);
  HostMemory* memory = host_memory(p);
  const auto range = state().memory->find(p, 1);
  const bool is_device = range.begin != range.end && !memory;
  if (!p || !bytes || is_device || (memory && p + bytes > range.end)) return CUDA_ERROR_INVALID_VALUE;
  return memory && memory->kind == HostMemory::managed ? body(*memory) : CUDA_SUCCESS;
}

}  // namespace

extern "C" {
#undef cuMemPrefetchAsync
#undef cuMemAdvise
CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr p, size_t bytes, CUmemLocation where, unsigned flags,
                                       CUstream handle) {
  if (CUresult r = ready()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {  // not capturable
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check(where)) return r;
  return with_managed(p, bytes, [&](HostMemory& m) {
    m.last_prefetch = ordinal(where);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUmemLocation where) {
  if (CUresult r = ready()) return r;
  if (CUresult r = refuse_in_capture()) return r;
  if (CUresult r = check(where)) return r;
  return with_managed(p, bytes, [&](HostMemory& m) {
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        m.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return CUDA_SUCCESS;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        m.preferred = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? ordinal(where) : CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
      case CU_MEM_ADVISE_SET_ACCESSED_BY:
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        if (ordinal(where) == 0) m.accessed_by_device = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}
}

CUresult cuMemRangeGetAttribute(void* data, size_t data_bytes, CUmem_range_attribute attribute, CUdeviceptr p,
                                size_t bytes) {
  if (CUresult r = ready()) return r;
  if (!data || data_bytes % 4 || !data_bytes) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && data_bytes != 4) return CUDA_ERROR_INVALID_VALUE;
  return with_managed(p, bytes, [&](const HostMemory& m) {
    int* values = static_cast<int*>(data);
    switch (attribute) {
      case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *values = m.read_mostly;
        return CUDA_SUCCESS;
      case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *values = m.preferred;
        return CUDA_SUCCESS;
      case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *values = m.last_prefetch;
        return CUDA_SUCCESS;
      case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        for (size_t i = 0; i < data_bytes / 4; ++i)
          values[i] = i == 0 && m.accessed_by_device ? 0 : CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}
CUresult cuMemRangeGetAttributes(void** data, size_t* data_bytes, CUmem_range_attribute* attributes,
                                 size_t count, CUdeviceptr p, size_t bytes) {
  if (CUresult r = ready()) return r;
  if (!data || !data_bytes || !attributes || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (CUresult r = cuMemRangeGetAttribute(data[i], data_bytes[i], attributes[i], p, bytes)) return r;
  return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr p, size_t, unsigned flags) {
  if (CUresult r = ready()) return r;
  if (!stream_of(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = refuse_in_capture()) return r;
  if (!flags || (flags & (flags - 1)) || flags > CU_MEM_ATTACH_SINGLE) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  const HostMemory* memory = host_memory(p);
  return memory && memory->kind == HostMemory::managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
