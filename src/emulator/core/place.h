// How places in a kernel are written in messages.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

class Cta;
class Warp;

// "lane 3", "lanes 0-15, 17"; "all 32 lanes"
std::string lane_list(uint32_t lanes);
// "kernel.ptx:120:3"
std::string ptx_position(const Module&, const Source&);
// "cast<gemm<...>, 4>": the source's name, without parameters and without the arguments of arguments.
// Unmangled names are unchanged; of a mangled one that cannot be read, the beginning.
std::string kernel_name(const std::string& mangled);
// "gemm.cu:88, called at main.cu:12", empty when the PTX has no .loc there
std::string cuda_position(const Module&, const Source&);
// The PTX line with a caret below the instruction.
std::string ptx_excerpt(const Module&, const Source&);
// The line of the last wait or barrier before instruction `pc` in the text; if there is none, the function's
// first line.
uint32_t line_of_wait_before(const Function&, size_t pc);
// The line of the next arrival, commit to an mbarrier, or barrier after it; if there is none, the function's
// last line.
uint32_t line_of_arrival_behind(const Function&, size_t pc);
// One line: "gemm.ptx:120  mbarrier.try_wait.parity.shared::cta.b64 p, [r], 0;  (gemm.cu:88)"
std::string one_line(const Module&, const Source&);

}  // namespace fp4lab::emu
