#pragma once

#include "model/chip.h"

namespace fp4lab::model {

/// "B200.fill=17000": from here on in this process, for what-ifs and fits. Fails on names that there are not.
void set_constant(std::string_view assignment);

}  // namespace fp4lab::model
