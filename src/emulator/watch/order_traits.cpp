// What an instruction's modifiers say about synchronisation (PTX ISA 8, 9.7.13).
#include "emulator/isa/opcode.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

Traits order::traits_of(const Source& s) {
  Traits t;
  // Atomics without a scope are .gpu, everything else without one .cta.
  if (!s.tokens.empty() && (s.tokens[0] == "atom" || s.tokens[0] == "red")) t.scope = 2;
  if (!s.tokens.empty() && s.tokens[0] == "membar") t.scope = 2;
  for (const std::string_view m : s.tokens) {
    if (m == "acquire" || m == "acq_rel") t.acquire = true;
    if (m == "release" || m == "acq_rel") t.release = true;
    if (m == "relaxed") t.relaxed = true;
    if (m == "cta") t.scope = 0, t.scope_spelled = true;
    if (m == "cluster") t.scope = 1, t.scope_spelled = true;
    if (m == "gpu" || m == "sys" || m == "volatile") t.scope = 2, t.scope_spelled = true;
  }
  if (s.tokens.empty()) return t;
  const std::string_view first = s.tokens[0];
  if (first == "fence" || first == "membar") {
    t.fence = Traits::memory;
    if (s.has("proxy"))
      t.fence = s.has("async") && s.has("global")                 ? Traits::proxy_global
                : s.has("async") || s.has("async::generic")       ? Traits::proxy_async
                : s.has("tensormap::generic") && s.has("acquire") ? Traits::map_acquire
                                                                  : Traits::none;
    if (s.has("mbarrier_init")) t.fence = Traits::mbarrier_init;
  } else if (first == "griddepcontrol") {
    t.fence = s.has("wait") ? Traits::grid_wait : Traits::grid_dependents;
  } else if (first == "tensormap") {
    if (s.has("cp_fenceproxy")) t.fence = Traits::map_copy;
    t.map_edit = s.has("replace");
  } else if (first == "tcgen05") {
    if (s.has("fence::before_thread_sync")) t.fence = Traits::before_sync;
    if (s.has("fence::after_thread_sync")) t.fence = Traits::after_sync;
    t.copy = s.has("cp");
    t.alloc = s.has("alloc");
  }
  return t;
}

}  // namespace fp4lab::emu
