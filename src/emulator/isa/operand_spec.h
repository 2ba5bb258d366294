// The operand column of the opcode table (language: opcode.h).
#pragma once

#include <string_view>
#include <vector>

#include "emulator/core/ir.h"

namespace fp4lab::emu {

struct OperandSpec {
  enum class Form : uint8_t {
    value,             // a
    destination,       // d
    destination_pair,  // d|p: two slots; d|P when the predicate must be there
    predicate,         // p
    predicate_target,  // P
    predicate_pair,    // P|q: two slots
    address,           // [m]
    tensor,            // [m,{c}]: two slots
    vector,            // {v}
    vector_target,     // {d}
    label,             // L
    labels,            // {L}
    function,          // F
    immediate,         // I
    value_or_address,  // a/[m]
  } form = Form::value;
  std::string_view text;  // as in the table, for messages
  enum class Rule : uint8_t { automatic, fixed, nth, wide, registers, any } rule = Rule::automatic;
  Type fixed = Type::none;
  unsigned nth = 0;
  bool relaxed = false, optional = false, selected = false;
  bool pair_required = false;
  bool discarded = false,
       second_discarded = false;  // may be `_`; the second of a pair, a whole vector
  bool symbol = false;            // @
  bool braced = false;            // !
  std::string_view only_with;     // `?word`
  uint8_t slot = 0;               // index of its first Operand

  bool is_target() const {
    return form == Form::destination || form == Form::destination_pair || form == Form::predicate_target ||
           form == Form::predicate_pair || form == Form::vector_target;
  }
  // The required type of the operand in this instruction; none = not checked. Integers are u32 if no type is
  // given.
  Type type_in(const Source&) const;
};

std::vector<OperandSpec> parse_operand_specs(std::string_view column);  // throws fp4lab::Error

Type twice_as_wide(Type);  // u16 -> u32, f32 -> f64; none when there is no such type

}  // namespace fp4lab::emu
