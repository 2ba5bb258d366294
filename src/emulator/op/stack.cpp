// A thread's stack (PTX ISA 9.7.17): it grows down from the end of a region of its local memory. A function's
// return frees its alloca memory.
#include <algorithm>
#include <bit>

#include "emulator/isa/opcode.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

template <class T>
void alloca_lanes(Warp& w, const Instr& i) {
  const auto* size = w.source<T>(i.op[1]);
  auto* d = w.target<T>(i.op[0]);
  const uint64_t align = i.aux;
  for_lanes(w.active, [&](unsigned l) {
    uint32_t& top = w.stack_top(l);
    const uint32_t base = w.stack_base();
    if (size[l] > top - base || (top - size[l]) / align * align < base)
      fault(FaultKind::misuse, l, "alloca of {} bytes: the stack has {} left", size[l], top - base);
    top = uint32_t((top - size[l]) / align * align);
    d[l] = top;
  });
}

}  // namespace

Body bind_alloca(Instr& i, const Source& s) {
  const int64_t align = i.op[2] ? i.op[2].displacement : 8;
  if (align < 1 || align > (1 << 23) || !std::has_single_bit(uint64_t(align)))
    fail("the alignment {} is not a power of two up to 2^23", align);
  i.aux = uint64_t(std::max<int64_t>(align, 8));
  return s.type() == Type::u64 ? alloca_lanes<uint64_t> : alloca_lanes<uint32_t>;
}

Body bind_stacksave(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) -> Body {
    using T = decltype(zero);
    return [](Warp& w, const Instr& i) {
      auto* d = w.target<T>(i.op[0]);
      for_lanes(w.active, [&](unsigned l) { d[l] = w.stack_top(l); });
    };
  });
}

Body bind_stackrestore(Instr&, const Source& s) {
  return with_integer(s.type(), [](auto zero) -> Body {
    using T = decltype(zero);
    return [](Warp& w, const Instr& i) {
      const auto* a = w.source<T>(i.op[0]);
      for_lanes(w.active, [&](unsigned l) {
        uint32_t& top = w.stack_top(l);
        if (uint64_t(a[l]) < top || uint64_t(a[l]) > w.stack_base() + Function::kStackBytes)
          fault(FaultKind::misuse, l, "stackrestore of {:#x}, which no stacksave returned", uint64_t(a[l]));
        top = uint32_t(a[l]);
      });
    };
  });
}

}  // namespace fp4lab::emu
