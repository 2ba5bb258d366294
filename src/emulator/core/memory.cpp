#include "emulator/core/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "emulator/core/poison.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAllocationAlignment = 256;  // what cuMemAlloc promises
constexpr uint64_t kDriverAlignment = 512;      // what it gives, as seen on an H200 (2026-11-22)
constexpr uint64_t kLargePage = 2 << 20, kOwnPages = 1 << 20;  // allocations of more have pages of their own
constexpr size_t kRememberFreed = 4096;
// Preferred place of the reserved range: the same addresses in every run, and clear of the windows.
constexpr uint64_t kPreferredBase = 0x0000'0a00'0000'0000;

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

uint64_t host_memory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

GlobalMemory::GlobalMemory(uint64_t device_bytes) {
  // Twice the device's size, so that freed ranges stay unused for long and stale pointers are caught.
  reserved_ = 2 * round_up(device_bytes, kPage);
  capacity_ = std::min<uint64_t>(device_bytes, host_memory() / 10 * 9);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* p =
      mmap(reinterpret_cast<void*>(kPreferredBase), reserved_, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == MAP_FAILED) p = mmap(nullptr, reserved_, PROT_NONE, flags, -1, 0);
  if (p == MAP_FAILED)
    fail("cannot reserve {} bytes of address space for device memory: {}", reserved_, std::strerror(errno));
  base_ = static_cast<std::byte*>(p);
  uint64_t begin = reinterpret_cast<uint64_t>(base_);
  if (begin < kParamWindow + kWindowBytes && begin + reserved_ > kSharedWindow)
    fail("the system placed device memory at {:#x}, inside the windows of shared, local and param memory",
         begin);
  next_ = begin;
}

GlobalMemory::~GlobalMemory() { munmap(base_, reserved_); }

uint64_t GlobalMemory::contents(uint64_t address, size_t bytes) const {
  return XXH3_64bits(host(address), bytes);
}

size_t GlobalMemory::capacity() const { return capacity_; }

size_t GlobalMemory::used() const {
  std::shared_lock lock(mutex_);
  return used_;
}

// Addresses grow up to the end of the range; after that the gaps between live allocations are searched.
uint64_t GlobalMemory::place(uint64_t bytes) {
  const uint64_t begin = reinterpret_cast<uint64_t>(base_), end = begin + reserved_;
  if (bytes <= end - next_) {
    uint64_t a = next_;
    next_ += bytes;
    return a;
  }
  uint64_t a = begin;
  for (const auto& [from, to] : live_) {
    if (!owns(from)) continue;
    uint64_t page = from / kPage * kPage;
    if (page >= a && page - a >= bytes) return a;
    a = round_up(to, kPage) + kPage;
  }
  return a <= end && end - a >= bytes ? a : 0;
}

void GlobalMemory::refresh(void* p, size_t bytes) const {
  std::memset(p, fresh == Fresh::poison ? kPoison : 0, bytes);
}

uint64_t GlobalMemory::allocate(size_t bytes) {
  std::unique_lock lock(mutex_);
  if (bytes == 0 || bytes > capacity_ || used_ > capacity_ - bytes) return 0;
  // Every second allocation starts at an odd multiple of the guaranteed alignment. With zeroed memory
  // allocations are placed as a driver places them: programs such as Taichi rely on whole pages.
  const bool driver = fresh == Fresh::zeros, large = driver && bytes > kOwnPages;
  const uint64_t shift = large || !(allocations_ & 1) ? 0 : driver ? kDriverAlignment : kAllocationAlignment;
  const uint64_t span = round_up(bytes + shift, kPage), boundary = large ? kLargePage : kPage;
  const uint64_t room = place(span + boundary);  // followed by an unallocated page
  if (!room) return 0;
  const uint64_t page = round_up(room, boundary);
  void* host_page = reinterpret_cast<void*>(page);
  if (mprotect(host_page, span, PROT_READ | PROT_WRITE) != 0) return 0;
  if (fresh == Fresh::poison) refresh(host_page, span);  // else the system's pages are zero already
  const uint64_t begin = page + shift;
  ++allocations_;
  used_ += bytes;
  live_.emplace(begin, begin + bytes);
  for (auto it = freed_.lower_bound(page); it != freed_.end() && it->first < page + span;)
    it = freed_.erase(it);
  return begin;
}

bool GlobalMemory::free(uint64_t address) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end() || !owns(address)) return false;
  const uint64_t page = it->first / kPage * kPage, span = round_up(it->second, kPage) - page;
  madvise(reinterpret_cast<void*>(page), span, MADV_DONTNEED);
  mprotect(reinterpret_cast<void*>(page), span, PROT_NONE);
  used_ -= it->second - it->first;
  if (freed_.size() >= kRememberFreed) freed_.erase(freed_.begin());
  freed_.insert_or_assign(it->first, it->second);
  live_.erase(it);
  return true;
}

bool GlobalMemory::adopt(uint64_t address, size_t bytes) {
  std::unique_lock lock(mutex_);
  if (owns(address) || !bytes || address + bytes < address) return false;
  auto next = live_.lower_bound(address);
  if (next != live_.end() && next->first < address + bytes) return false;
  if (next != live_.begin() && std::prev(next)->second > address) return false;
  live_.emplace(address, address + bytes);
  return true;
}

bool GlobalMemory::disown(uint64_t address) {
  std::unique_lock lock(mutex_);
  return !owns(address) && live_.erase(address);
}

GlobalMemory::Range GlobalMemory::find(uint64_t address, size_t bytes) const {
  std::shared_lock lock(mutex_);
  auto it = live_.upper_bound(address);
  if (it == live_.begin()) return {};
  --it;
  Range range{it->first, it->second};
  return range.contains(address, bytes) ? range : Range{};
}

bool GlobalMemory::map_rest_of_pages(uint64_t address, size_t bytes) const {
  if (!owns(address) || !bytes || bytes > reserved_ || !owns(address + bytes - 1)) return false;
  std::shared_lock lock(mutex_);
  for (uint64_t page = address / kLargePage * kLargePage; page < address + bytes; page += kLargePage) {
    const auto behind = live_.lower_bound(page + kLargePage);
    if (behind == live_.begin() || std::prev(behind)->second <= page) return false;
  }
  const uint64_t begin = address / kPage * kPage;
  return mprotect(reinterpret_cast<void*>(begin), round_up(address + bytes, kPage) - begin,
                  PROT_READ | PROT_WRITE) == 0;
}

bool GlobalMemory::owns(uint64_t address) const {
  return address - reinterpret_cast<uint64_t>(base_) < reserved_;
}

std::string GlobalMemory::describe(uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto text = [](uint64_t begin, uint64_t end) {
    return fmt::format("allocation [{:#x}, {:#x}) of {} bytes", begin, end, end - begin);
  };
  auto at_or_before = [address](const std::map<uint64_t, uint64_t>& m) {
    auto it = m.upper_bound(address);
    return it == m.begin() ? m.end() : std::prev(it);
  };
  auto live = at_or_before(live_);
  if (live != live_.end() && address < live->second)
    return fmt::format("byte {} of the {}", address - live->first, text(live->first, live->second));
  auto dead = at_or_before(freed_);
  if (dead != freed_.end() && address < dead->second)
    return fmt::format("byte {} of the {}, which was freed", address - dead->first,
                       text(dead->first, dead->second));
  constexpr uint64_t kNear = uint64_t(1) << 30;
  auto next = live_.upper_bound(address);
  uint64_t behind = live != live_.end() ? address - live->second : ~uint64_t(0);
  uint64_t before = next != live_.end() ? next->first - address : ~uint64_t(0);
  if (std::min(behind, before) < kNear)
    return behind <= before
               ? fmt::format("{} bytes past the end of the {}", behind, text(live->first, live->second))
               : fmt::format("{} bytes before the {}", before, text(next->first, next->second));
  if (address < kPage) return "a null pointer";
  return fmt::format("not near any of the {} live allocations", live_.size());
}

}  // namespace fp4lab::emu
