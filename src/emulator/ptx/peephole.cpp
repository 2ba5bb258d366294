#include "emulator/ptx/peephole.h"

#include "emulator/ptx/peephole/pass.h"
#include "emulator/ptx/peephole/rules.h"

namespace fp4lab::emu {

bool fold_single(Rewriter& w, const Dataflow& flow) {
  using namespace peephole;
  Pass pass(w, flow);
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
