#pragma once

#include <functional>

#include "model/chip.h"

namespace fp4lab::model {

/// f(name, constant) for what the Hopper kernels of this project cost (sm90.cpp).
void visit_sm90_costs(const std::function<void(std::string_view, Constant&)>& f);

/// "B200.fill=17000", "sm90.trip=2000": from here on in this process, for what-ifs and fits. Fails on names
/// that there are not.
void set_constant(std::string_view assignment);

}  // namespace fp4lab::model
