// Virtual memory: address reservations, memory handles and mappings. Memory is an unnamed file of the host,
// so that it can be mapped at several addresses. Kernels and copies can access mapped memory that is set
// accessible; adjacent mappings are one range for them, as on a device.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

constexpr size_t kGranularity = 2 << 20;  // of a B200 and an H200

struct Memory {
  int file;
  size_t bytes;
  CUmemAllocationProp properties;
  Memory(int f, size_t n, const CUmemAllocationProp& p) : file(f), bytes(n), properties(p) {}
  Memory(const Memory&) = delete;
  ~Memory() { close(file); }
};

struct Mapping {
  size_t bytes;
  std::shared_ptr<Memory> memory;
  bool accessible = false;
};

struct VirtualMemory {
  std::map<CUdeviceptr, size_t> reserved;
  std::map<CUdeviceptr, Mapping> mapped;
  std::map<CUmemGenericAllocationHandle, std::pair<std::shared_ptr<Memory>, unsigned>> handles;  // references
  std::vector<CUdeviceptr> ranges;  // that GlobalMemory knows now

  Mapping* at(CUdeviceptr address) {
    auto it = mapped.upper_bound(address);
    if (it == mapped.begin()) return nullptr;
    --it;
    return address - it->first < it->second.bytes ? &it->second : nullptr;
  }

  bool is_reserved(CUdeviceptr address, size_t bytes) const {
    auto room = reserved.upper_bound(address);
    return room != reserved.begin() && address + bytes <= (--room)->first + room->second;
  }

  // Tells GlobalMemory what is accessible: runs of accessible mappings without a gap.
  void publish() {
    fp4lab::emu::GlobalMemory& memory = *state().memory;
    for (const CUdeviceptr begin : ranges) memory.disown(begin);
    ranges.clear();
    for (auto it = mapped.begin(); it != mapped.end();) {
      const CUdeviceptr begin = it->first;
      CUdeviceptr end = begin;
      for (; it != mapped.end() && it->first == end && it->second.accessible; ++it) end += it->second.bytes;
      if (end == begin)
        ++it;
      else if (memory.adopt(begin, end - begin))
        ranges.push_back(begin);
    }
  }
};

VirtualMemory& virtual_memory() {
  static VirtualMemory v;
  return v;
}

// A refusal with the values concerned.
template <class... Values>
CUresult invalid(fmt::format_string<Values...> text, Values&&... values) {
  return explain(CUDA_ERROR_INVALID_VALUE, fmt::format(text, std::forward<Values>(values)...));
}

void* host(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// The frame of every entry point: initialises the driver and locks the tables. Virtual memory belongs to no
// context, so a thread without one may use it (seen on an H100 with driver 580).
template <class Body>
CUresult with_tables(Body body) {
  if (CUresult r = ready_anywhere()) return r;
  std::lock_guard lock(state().mutex);
  return body(virtual_memory());
}

// [address, address + bytes) must be covered by whole mappings; calls `body` with each.
template <class Body>
CUresult for_mappings(VirtualMemory& v, CUdeviceptr address, size_t bytes, Body body) {
  size_t covered = 0;
  const auto first = v.mapped.lower_bound(address);
  for (auto it = first; it != v.mapped.end() && it->first == address + covered && covered < bytes; ++it)
    covered += it->second.bytes;
  if (!bytes || covered != bytes)
    return invalid("{:#x} and {} bytes are not whole mappings: {} bytes are mapped from there", address,
                   bytes, covered);
  for (auto it = first; it != v.mapped.end() && it->first < address + bytes;) {
    const auto here = it++;
    if (CUresult r = body(here)) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags which) {
  if (CUresult r = ready(false)) return r;
  if (!bytes || !properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      unsigned(which) > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  return with_tables([&](VirtualMemory& v) {
    if (!pointer || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!bytes || bytes % kGranularity)
      return invalid("cuMemAddressReserve: {} bytes, must be a multiple of {}", bytes, kGranularity);
    if (alignment & (alignment - 1))
      return invalid("cuMemAddressReserve: alignment {}, must be a power of two or 0", alignment);
    const size_t align = std::max(alignment, kGranularity), room = bytes + align;
    void* p = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto begin = reinterpret_cast<CUdeviceptr>(p), first = (begin + align - 1) / align * align;
    if (first > begin) munmap(p, first - begin);
    munmap(host(first + bytes), begin + room - first - bytes);
    v.reserved[*pointer = first] = bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  return with_tables([&](VirtualMemory& v) {
    const auto it = v.reserved.find(pointer);
    if (it == v.reserved.end() || it->second != bytes)
      return invalid("cuMemAddressFree: {} bytes at {:#x} are not a range returned by cuMemAddressReserve",
                     bytes, pointer);
    if (const auto m = v.mapped.lower_bound(pointer); m != v.mapped.end() && m->first < pointer + bytes)
      return invalid("cuMemAddressFree: memory is still mapped at {:#x}", m->first);
    munmap(host(pointer), bytes);
    v.reserved.erase(it);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  return with_tables([&](VirtualMemory& v) {
    if (!handle || !properties || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!bytes || bytes % kGranularity)
      return invalid("cuMemCreate: {} bytes, must be a multiple of {}", bytes, kGranularity);
    if (bytes > state().memory->capacity() - state().memory->used()) return CUDA_ERROR_OUT_OF_MEMORY;
    const int file = memfd_create("fp4lab", MFD_CLOEXEC);
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    auto memory = std::make_shared<Memory>(file, bytes, *properties);
    void* p = ftruncate(file, off_t(bytes))
                  ? MAP_FAILED
                  : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    state().memory->refresh(p, bytes);
    munmap(p, bytes);
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(memory.get());
    v.handles[*handle] = {std::move(memory), 1};
    return CUDA_SUCCESS;
  });
}

// The memory itself lives as long as it is mapped.
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return with_tables([&](VirtualMemory& v) {
    const auto it = v.handles.find(handle);
    if (it == v.handles.end()) return invalid("cuMemRelease: {:#x} is not a memory handle", handle);
    if (!--it->second.second) v.handles.erase(it);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return with_tables([&](VirtualMemory& v) {
    const Mapping* m = v.at(reinterpret_cast<CUdeviceptr>(address));
    if (!m || !handle) return CUDA_ERROR_INVALID_VALUE;
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(m->memory.get());
    auto& [memory, references] = v.handles[*handle];
    memory = m->memory;
    ++references;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  return with_tables([&](VirtualMemory& v) {
    const auto it = v.handles.find(handle);
    if (it == v.handles.end() || !properties) return CUDA_ERROR_INVALID_VALUE;
    *properties = it->second.first->properties;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  return with_tables([&](VirtualMemory& v) {
    const auto it = v.handles.find(handle);
    if (it == v.handles.end()) return invalid("cuMemMap: {:#x} is not a memory handle", handle);
    if (offset || bytes != it->second.first->bytes)  // CUDA Driver API, cuMemMap
      return explain(CUDA_ERROR_NOT_SUPPORTED,
                     fmt::format("cuMemMap: offset {} and {} bytes, must be 0 and all {} bytes of the handle",
                                 offset, bytes, it->second.first->bytes));
    if (pointer % kGranularity || !v.is_reserved(pointer, bytes))
      return invalid("cuMemMap: {} bytes at {:#x}: not at a multiple of {} within a reserved range", bytes,
                     pointer, kGranularity);
    const auto next = v.mapped.lower_bound(pointer);
    if (v.at(pointer) || (next != v.mapped.end() && next->first < pointer + bytes))
      return invalid("cuMemMap: something is mapped in the {} bytes at {:#x}", bytes, pointer);
    if (mmap(host(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, it->second.first->file, 0) ==
        MAP_FAILED)
      return CUDA_ERROR_OUT_OF_MEMORY;
    v.mapped[pointer] = {bytes, it->second.first};
    return CUDA_SUCCESS;
  });
}

// Whole mappings of a reserved range; unmapped parts are ignored (seen on an H200 with driver 580).
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  return with_tables([&](VirtualMemory& v) {
    const CUdeviceptr end = pointer + bytes;
    if (!v.is_reserved(pointer, bytes))
      return invalid("cuMemUnmap: {} bytes at {:#x} are not within a reserved range", bytes, pointer);
    for (const CUdeviceptr edge : {pointer, end})
      if (const Mapping* m = v.at(edge); m && !v.mapped.contains(edge))
        return invalid("cuMemUnmap: {:#x} lies within a mapping of {} bytes", edge, m->bytes);
    const auto first = v.mapped.lower_bound(pointer), last = v.mapped.lower_bound(end);
    for (auto it = first; it != last; ++it)
      mmap(host(it->first), it->second.bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    v.mapped.erase(first, last);
    v.publish();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  return with_tables([&](VirtualMemory& v) {
    if (!access || count != 1 || access->location.type == CU_MEM_LOCATION_TYPE_INVALID ||
        access->location.id != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
      return explain(CUDA_ERROR_NOT_SUPPORTED, "cuMemSetAccess: read-only memory is not emulated");
    const bool open = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const CUresult r = for_mappings(v, pointer, bytes, [&](auto it) {
      it->second.accessible = open;
      return mprotect(host(it->first), it->second.bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE)
                 ? CUDA_ERROR_OUT_OF_MEMORY
                 : CUDA_SUCCESS;
    });
    v.publish();
    return r;
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  return with_tables([&](VirtualMemory& v) {
    const Mapping* m = v.at(pointer);
    if (!m || !flags || !location) return CUDA_ERROR_INVALID_VALUE;
    *flags = m->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}
