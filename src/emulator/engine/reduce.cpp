// Element-wise reductions of the bulk copies (PTX ISA 9.7.9.25.4.2): each element is one relaxed atomic at
// gpu scope, here done in the serial phase.
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/engine/tma.h"
#include "emulator/op/atomic.h"
#include "fp4lab/half.h"

namespace fp4lab::emu {

namespace {

template <class T>
T combine(Reduction r, T a, T b, bool& known) {  // a in memory, b from the source
  switch (r) {
    case Reduction::add:
      if constexpr (std::is_integral_v<T>)  // sums wrap
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                              static_cast<std::make_unsigned_t<T>>(b));
      else
        return std::bit_cast<T>(sum_in_global(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)));
    case Reduction::min:
      return b < a ? b : a;
    case Reduction::max:
      return a < b ? b : a;
    default:
      break;
  }
  if constexpr (std::is_unsigned_v<T>) {
    switch (r) {
      case Reduction::inc:
        return a >= b ? T(0) : T(a + 1);
      case Reduction::dec:
        return a == 0 || a > b ? b : T(a - 1);
      case Reduction::bit_and:
        return a & b;
      case Reduction::bit_or:
        return a | b;
      case Reduction::bit_xor:
        return a ^ b;
      default:
        break;
    }
  }
  known = false;
  return a;
}

template <class T>
bool loop(Reduction r, const std::byte* value, std::byte* memory, uint32_t count) {
  bool known = true;
  for (uint32_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, memory + i * sizeof(T), sizeof(T));
    std::memcpy(&b, value + i * sizeof(T), sizeof(T));
    a = combine(r, a, b, known);
    std::memcpy(memory + i * sizeof(T), &a, sizeof(T));
  }
  return known;
}

// The number where one is a NaN, signalling ones too (which fmin answers with a NaN); -0 < +0.
float lesser_or_greater(bool lesser, float x, float y) {
  if (std::isnan(x)) return y;
  if (std::isnan(y)) return x;
  if (x == y) return lesser == std::signbit(x) ? x : y;
  return (x < y) == lesser ? x : y;
}

// 16-bit floats through fp32: its 24 bits are enough that rounding twice changes nothing.
template <class ToFloat, class FromFloat>
bool loop16(Reduction r, const std::byte* value, std::byte* memory, uint32_t count, ToFloat&& wide,
            FromFloat&& narrow) {
  if (r != Reduction::add && r != Reduction::min && r != Reduction::max) return false;
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t a, b;
    std::memcpy(&a, memory + i * 2, 2);
    std::memcpy(&b, value + i * 2, 2);
    const float x = wide(a), y = wide(b);
    a = narrow(r == Reduction::add ? x + y : lesser_or_greater(r == Reduction::min, x, y));
    std::memcpy(memory + i * 2, &a, 2);
  }
  return true;
}

float bf16_to_float(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }
uint16_t bf16_from_float(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

}  // namespace

bool reduce_elements(Reduction r, Type type, bool flush, const std::byte* value, std::byte* memory,
                     uint32_t count) {
  switch (type) {
    case Type::u32:
      return loop<uint32_t>(r, value, memory, count);
    case Type::s32:
      return r >= Reduction::inc ? loop<uint32_t>(r, value, memory, count)
                                 : loop<int32_t>(r, value, memory, count);
    case Type::u64:
      return r == Reduction::inc || r == Reduction::dec ? false : loop<uint64_t>(r, value, memory, count);
    case Type::s64:
      return r == Reduction::inc || r == Reduction::dec ? false
             : r >= Reduction::inc                      ? loop<uint64_t>(r, value, memory, count)
                                                        : loop<int64_t>(r, value, memory, count);
    case Type::b32:
      return r >= Reduction::bit_and && loop<uint32_t>(r, value, memory, count);
    case Type::b64:
      return r >= Reduction::bit_and && loop<uint64_t>(r, value, memory, count);
    case Type::f16:
      return loop16(r, value, memory, count, half_to_float, half_from_float);
    case Type::bf16:
      return loop16(r, value, memory, count, bf16_to_float, bf16_from_float);
    case Type::f64:
      return r == Reduction::add && loop<double>(r, value, memory, count);
    case Type::f32:
      if (r != Reduction::add) return false;
      for (uint32_t i = 0; i < count; ++i) {
        float a, b;
        std::memcpy(&a, memory + i * 4, 4);
        std::memcpy(&b, value + i * 4, 4);
        if (flush) {
          if (std::fpclassify(a) == FP_SUBNORMAL) a = std::copysign(0.0f, a);
          if (std::fpclassify(b) == FP_SUBNORMAL) b = std::copysign(0.0f, b);
        }
        a += b;
        if (flush && std::fpclassify(a) == FP_SUBNORMAL) a = std::copysign(0.0f, a);
        if (std::isnan(a)) a = std::bit_cast<float>(0x7fffffffu);
        std::memcpy(memory + i * 4, &a, 4);
      }
      return true;
    default:
      return false;
  }
}

Reduction reduction_named(const Source& s) {
  constexpr std::pair<const char*, Reduction> names[] = {
      {"add", Reduction::add},   {"min", Reduction::min},    {"max", Reduction::max},
      {"inc", Reduction::inc},   {"dec", Reduction::dec},    {"and", Reduction::bit_and},
      {"or", Reduction::bit_or}, {"xor", Reduction::bit_xor}};
  for (auto [name, r] : names)
    if (s.has(name)) return r;
  return Reduction::none;
}

}  // namespace fp4lab::emu
