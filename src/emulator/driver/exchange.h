// The PTX of programs that embed it, as files: written when it is loaded, or replaced by an edited text; and
// the outcome of each launch. For users who edit PTX, and for fp4lab mutate.
#pragma once

#include <string>

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {

// FP4LAB_DUMP_PTX=FOLDER writes the text to FOLDER/NAME. FP4LAB_REPLACE_PTX=FOLDER returns the text of
// FOLDER/NAME instead, if that file exists. NAME is "sm_100a-" and a hash of the program's own text; if
// either variable is set it becomes `label`. Throws fp4lab::Error if a file cannot be read or written.
std::string exchange_ptx(std::string ptx, std::string& label);

// FP4LAB_RECORD=FILE: appends a line of JSON for the launch that is over: "module", "kernel", "launch" (from
// 1), "seed", "findings" (as in fp4lab_emulator_findings) and "lines", the PTX lines that were executed.
// FP4LAB_FINDINGS=FILE: the same without lines, for who started the process.
void record_launch(const CUfunc_st&, const State&);
// The same for a module that could not be loaded: "module" and "error".
void record_refusal(std::string_view module, std::string_view error);

}  // namespace fp4lab::emu::driver
