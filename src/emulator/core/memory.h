// Address spaces. Device (global) memory is one reserved range of the host's address space, so a device
// address is a host address. Every access is still checked against the live allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace fp4lab::emu {

// Windows of the generic address space; anything else is global.
constexpr uint64_t kSharedWindow =
    0x0000'0100'0000'0000;  // + (rank << 24) + offset: the 32-bit shared address
constexpr uint64_t kLocalWindow = 0x0000'0200'0000'0000;  // + address in the lane's local memory
constexpr uint64_t kParamWindow = 0x0000'0300'0000'0000;  // + offset in the kernel's parameter block
constexpr uint64_t kCodeWindow = 0x0000'0400'0000'0000;   // addresses of functions; nothing can be read there
constexpr uint64_t kWindowBytes = 0x0000'0001'0000'0000;

// Shared memory as a 32-bit address: bits 31:24 the CTA's rank in its cluster, bits 23:0 the offset in that
// CTA's window. The first kReservedShared bytes belong to the system (seen on an H200: the first static
// variable is at 0x400).
constexpr uint32_t kReservedShared = 0x400;
constexpr uint32_t kLentShared = 288;  // of these, what %reserved_smem_offset_* lend to programs (H200)
constexpr unsigned kRankShift = 24;

// A thread's local memory ends here and its stack grows down from here, so small numbers are no valid
// addresses in it (seen on an H200, driver 580: a frame of n bytes begins at 0xfffdc0 - n).
constexpr uint32_t kLocalTop = 0xff'fdc0;

class GlobalMemory {
 public:
  // Reserves address space for a device of that many bytes. The host's memory also limits what can be
  // allocated.
  explicit GlobalMemory(uint64_t device_bytes = uint64_t(180) << 30);
  // Content of fresh memory: a poison that shows in results, or zeros, as in pages that are new to a program
  // on a real device.
  enum class Fresh : uint8_t { poison, zeros } fresh = Fresh::poison;
  void refresh(void* p, size_t bytes) const;  // fills it like fresh memory
  ~GlobalMemory();
  GlobalMemory(const GlobalMemory&) = delete;

  uint64_t allocate(size_t bytes);  // 256-byte aligned, fresh; 0 when the device's memory is used up
  bool free(uint64_t address);      // false: not the start of a live allocation (freed before, or never made)
  // Memory of the host that kernels may access at its own address (cuMemHostRegister); false if a live range
  // overlaps it, or is not one that was adopted.
  bool adopt(uint64_t address, size_t bytes);
  bool disown(uint64_t address);
  size_t capacity() const;
  size_t used() const;

  struct Range {
    uint64_t begin = 0, end = 0;
    bool contains(uint64_t a, uint64_t n) const {
      return a >= begin && n <= end - begin && a - begin <= end - begin - n;
    }
  };
  // The live allocation that holds [address, address + bytes), or an empty range. Callers keep the range and
  // ask again only when it does not contain the next access (Warp does).
  Range find(uint64_t address, size_t bytes) const;
  // Whether a device would read [address, address + bytes) without a fault: it maps memory by pages of 2 MiB
  // (an H200's driver), and each page touched holds part of a live allocation. If so, the bytes are readable
  // here from now on.
  bool map_rest_of_pages(uint64_t address, size_t bytes) const;
  // For messages: "16 bytes past the end of the allocation [0x..., 0x...) of 4096 bytes".
  std::string describe(uint64_t address) const;
  bool owns(uint64_t address) const;  // inside the reserved range of device addresses, allocated or not
  uint64_t contents(uint64_t address, size_t bytes) const;  // a hash of them
  std::byte* host(uint64_t address) const { return reinterpret_cast<std::byte*>(address); }
  // Constant variables lie in device memory too. An address in .const space counts from the beginning of this
  // area, so it is not a generic address, as on hardware, where it counts from the beginning of a bank.
  uint64_t constants() const { return reinterpret_cast<uint64_t>(base_); }

  // State of malloc and free in kernels (op/device_heap.h); the limit is cudaLimitMallocHeapSize.
  struct Heap {
    uint64_t limit = 8 << 20, used = 0;
    std::map<uint64_t, uint64_t> blocks;  // address -> bytes
  } heap;

 private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, uint64_t> live_;   // begin -> end
  std::map<uint64_t, uint64_t> freed_;  // recently freed, for describe(); begin -> end
  std::byte* base_ = nullptr;
  size_t reserved_ = 0, used_ = 0, capacity_ = 0;
  uint64_t next_ = 0, allocations_ = 0;
  uint64_t place(uint64_t bytes);  // room for that many bytes and a gap after them; 0 = none
};

}  // namespace fp4lab::emu
