// Stores to .local memory that no load can read: ptxas 13.0 has none of them when it contracts products with
// sums, so that a product that only they and one sum read becomes part of that (tests/ptx/unread_store.ptx).
#pragma once

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

bool may_have_unread_stores(const Function&);
void remove_unread_stores(Rewriter&, const Dataflow&);

}  // namespace fp4lab::emu
