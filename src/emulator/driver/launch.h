// What a launch goes through once its shape and parameters are known.
#pragma once

#include <string>

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {

// Says on stderr why the kernel is not launched; returns the code.
CUresult refuse(CUresult code, const CUfunc_st&, const std::string& why);

// The checks that the hardware's driver makes before anything runs.
CUresult check_launch(const CUfunc_st&, const LaunchConfig&);

// Runs the kernel to its end and keeps what it did: statistics, notes, findings. A fault stays with the
// context. `early`: on a GPU it may begin before the kernel in front of it, in the same stream, is over.
CUresult run_launch(const CUfunc_st&, const LaunchConfig&, bool early = false);

}  // namespace fp4lab::emu::driver
