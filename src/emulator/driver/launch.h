// The steps of a launch once its shape and parameters are known.
#pragma once

#include <string>

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {

// Prints to stderr why the kernel is not launched; returns the code.
CUresult refuse(CUresult code, const CUfunc_st&, const std::string& why);

// Where the driver has each parameter in a launch's block, see DeviceModel::param_bank.
std::vector<uint32_t> driver_offsets(const Function&);

// The checks that the hardware's driver makes before anything runs.
CUresult check_launch(const CUfunc_st&, const LaunchConfig&);

// Runs the kernel to its end and stores the results: statistics, notes, findings. A fault makes the context's
// error sticky. `early`: on a GPU it may begin before the previous kernel in its stream has ended.
CUresult run_launch(const CUfunc_st&, const LaunchConfig&, bool early = false);

}  // namespace fp4lab::emu::driver
