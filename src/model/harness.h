// What published times hold beside the kernel: the launch, the events, a floor. None of it is the machine's;
// a source has at most three figures.
#pragma once

#include <span>
#include <string_view>

#include "model/kernel.h"

namespace fp4lab::model {

std::span<const Harness> harnesses();
/// The first row whose substrings are in the point's source and kernel; a row for everything comes last.
const Harness& find_harness(std::string_view source, std::string_view kernel);
/// "flashinfer PR 2540|cudnn=0.6,0,1": start, floor, dirty of one row, for fits.
void set_harness(std::string_view assignment);

}  // namespace fp4lab::model
