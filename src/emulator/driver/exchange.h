// The PTX of programs that bring their own: written out when it is loaded, or replaced by an edited text, and
// what became of each launch, as files. For people who edit, and for fp4lab mutate.
#pragma once

#include <string>

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {

// FP4LAB_DUMP_PTX=FOLDER writes the text to FOLDER/NAME; FP4LAB_REPLACE_PTX=FOLDER gives the text of
// FOLDER/NAME instead where there is such a file. NAME is "sm_100a-" and a hash of the text as the program
// brings it, and with either variable set `label` becomes it. Throws fp4lab::Error when a file cannot be read
// or written.
std::string exchange_ptx(std::string ptx, std::string& label);

// FP4LAB_RECORD=FILE: appends a line of JSON for the launch that is over: "module", "kernel", "findings" (as
// in fp4lab_emulator_findings) and "lines", the PTX lines that were executed.
void record_launch(const CUfunc_st&, const State&);
// The same for a module that could not be loaded: "module" and "error".
void record_refusal(std::string_view module, std::string_view error);

}  // namespace fp4lab::emu::driver
