// The positions of wgmma.mma_async's operands (PTX ISA 9.7.15.5.2): 0 {d}, 1 A's descriptor or {a}, 2 B's,
// for a sparse A its metadata and the selector; then scale-d, imm-scale-a, imm-scale-b and the
// transpositions.
#pragma once

#include <cstdint>

namespace fp4lab::emu {

constexpr unsigned wgmma_scale_d(bool is_sparse) { return is_sparse ? 5 : 3; }
constexpr unsigned wgmma_scale_a(bool is_sparse) { return wgmma_scale_d(is_sparse) + 1; }
constexpr unsigned wgmma_scale_b(bool is_sparse) { return wgmma_scale_d(is_sparse) + 2; }
constexpr unsigned wgmma_transpositions(bool is_sparse) { return wgmma_scale_d(is_sparse) + 3; }

}  // namespace fp4lab::emu
