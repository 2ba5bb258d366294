#include "emulator/ptxas/packed_pair.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/ptxas/reaching_writes.h"

namespace fp4lab::emu {

namespace {

bool is_conversion_to_pair(const Source& s) {
  return s.tokens[0] == "cvt" && (s.type() == Type::e4m3x2 || s.type() == Type::e5m2x2);
}

// Extremes, signs and signed conversions have an instruction of their own behind them that ends in 16 bits.
bool is_integer_in_whole_register(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {
      "and", "or", "not", "xor", "shl", "shr", "add", "sub", "mul", "mad", "sad", "selp", "slct"};
  const Type to = s.type();
  if (s.tokens[0] == "cvt")
    return s.tokens.size() == 3 && (to == Type::u16 || to == Type::s16) && !is_float(s.type(1)) &&
           (s.type(1) == Type::u8 || bits_of(s.type(1)) == 32);
  return kNames.contains(s.tokens[0]) && (to == Type::u16 || to == Type::s16 || to == Type::b16);
}

}  // namespace

bool has_pairs_of_bytes(const Function& f) { return std::ranges::any_of(f.source, is_conversion_to_pair); }

void mistake_packed_halves(Rewriter& w, const Dataflow& flow) {
  const Function& f = w.f;
  const ReachingWrites writes(f, flow);
  bool any = false;
  // The maker in the pack's block; `unbroken`: with no branch between.
  const auto maker = [&](uint32_t pc, const Operand& op, bool unbroken) {
    const uint32_t from = is_value(op) ? writes.maker(pc, flow.number_of(op)) : Dataflow::kNone;
    if (from >= pc || flow.block_of(from) != flow.block_of(pc)) return Dataflow::kNone;
    for (uint32_t between = from; unbroken && between < pc; ++between)
      if (flow.becomes_branch(between)) return Dataflow::kNone;
    return from;
  };
  std::unordered_map<uint32_t, std::vector<uint32_t>> taken_apart;  // by pack: where, in its block
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (f.source[pc].tokens[0] == "mov" && f.code[pc].op[0].kind == Operand::Kind::vector &&
        f.code[pc].guard < 0)
      taken_apart[maker(pc, f.code[pc].op[1], /*unbroken=*/false)].push_back(pc);
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    const Instr& i = f.code[pc];
    const Operand& parts = i.op[1];
    if (f.source[pc].tokens[0] != "mov" || i.guard >= 0 || parts.kind != Operand::Kind::vector ||
        flow.is_dead(pc) || bits_of(f.source[pc].type()) != parts.count * 16u)
      continue;
    for (uint32_t n = 0; n + 1 < parts.count; n += 2) {
      const Operand low = f.vectors[parts.index + n], high = f.vectors[parts.index + n + 1];
      const uint32_t pair = maker(pc, low, /*unbroken=*/true), other = maker(pc, high, /*unbroken=*/false);
      if (pair == Dataflow::kNone || other == Dataflow::kNone || !is_conversion_to_pair(f.source[pair]) ||
          !is_integer_in_whole_register(f.source[other]))
        continue;
      const Operand bytes = w.fresh(low.type);
      w.insert(pc + 1, {"mov", "b16"}, {bytes, low});
      w.insert(pc + 1, {"mov", "b16"}, {high, bytes});
      // What takes the pack apart again reads the same.
      for (const uint32_t reader : taken_apart[pc]) {
        const Operand& taken = f.code[reader].op[0];
        if (taken.count != parts.count) continue;
        if (const Operand& part = f.vectors[taken.index + n + 1]; is_value(part))
          w.insert(reader + 1, {"mov", "b16"}, {part, bytes});
      }
      any = true;
    }
  }
  if (any) w.rebuild();
}

}  // namespace fp4lab::emu
