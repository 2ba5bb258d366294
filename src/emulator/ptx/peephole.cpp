#include "emulator/ptx/peephole.h"

#include "emulator/ptx/peephole/pass.h"
#include "emulator/ptx/peephole/rules.h"

namespace fp4lab::emu {

bool fold_guards(Rewriter& w, const Dataflow& flow, const Known& known) {
  bool any = false;
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    const auto holds = known.guard(pc);
    if (!holds || !flow.is_pure(pc)) continue;
    any = true;
    if (*holds)
      w.f.code[pc].guard = -1;
    else
      w.remove(pc);
  }
  if (any) w.rebuild();
  return any;
}

bool fold_single(Rewriter& w, const Dataflow& flow, Known& known) {
  using namespace peephole;
  Pass pass(w, flow, known);
  const std::span<const Rule> all[] = {least_integer_rules(), arithmetic_rules(), bit_rules(),
                                       choice_rules(),        conversion_rules(), pack_rules()};
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    if (flow.is_dead(pc)) continue;
    for (const std::span<const Rule> rules : all)
      for (const Rule& rule : rules)
        if (!pass.has_replaced(pc) && rule.mnemonic == w.f.source[pc].tokens[0]) rule.apply(pass, pc);
  }
  if (pass.has_changed()) w.rebuild();
  return pass.has_changed();
}

}  // namespace fp4lab::emu
