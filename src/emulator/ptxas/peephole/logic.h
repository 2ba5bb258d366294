// Logic of three operands by a table, as machine code has it.
#pragma once

#include <array>
#include <cstdint>

namespace fp4lab::emu::peephole {

struct TableLogic {
  struct Place {
    uint32_t at;    // the instruction of which it is an operand
    unsigned slot;  // kSignMask for that
    // A register that stands in a place before this one: 0 stands for it.
    bool is_free = false;
  };
  static constexpr unsigned kSignMask = 0;
  std::array<Place, 3> places;
  uint32_t table;  // of 8 bits

  bool has_free() const { return places[1].is_free || places[2].is_free; }
};

}  // namespace fp4lab::emu::peephole
