// Kernels made by hand, instruction by instruction, for tests of the core that must not depend on the parser
// or on the real instruction bodies.
#pragma once

#include <string>
#include <vector>

#include "emulator/core/machine.h"

namespace fp4lab::emu::hand {

struct Kernel {
  Module module;
  uint32_t rows = 0, predicates = 1;
  std::vector<std::pair<uint32_t, uint64_t>> constants_made;

  Kernel() {
    module.name = "hand.ptx";
    module.functions.emplace_back();
    f().name = "hand";
    f().entry = true;
  }
  Function& f(unsigned k = 0) { return module.functions[k]; }

  Operand reg(const std::string& name, Type type = Type::u32) {
    Operand o;
    o.kind = Operand::Kind::value;
    o.type = type;
    o.offset = rows;
    rows += bits_of(type) == 64 ? 256 : 128;
    f().register_names.push_back({o.offset, name});
    return o;
  }
  Operand pred(const std::string& name) {
    Operand o;
    o.kind = Operand::Kind::predicate;
    o.index = predicates++;
    f().predicate_names.push_back({o.index, name});
    return o;
  }
  Operand special(FixedSpecial s) {
    Operand o = reg("%special");
    f().constants.push_back({o.offset, Row::What::special, static_cast<uint64_t>(s)});
    return o;
  }
  Operand imm(uint32_t v) {
    Operand o = reg("imm");
    o.immediate = true;
    o.displacement = v;
    f().constants.push_back({o.offset, Row::What::bits32, v});
    return o;
  }
  static Operand address(const Operand& base, int64_t displacement = 0) {
    Operand o = base;
    o.kind = Operand::Kind::address;
    o.has_base = true;
    o.displacement = displacement;
    return o;
  }
  static Operand at(int64_t displacement) {
    Operand o;
    o.kind = Operand::Kind::address;
    o.displacement = displacement;
    return o;
  }

  Instr& add(const char* text, Body body, std::initializer_list<Operand> ops = {}, unsigned function = 0) {
    Function& fn = f(function);
    Instr& i = fn.code.emplace_back();
    i.body = body;
    i.pc = static_cast<uint32_t>(fn.code.size() - 1);
    unsigned k = 0;
    for (const Operand& o : ops) i.op[k++] = o;
    Source& s = fn.source.emplace_back();
    module.text += std::string("  ") + text + "\n";
    s.line = ++lines;
    s.column = 3;
    s.function = function;
    return i;
  }
  static void guard(Instr& i, const Operand& p, bool negated = false) {
    i.guard = static_cast<int32_t>(p.index);
    i.guard_negated = negated;
  }
  uint32_t here(unsigned function = 0) { return static_cast<uint32_t>(f(function).code.size()); }

  LaunchResult run(LaunchConfig config = {}, Schedule schedule = {}, GlobalMemory* memory = nullptr,
                   Watcher* watcher = nullptr) {
    f().register_bytes = rows;
    f().predicate_count = predicates;
    GlobalMemory own(1 << 20);
    return launch(module, f(), config, *device_model("b200"), memory ? *memory : own, schedule, watcher);
  }
  uint32_t lines = 0;
};

// --- bodies: op[0] is the destination
inline void mov(Warp& w, const Instr& i) {
  auto* a = w.source<uint32_t>(i.op[1]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = a[l]; });
}
inline void add(Warp& w, const Instr& i) {
  auto *a = w.source<uint32_t>(i.op[1]), *b = w.source<uint32_t>(i.op[2]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = a[l] + b[l]; });
}
inline void less(Warp& w, const Instr& i) {
  auto *a = w.source<uint32_t>(i.op[1]), *b = w.source<uint32_t>(i.op[2]);
  uint32_t m = 0;
  for_lanes(w.active, [&](unsigned l) { m |= uint32_t(a[l] < b[l]) << l; });
  w.set_mask(i.op[0], m);
}
inline void equal(Warp& w, const Instr& i) {
  auto *a = w.source<uint32_t>(i.op[1]), *b = w.source<uint32_t>(i.op[2]);
  uint32_t m = 0;
  for_lanes(w.active, [&](unsigned l) { m |= uint32_t(a[l] == b[l]) << l; });
  w.set_mask(i.op[0], m);
}
inline void bra(Warp& w, const Instr& i) { w.branch(i, i.op[0].index, w.active); }
inline void call(Warp& w, const Instr& i) { w.call(i, i.op[0].index); }
inline void ret(Warp& w, const Instr&) { w.ret(w.active); }
inline void exit(Warp& w, const Instr&) { w.exit(w.active); }
inline void full(Warp& w, const Instr& i) { w.require_full(i); }
// d = number of lanes that execute together; op[1] = member mask (immediate)
inline void gather(Warp& w, const Instr& i) {
  if (!w.converge(i, static_cast<uint32_t>(i.op[1].displacement))) return;
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = static_cast<uint32_t>(std::popcount(w.active)); });
}
inline void together(Warp& w, const Instr& i) {  // the same without waiting
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = static_cast<uint32_t>(std::popcount(w.active)); });
}
template <Space kSpace, bool kVolatile = false>
void store(Warp& w, const Instr& i) {  // [op0] = op1
  auto* v = w.source<uint32_t>(i.op[1]);
  for_lanes(w.active, [&](unsigned l) {
    std::memcpy(w.memory(i, kSpace, AccessKind::write, w.address(i.op[0], l), 4, l, kVolatile), &v[l], 4);
  });
}
template <Space kSpace, bool kVolatile = false>
void load(Warp& w, const Instr& i) {  // op0 = [op1]
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    std::memcpy(&d[l], w.memory(i, kSpace, AccessKind::read, w.address(i.op[1], l), 4, l, kVolatile), 4);
  });
  if (kVolatile) w.yield();
}
inline void atom_add(Warp& w, const Instr& i) {  // op0 = [op1] += op2, global
  if (!w.in_serial_phase()) return w.block({.kind = Wait::Kind::serial});
  auto* v = w.source<uint32_t>(i.op[2]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    std::byte* p = w.memory(i, Space::global, AccessKind::atomic, w.address(i.op[1], l), 4, l, true);
    uint32_t old;
    std::memcpy(&old, p, 4);
    uint32_t next = old + v[l];
    std::memcpy(p, &next, 4);
    d[l] = old;
  });
}
inline void load_acquire(Warp& w, const Instr& i) {
  if (!w.in_serial_phase()) return w.block({.kind = Wait::Kind::serial});
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    std::memcpy(&d[l], w.memory(i, Space::global, AccessKind::read, w.address(i.op[1], l), 4, l, true), 4);
  });
}
// The same for all lanes at once
template <Space kSpace>
void store_all(Warp& w, const Instr& i) {
  auto* v = w.source<uint32_t>(i.op[1]);
  uint64_t a[kLanes];
  for_lanes(w.active, [&](unsigned l) { a[l] = w.address(i.op[0], l); });
  const Warp::Places p = w.memory(i, kSpace, AccessKind::write, a, 4);
  for_lanes(w.active, [&](unsigned l) { std::memcpy(p[l], &v[l], 4); });
}
template <Space kSpace>
void load_all(Warp& w, const Instr& i) {
  auto* d = w.target<uint32_t>(i.op[0]);
  uint64_t a[kLanes];
  for_lanes(w.active, [&](unsigned l) { a[l] = w.address(i.op[1], l); });
  const Warp::Places p = w.memory(i, kSpace, AccessKind::read, a, 4);
  for_lanes(w.active, [&](unsigned l) { std::memcpy(&d[l], p[l], 4); });
}
inline void never(Warp& w, const Instr&) {
  w.block({.kind = Wait::Kind::mbarrier, .address = 0x420, .ready = [](Warp&, const LaneGroup&) {
             return false;
           }});
}
inline Operand label(uint32_t pc) {
  Operand o;
  o.kind = Operand::Kind::label;
  o.index = pc;
  return o;
}

}  // namespace fp4lab::emu::hand
