// Padding of structures. A compiler that copies a structure by vectors names an unwritten register for bytes
// that belong to no member: "st.local.v2.u32 [%rd14+24], {%r6, %r7};", or of a returned value "st.param.v4.b8
// [func_retval0+16], {%rs13, %rs14, %rs15, %rs16};" (nvcc 13). That is no error of the program, so such a
// register is given a value.
#pragma once

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

// Gives a value (that of unwritten memory) to every register whose only uses are as elements of vectors
// stored to local memory, or passed, next to elements that are written.
void fill_padding(Image&, Function&);

}  // namespace fp4lab::emu
