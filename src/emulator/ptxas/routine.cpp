#include "emulator/ptxas/routine.h"

#include <bit>
#include <cmath>
#include <unordered_set>

#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

namespace {

bool is_float_type(const Source& s) { return name_of(s.type())[0] == 'f'; }

}  // namespace

bool is_of_upper_half(const Source& s) {
  return (s.tokens[0] == "rcp" || s.tokens[0] == "rsqrt") && s.type() == Type::f64 && s.has("approx") &&
         s.has("ftz");
}

bool is_float_routine(const Source& s) {
  const std::string_view name = s.tokens[0];
  const bool is_root = name == "sqrt" || name == "rcp" || name == "rsqrt";
  if (is_root && s.type() == Type::f64) return !is_of_upper_half(s);
  return (is_root || (name == "div" && is_float_type(s))) && !s.has("approx") && !s.has("full");
}

bool stays_unwanted(const Source& s) {
  if (!is_float_routine(s)) return false;
  const bool is_quotient = s.tokens[0] == "div", rounds_up_or_down = s.has("rm") || s.has("rp");
  if (s.type() == Type::f64) return !rounds_up_or_down && !s.has("rz");
  return !is_quotient || s.has("rn") || (rounds_up_or_down && !s.has("ftz"));
}

bool is_routine_inline(const Source& s, uint64_t constant) {
  const std::string_view name = s.tokens[0];
  if (!is_float_routine(s) || name == "div") return false;
  const bool wide = s.type() == Type::f64;
  if (wide && rounds_in_a_direction(s)) return false;
  const double x =
      wide ? std::bit_cast<double>(constant) : std::bit_cast<float>(static_cast<uint32_t>(constant));
  if (name == "rcp")
    return std::abs(x) >= (wide ? 0x1p-1022 : 0x1p-126) && std::abs(x) < (wide ? 0x1p1022 : 0x1p126);
  const double least = name == "rsqrt" ? 0x1p-1022 : wide ? 0x1p-970 : 0x1p-101;
  return x >= least && std::isfinite(x);
}

bool is_folded_behind(const Source& s) {
  if (!is_float_routine(s)) return false;
  const bool wide = s.type() == Type::f64, rounds_up_or_down = s.has("rm") || s.has("rp");
  if (s.tokens[0] == "div") return !wide && !s.has("rn");
  if (s.tokens[0] == "sqrt") return wide && (rounds_up_or_down || s.has("rz"));
  if (s.tokens[0] != "rcp") return false;
  return wide ? rounds_up_or_down : (rounds_up_or_down || s.has("rn")) && !s.has("ftz");
}

bool is_integer_routine(const Source& s) {
  return (s.tokens[0] == "div" || s.tokens[0] == "rem") && !is_float_type(s);
}

bool has_call(const Source& s, std::optional<uint64_t> constant) {
  if (is_integer_routine(s)) return bits_of(s.type()) != 32;
  return s.tokens[0] == "call" || (is_float_routine(s) && !(constant && is_routine_inline(s, *constant)));
}

bool is_selected_routine(const Source& s) {
  return is_float_routine(s) && s.type() == Type::f32 && (s.tokens[0] != "div" || s.has("rn"));
}

bool ends_block(const Source& s, bool becomes_branch, std::optional<uint64_t> constant) {
  static const std::unordered_set<std::string_view> kFences = {"membar", "fence", "setmaxnreg", "trap",
                                                               "brkpt"};
  static const std::unordered_set<std::string_view> kLight = {"proxy", "mbarrier_init", "acquire", "release"};
  if (becomes_branch) return !constant || !is_routine_inline(s, *constant);
  if (s.tokens[0] == "fence" && kLight.contains(s.tokens[1])) return false;
  return kFences.contains(s.tokens[0]) || s.has("launch_dependents");
}

bool ends_stretch(const Source& s) {
  static const std::unordered_set<std::string_view> kHalves = {"bfe", "bfi", "bfind", "brev"};
  static const std::unordered_set<std::string_view> kNames = {
      "bar", "barrier", "activemask", "griddepcontrol", "membar", "fence", "nanosleep"};
  const bool is_vector = s.has("v2") || s.has("v4") || s.has("v8");
  return is_float_routine(s) || is_integer_routine(s) || kNames.contains(s.tokens[0]) ||
         (is_vector && (s.tokens[0] == "atom" || s.tokens[0] == "red")) ||
         (s.has("sync") && s.tokens[0] != "elect") ||
         (kHalves.contains(s.tokens[0]) && bits_of(s.type()) == 64);
}

}  // namespace fp4lab::emu
