#include "emulator/ptxas/read_behind.h"

#include <algorithm>

namespace fp4lab::emu {

bool is_read_behind(const Function& f, const Dataflow& flow, uint32_t pc, uint32_t reg) {
  if (reg == Dataflow::kNone) return false;
  const uint32_t block = flow.block_of(pc);
  while (++pc < flow.blocks()[block].end) {
    const Dataflow::Access& access = flow.access(pc);
    if (!flow.is_dead(pc) && std::ranges::find(access.reads, reg) != access.reads.end()) return true;
    const bool writes = std::ranges::find(access.writes, reg) != access.writes.end();
    if (writes && f.code[pc].guard < 0) return false;
  }
  return flow.lives_behind(block, reg);
}

}  // namespace fp4lab::emu
