// Special registers by name (PTX ISA 10).
#pragma once

#include <string_view>
#include <vector>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

struct SpecialName {
  std::string_view name, component;  // "%tid", "x"
  bool fixed;                        // a row filled when the warp starts; else read at every execution
  uint8_t id;                        // FixedSpecial or SpecialRegister
  Type type;
};

// Null when there is no such special register (or it is not implemented).
const SpecialName* special_named(std::string_view name, std::string_view component);
// %tid and similar: vectors of four, of which .w is always 0 (PTX ISA 10.1).
bool special_is_vector(std::string_view name);
std::vector<std::string_view> special_names();

}  // namespace fp4lab::emu
