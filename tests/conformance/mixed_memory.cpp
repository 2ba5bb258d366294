// Operations of mixed kernels that may be in divergent code: memory, atomics, packs, calls.
#include <algorithm>

#include "fp4lab/error.h"
#include "mixed_access.h"
#include "mixed_parts.h"

namespace fp4lab::conformance {

void MixedParts::memory() {
  const unsigned space = r_.below(5);
  for (bool load : {false, true}) {
    const Access& a = r_.pick(kAccesses);
    unsigned count = 1u << r_.below(3);
    while (count * a.bytes > 16) count /= 2;
    const unsigned whole = count * a.bytes;
    std::string where = pointer(space, whole, load);
    const std::string vector = count == 1 ? "" : fmt::format(".v{}", count);
    std::vector<std::string> regs;
    while (regs.size() < count) {
      const std::string x = reg(a.reg);
      if (std::find(regs.begin(), regs.end(), x) == regs.end()) regs.push_back(x);
    }
    // ptxas 13.0 converts a register that holds an f32 in a narrower store.
    if (!load && std::string_view(a.reg) != "b16" && a.bytes * 8 < (a.reg[1] == '6' ? 64u : 32u))
      for (const std::string& x : regs)
        line(fmt::format("  xor.{0} {1}, {1}, {2};", a.reg, x, r_.below(1000)));
    std::string list;
    for (const std::string& x : regs) list += (list.empty() ? "" : ", ") + x;
    if (count > 1) list = "{" + list + "}";
    const std::string how = r_.one_in(4) ? guard() : "";
    if (load) {
      line(fmt::format("  {}ld{}{}.{} {}, [{}];", how, where.substr(0, where.find(' ')), vector, a.type, list,
                       where.substr(where.find(' ') + 1)));
      for (const std::string& x : regs) log(a.reg, x);
    } else {
      line(fmt::format("  {}st{}{}.{} [{}], {};", how, where.substr(0, where.find(' ')), vector, a.type,
                       where.substr(where.find(' ') + 1), list));
    }
  }
}
std::string MixedParts::pointer(unsigned space, unsigned bytes, bool load) {
  const unsigned at = r_.below(kRegion / bytes) * bytes;
  const bool dynamic = r_.one_in(2);
  std::string offset = fmt::format("+{}", at);
  if (dynamic) {
    line(fmt::format("  and.b32 %t, {}, {};", reg("b32"), (kRegion - 1) & ~(bytes - 1)));
    offset = "";
  }
  const auto narrow = [&](const char* base) {
    if (!dynamic) return std::string(base) + offset;
    line(fmt::format("  add.u32 %t, %t, {};", base));
    return std::string("%t");
  };
  const auto wide = [&](const std::string& base) {
    if (!dynamic) return base + offset;
    line(fmt::format("  cvt.u64.u32 %x, %t; add.u64 %x, %x, {};", base));
    return std::string("%x");
  };
  static constexpr const char* kShared[] = {".shared", ".shared::cta", ".volatile.shared",
                                            ".relaxed.cta.shared"};
  static constexpr const char* kGlobalLoad[] = {".global",
                                                ".global.ca",
                                                ".global.cg",
                                                ".volatile.global",
                                                ".relaxed.gpu.global",
                                                ".weak.global",
                                                ".acquire.gpu.global",
                                                ".global.L1::evict_last"};
  static constexpr const char* kGlobalStore[] = {".global",
                                                 ".global.wb",
                                                 ".global.cg",
                                                 ".volatile.global",
                                                 ".relaxed.gpu.global",
                                                 ".weak.global",
                                                 ".release.gpu.global",
                                                 ".global.L1::no_allocate"};
  switch (space) {
    case 0:
      return std::string(r_.pick(kShared)) + " " + narrow("%own");
    case 1:
      return ".local " + narrow("%loc");
    case 2:
      return std::string(load ? r_.pick(kGlobalLoad) : r_.pick(kGlobalStore)) + " " + wide("%gg");
    case 3: {
      static constexpr const char* kBases[] = {"%gs", "%gl", "%gg"};
      return " " + wide(r_.pick(kBases));
    }
    default:  // each lane its own space
      line(fmt::format("  selp.b64 %y, %gs, %gl, {};", reg("pred")));
      line(fmt::format("  selp.b64 %y, %y, %gg, {};", reg("pred")));
      return " " + wide("%y");
  }
}

void MixedParts::local_memory() {
  static constexpr const char* kTypes[] = {"b16", "b32", "b64"};
  const std::string store = r_.pick(kTypes), load = r_.pick(kTypes), d = reg(load);
  line(fmt::format("  and.b32 %t, {}, 56; add.u32 %t, %t, %loc;", reg("b32")));
  line(fmt::format("  {}st.local.{} [%t], {};", r_.one_in(3) ? guard() : "", store, reg(store)));
  line(fmt::format("  and.b32 %t, {}, 56; add.u32 %t, %t, %loc;", reg("b32")));
  line(fmt::format("  {}ld.local.{} {}, [%t];", r_.one_in(3) ? guard() : "", load, d));
  log(load, d);
}

void MixedParts::constants() {
  const std::string c = reg("b32"), b = reg("b32");
  line(fmt::format("  and.b32 %t, {}, 15; mov.u64 %x, table; mad.wide.u32 %x, %t, 4, %x;", reg("b32")));
  line(fmt::format("  ld.const.b32 {}, [%x];", c));
  log("b32", c);
  line("  mov.u64 %x, bytes; cvt.u64.u32 %y, %t; add.u64 %x, %x, %y;");
  line(fmt::format("  ld.global{}.{} {}, [%x+{}];", r_.one_in(2) ? ".nc" : "", r_.one_in(2) ? "s8" : "u8", b,
                   r_.below(8)));
  log("b32", b);
}

void MixedParts::atomics() {
  struct Atomic {
    const char* text;
    unsigned bytes;
    const char* reg;
    bool compare = false, global_only = false;
  };
  static constexpr Atomic kAtomics[] = {
      {"add.u32", 4, "b32"},         {"add.s32", 4, "b32"},        {"add.u64", 8, "b64"},
      {"add.f32", 4, "b32"},         {"add.f64", 8, "b64"},        {"min.u32", 4, "b32"},
      {"min.s32", 4, "b32"},         {"max.u32", 4, "b32"},        {"max.s32", 4, "b32"},
      {"min.u64", 8, "b64"},         {"min.s64", 8, "b64"},        {"max.u64", 8, "b64"},
      {"max.s64", 8, "b64"},         {"and.b32", 4, "b32"},        {"or.b32", 4, "b32"},
      {"xor.b32", 4, "b32"},         {"and.b64", 8, "b64"},        {"or.b64", 8, "b64"},
      {"xor.b64", 8, "b64"},         {"exch.b32", 4, "b32"},       {"exch.b64", 8, "b64"},
      {"inc.u32", 4, "b32"},         {"dec.u32", 4, "b32"},        {"add.noftz.f16", 2, "b16"},
      {"add.noftz.f16x2", 4, "b32"}, {"add.noftz.bf16", 2, "b16"}, {"add.noftz.bf16x2", 4, "b32"},
      {"cas.b16", 2, "b16", true},   {"cas.b32", 4, "b32", true},  {"cas.b64", 8, "b64", true}};
  static constexpr const char* kOrders[] = {
      "", ".relaxed.cta", ".acq_rel.gpu", ".release.sys", ".acquire.gpu", ".gpu"};
  const Atomic& a = r_.pick(kAtomics);
  std::string where = pointer(r_.one_in(3) ? 3 : 2 * r_.below(2), a.bytes, true);
  // Generic pointers, except to local memory.
  std::string space = where.find(".shared") != where.npos ? ".shared" : where[0] == ' ' ? "" : ".global";
  std::string address = where.substr(where.find(' ') + 1);
  if (space.empty()) {
    space = r_.one_in(2) ? ".global" : "";
    address = fmt::format("{}+{}", space.empty() && r_.one_in(2) ? "%gs" : "%gg",
                          r_.below(kRegion / a.bytes) * a.bytes);
  }
  const std::string d = reg(a.reg), x = reg(a.reg);
  std::string values = x;
  if (a.compare) {
    line(fmt::format("  ld{}.{} {}, [{}];", space, a.reg, x, address));
    if (r_.one_in(2)) line(fmt::format("  xor.{0} {1}, {1}, 1;", a.reg, x));
    values += ", " + reg(a.reg);
  }
  const std::string how = r_.one_in(4) ? guard() : "";
  if (!a.compare && !std::string_view(a.text).starts_with("exch") && r_.one_in(3)) {
    line(fmt::format("  {}red{}.{} [{}], {};", how, space, a.text, address, values));
    line(fmt::format("  ld{}.{} {}, [{}];", space, a.reg, d, address));
  } else {
    line(fmt::format("  {}atom{}{}.{} {}, [{}], {};", how, r_.pick(kOrders), space, a.text, d, address,
                     values));
  }
  log(a.reg, d);
}

void MixedParts::cells() {
  struct Cell {
    const char* text;
    const char* reg;
  };
  static constexpr Cell kCells[] = {{"add.u32", "b32"}, {"max.s32", "b32"}, {"max.u32", "b32"},
                                    {"or.b32", "b32"},  {"xor.b32", "b32"}, {"add.u64", "b64"},
                                    {"max.u64", "b64"}, {"xor.b64", "b64"}, {"min.s64", "b64"},
                                    {"min.s32", "b32"}, {"or.b64", "b64"},  {"max.s64", "b64"}};
  const unsigned i = r_.below(std::size(kCells));
  const Cell& c = kCells[i];
  const std::string how = r_.one_in(3) ? guard() : "";
  line(fmt::format("  {}red{}.{} [%cells+{}], {};", how, r_.one_in(2) ? ".global" : "", c.text, 8 * i,
                   reg(c.reg)));
  static constexpr Cell kShared[] = {{"add.u32", "b32"}, {"min.s32", "b32"}, {"xor.b64", "b64"},
                                     {"and.b32", "b32"}, {"max.u32", "b32"}, {"or.b64", "b64"},
                                     {"add.u64", "b64"}, {"min.u64", "b64"}};
  const unsigned k = r_.below(std::size(kShared));
  line(fmt::format("  red.shared.{} [counter+{}], {};", kShared[k].text, 8 * k, reg(kShared[k].reg)));
}

void MixedParts::pack() {
  const std::string d = reg("b64"), r = reg("b32"), h = reg("b16");
  switch (r_.below(6)) {
    case 0:
      line(fmt::format("  mov.b64 {}, {{{}, {}}};", d, reg("b32"), reg("b32")));
      return log("b64", d);
    case 1:
      line(fmt::format("  mov.b64 {{{}, _}}, {};", r, d));
      return log("b32", r);
    case 2:
      line(fmt::format("  mov.b64 {}, {{{}, {}, {}, {}}};", d, reg("b16"), reg("b16"), reg("b16"),
                       reg("b16")));
      return log("b64", d);
    case 3:
      line(fmt::format("  mov.b32 {}, {{{}, {}}};", r, reg("b16"), reg("b16")));
      return log("b32", r);
    case 4:
      line(fmt::format("  mov.b64 {{_, _, {}, _}}, {};", h, d));
      return log("b16", h);
    default:
      line(fmt::format("  mov.b32 {{_, {}}}, {};", h, r));
      return log("b16", h);
  }
}

void MixedParts::predicates() {
  const std::string p = reg("pred"), r = reg("b32");
  switch (r_.below(5)) {
    case 0: {
      static constexpr const char* kOps[] = {"and", "or", "xor"};
      line(fmt::format("  {}.pred {}, {}, {};", r_.pick(kOps), p, reg("pred"), reg("pred")));
      break;
    }
    case 1:
      line(fmt::format("  not.pred {}, {};", p, reg("pred")));
      break;
    case 2: {
      static constexpr const char* kCombine[] = {"and", "or", "xor"};
      const std::string q = reg("pred");
      if (q == p) return;
      line(fmt::format("  setp.{}.{}.s32 {}|{}, {}, {}, {}{};", r_.one_in(2) ? "lt" : "ne", r_.pick(kCombine),
                       p, q, reg("b32"), r_.one_in(2) ? reg("b32") : "-5", r_.one_in(2) ? "!" : "",
                       reg("pred")));
      log("pred", q);
      break;
    }
    case 3: {
      static constexpr const char* kNames[] = {"%laneid",      "%tid.x",   "%ntid.x",   "%lanemask_lt",
                                               "%lanemask_ge", "%ctaid.x", "%nctaid.x", "%lanemask_eq"};
      line(fmt::format("  mov.u32 {}, {};", r, r_.pick(kNames)));
      return log("b32", r);
    }
    default:
      line(fmt::format("  selp.b32 {}, {}, {}, {};", r, reg("b32"), reg("b32"), p));
      return log("b32", r);
  }
  log("pred", p);
}

void MixedParts::copy_async() {
  const unsigned bytes = 4u << r_.below(3), from = 16 * r_.below(4), to = 16 * r_.below(4);
  const std::string d = reg("b32");
  const bool part = r_.one_in(3);
  line(fmt::format("  cp.async.{}.shared.global [%own+{}], [%gg+{}], {}{};",
                   bytes == 16 && r_.one_in(2) ? "cg" : "ca", to, from, bytes,
                   part ? fmt::format(", {}", r_.below(bytes + 1)) : ""));
  line(r_.one_in(2) ? "  cp.async.wait_all;" : "  cp.async.commit_group; cp.async.wait_group 0;");
  line(fmt::format("  ld.shared.b32 {}, [%own+{}];", d, to + 4 * r_.below(bytes / 4)));
  log("b32", d);
}

void MixedParts::call() {
  const unsigned f = in_function_ + r_.below(functions_ - in_function_);
  const std::string d = reg("b64"), r = reg("b32");
  line("  { .param .b32 pa; .param .b64 pb; .param .align 4 .b8 pc[6]; .param .align 8 .b8 pr[16];");
  line(fmt::format("  st.param.b32 [pa], {}; st.param.b64 [pb], {};", reg("b32"), reg("b64")));
  line(fmt::format("  st.param.b32 [pc], {}; st.param.b16 [pc+4], {};", reg("b32"), reg("b16")));
  line(fmt::format("  call.uni (pr), f{}, (pa, pb, pc);", f).replace(6, 4, r_.one_in(2) ? ".uni" : ""));
  line(fmt::format("  ld.param.b64 {}, [pr]; ld.param.b32 {}, [pr+12]; }}", d, r));
  log("b64", d);
  log("b32", r);
}

}  // namespace fp4lab::conformance
