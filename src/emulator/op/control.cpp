// Control flow (PTX ISA 9.7.12) and the miscellaneous instructions (9.7.19, 9.7.13.13).
#include "emulator/core/machine.h"
#include "emulator/isa/opcode.h"
#include "emulator/op/builtins.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

void nothing(Warp&, const Instr&) {}

}  // namespace

Body bind_bra(Instr&, const Source&) {
  return [](Warp& w, const Instr& i) { w.branch(i, i.op[0].index, w.active); };
}

// brx.idx index, targets: each lane goes to its own entry of the list.
Body bind_brx(Instr&, const Source&) {
  return [](Warp& w, const Instr& i) {
    const auto* a = w.source<uint32_t>(i.op[0]);
    std::vector<uint32_t> targets(kLanes, kNoPc);
    for_lanes(w.active, [&](unsigned l) {
      if (a[l] >= i.op[1].count)
        fault(FaultKind::misuse, l, "brx.idx index {} is beyond the list of {} targets", a[l], i.op[1].count);
      targets[l] = w.element(i.op[1], a[l]).index;
    });
    w.branch_indexed(i, targets);
  };
}

// Functions of the module; functions without a body are the runtime's (builtins.h).
Body bind_call(Instr&, const Source&) {
  return [](Warp& w, const Instr& i) {
    const Function& callee = w.cta.cluster.grid.module.functions[i.op[0].index];
    if (callee.external)
      call_builtin(w, i, callee);
    else
      w.call(i, i.op[0].index);
  };
}
Body bind_ret(Instr&, const Source&) {
  return [](Warp& w, const Instr&) { w.ret(w.active); };
}
Body bind_exit(Instr&, const Source&) {
  return [](Warp& w, const Instr&) { w.exit(w.active); };
}
Body bind_trap(Instr&, const Source&) {
  return [](Warp& w, const Instr&) {
    fault(FaultKind::trap, unsigned(std::countr_zero(w.active)), "the kernel executed trap");
  };
}
Body bind_brkpt(Instr&, const Source&) {
  return [](Warp& w, const Instr&) {
    fault(FaultKind::trap, unsigned(std::countr_zero(w.active)),
          "the kernel executed brkpt and no debugger is attached");
  };
}

// Suspends for some time: all others may run.
Body bind_nanosleep(Instr&, const Source&) {
  return [](Warp& w, const Instr& i) {
    static_cast<void>(w.source<uint32_t>(i.op[0]));
    w.yield();
  };
}
Body bind_pmevent(Instr& i, const Source& s) {
  const int64_t event = i.op[0].displacement, last = s.has("mask") ? 0xffff : 15;
  if (event < 0 || event > last) fail("{} is not from 0 to {}", event, last);
  return nothing;
}

// Grids run one after the other, so a dependent grid finds those before it complete: only watchers are told.
static void griddepcontrol(Warp& w, const Instr& in) {
  if (Watcher* watch = w.cta.cluster.watcher) [[unlikely]]
    watch->fence(w, in);
}
Body bind_griddepcontrol(Instr&, const Source&) { return griddepcontrol; }

}  // namespace fp4lab::emu
