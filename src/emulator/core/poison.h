// The content of unwritten memory and registers, where reading them is no error.
#pragma once

#include <cstdint>

namespace fp4lab::emu {

constexpr uint8_t kPoison = 0xcb;
constexpr uint32_t kPoison32 = 0x01010101u * kPoison;
constexpr uint64_t kPoison64 = 0x0101010101010101u * kPoison;

}  // namespace fp4lab::emu
