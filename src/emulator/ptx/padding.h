// Bytes of a structure that no member has: a compiler that copies the structure by vectors names a register
// for them which nothing writes ("st.local.v2.u32 [%rd14+24], {%r6, %r7};" and, of what a function gives
// back, "st.param.v4.b8 [func_retval0+16], {%rs13, %rs14, %rs15, %rs16};" of nvcc 13). That is no fault of
// the program's, so such a register holds something.
#pragma once

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

// Every register of the function that is nothing but an element of vectors which are stored to local memory,
// or passed, beside elements that something makes gets a value: that of memory which nobody has written.
void fill_padding(Image&, Function&);

}  // namespace fp4lab::emu
