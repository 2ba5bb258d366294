// The steps of a launch once its shape and parameters are known.
#pragma once

#include <string>

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {

// Prints to stderr why the kernel is not launched; returns the code.
CUresult refuse(CUresult code, const CUfunc_st&, const std::string& why);

// The checks that the real driver makes before anything runs.
CUresult check_launch(const CUfunc_st&, const LaunchConfig&);

// Runs the kernel to its end and stores the results: statistics, notes, findings. A fault makes the context's
// error sticky. `early`: on a GPU it may begin before the previous kernel in its stream has ended.
CUresult run_launch(const CUfunc_st&, const LaunchConfig&, bool early = false);

}  // namespace fp4lab::emu::driver
