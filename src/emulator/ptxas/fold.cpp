#include "emulator/ptxas/fold.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/op/float_approx.h"
#include "emulator/ptxas/foldable.h"

namespace fp4lab::emu {

namespace {

// What ptxas has in the place of the unit's function.
template <approx::Unit kUnit, double (*kTrue)(double)>
float rounded(float a) {
  const float unit = kUnit(a);
  return std::isnormal(unit) ? flush(float(kTrue(a))) : unit;
}

double reciprocal(double a) { return 1 / a; }
double reciprocal_root(double a) { return 1 / std::sqrt(a); }
double root(double a) { return std::sqrt(a); }
double exponential(double a) { return std::exp2(a); }
double logarithm(double a) { return std::log2(a); }

constexpr approx::Unit kRcp = rounded<mufu::rcp, reciprocal>, kRsq = rounded<mufu::rsq, reciprocal_root>,
                       kSqrt = rounded<mufu::sqrt, root>, kEx2 = rounded<mufu::ex2, exponential>,
                       kLg2 = rounded<mufu::lg2, logarithm>;

// These are folded before they are turns.
float sine(float a) { return std::isfinite(a) ? float(std::sin(double(flush(a)))) : mufu::sin(a); }
float cosine(float a) { return std::isfinite(a) ? float(std::cos(double(flush(a)))) : mufu::cos(a); }

struct Folded {
  std::string_view mnemonic;
  approx::Unit flushing, keeping;
};
constexpr Folded kFolded[] = {
    {"rcp", kRcp, approx::rcp<kRcp>},
    {"rsqrt", kRsq, approx::rsqrt<kRsq>},
    {"sqrt", kSqrt, approx::sqrt<kSqrt>},
    {"ex2", kEx2, approx::ex2<kEx2>},
    {"lg2", kLg2, approx::lg2<kLg2>},
    {"sin", sine, sine},
    {"cos", cosine, cosine},
};

}  // namespace

std::optional<uint32_t> folded_function(const Source& s, uint32_t a) {
  if (!s.has("approx") || s.type() != Type::f32) return std::nullopt;
  for (const Folded& row : kFolded)
    if (s.tokens[0] == row.mnemonic) {
      const approx::Unit f = s.has("ftz") ? row.flushing : row.keeping;
      const float result = f(std::bit_cast<float>(a));
      if (result != result) return std::nullopt;
      return std::bit_cast<uint32_t>(result);
    }
  return std::nullopt;
}

namespace {

// Nothing for other instructions, and for extremes of NaNs.
std::optional<float> computed(const Source& s, float a, float b) {
  const std::string_view name = s.tokens[0];
  if (name == "neg") return -a;
  if (name == "abs") return std::abs(a);
  if (name == "add") return a + b;
  if (name == "sub") return a - b;
  if (name == "mul") return s.has("ftz") ? approx::multiply_ftz(a, b) : a * b;
  if (a != a || b != b) return std::nullopt;
  if (name == "min") return a < b || (a == b && std::signbit(a)) ? a : b;
  if (name == "max") return a > b || (a == b && std::signbit(b)) ? a : b;
  return std::nullopt;
}

}  // namespace

std::optional<uint32_t> folded_arithmetic(const Source& s, const std::array<uint32_t, 2>& operands) {
  if (!is_foldable(s)) return std::nullopt;
  const bool ftz = s.has("ftz");
  float v[2];
  for (unsigned i = 0; i < 2; ++i) {
    v[i] = std::bit_cast<float>(operands[i]);
    if (ftz) v[i] = flush(v[i]);
  }
  auto result = computed(s, v[0], v[1]);
  if (!result || *result != *result) return std::nullopt;
  if (ftz) result = flush(*result);
  if (s.has("sat")) result = *result > 0 ? std::min(*result, 1.f) : 0.f;
  return std::bit_cast<uint32_t>(*result);
}

FoldedDivisor folded_divisor(const Source& s, uint32_t bits) {
  const float b = std::bit_cast<float>(bits);
  float before = 1;
  if (s.has("full") && approx::huge(b)) before = 0.25f;
  if (!s.has("ftz") && approx::subnormal(b)) before = 0x1p24f;
  return {before, kRcp(b * before)};
}

}  // namespace fp4lab::emu
