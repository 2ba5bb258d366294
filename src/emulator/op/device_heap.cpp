#include "emulator/op/device_heap.h"

#include "emulator/core/memory.h"

namespace fp4lab::emu {

uint64_t device_malloc(GlobalMemory& memory, uint64_t bytes) {
  GlobalMemory::Heap& heap = memory.heap;
  const uint64_t room = (bytes + 15) / 16 * 16;
  if (bytes == 0 || room < bytes || heap.used > heap.limit || room > heap.limit - heap.used) return 0;
  const uint64_t at = memory.allocate(room);
  if (!at) return 0;
  heap.used += room;
  heap.blocks[at] = room;
  return at;
}

bool device_free(GlobalMemory& memory, uint64_t address) {
  if (!address) return true;
  GlobalMemory::Heap& heap = memory.heap;
  const auto block = heap.blocks.find(address);
  if (block == heap.blocks.end()) return false;
  heap.used -= block->second;
  heap.blocks.erase(block);
  return memory.free(address);
}

}  // namespace fp4lab::emu
