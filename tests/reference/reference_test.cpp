// Every path of the reference against sums that are taken one product at a time in 128-bit integers.
#include "fp4lab/reference.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>

#include "fp4lab/compare.h"
#include "fp4lab/error.h"
#include "fp4lab/half.h"
#include "fp4lab/ue4m3.h"
#include "numerics/tensor_core.h"

using namespace fp4lab;

namespace {

// Decoded here from the formats' definition, in units of 1/2 and 2^-9, so that nothing is shared with the
// code under test.
int code_units(const Operand& m, int row, int k) {
  const int byte = m.codes[std::size_t(row) * m.k / 2 + k / 2];
  const int code = k % 2 ? byte / 16 : byte % 16;
  const int exponent = code / 2 % 4, mantissa = code % 2;
  const int magnitude = exponent == 0 ? mantissa : (2 + mantissa) << (exponent - 1);
  return code >= 8 ? -magnitude : magnitude;
}
std::int64_t scale_units(const Operand& m, int row, int k) {
  const int code = m.scales[std::size_t(row) * m.k / 16 + k / 16] % 128;
  const int exponent = code / 8, mantissa = code % 8;
  return exponent == 0 ? mantissa : std::int64_t(8 + mantissa) << (exponent - 1);
}
bool is_nan(const Operand& m, int row) {
  for (int k = 0; k < m.k; k += 16)
    if (m.scales[(std::size_t(row) * m.k + k) / 16] % 128 == 127) return true;
  return false;
}

// In units of 2^-20.
Int128 exact_sum(const Operand& a, const Operand& b, int i, int j) {
  Int128 sum = 0;
  for (int k = 0; k < a.k; ++k)
    sum += Int128(code_units(a, i, k) * code_units(b, j, k)) * scale_units(a, i, k) * scale_units(b, j, k);
  return sum;
}
float tensor_core_sum(const Operand& a, const Operand& b, int i, int j) {
  float c = 0;
  for (int k = 0; k < a.k; k += 64) {
    int d4[4] = {};
    std::uint8_t sfa[4] = {}, sfb[4] = {};
    for (int g = 0; g < 4 && k + g * 16 < a.k; ++g) {
      for (int e = 0; e < 16; ++e)
        d4[g] += code_units(a, i, k + g * 16 + e) * code_units(b, j, k + g * 16 + e);
      sfa[g] = a.scales[(std::size_t(i) * a.k + k) / 16 + g];
      sfb[g] = b.scales[(std::size_t(j) * b.k + k) / 16 + g];
    }
    c = mma_step(d4, sfa, sfb, ScaleFormat::kUe4m3, c);
  }
  return c;
}

std::uint32_t bits(float v) { return std::bit_cast<std::uint32_t>(v); }

void check_all(const Operand& a, const Operand& b, const std::string& what, float alpha = 1.0f) {
  std::vector<std::uint16_t> exact, tensor;
  std::vector<float> exact32, tensor32;
  int exponent = 0;
  const Int128 significand = Int128(std::ldexp(std::frexp(alpha, &exponent), 24));
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < b.rows; ++j) {
      const bool nan = is_nan(a, i) || is_nan(b, j);
      const Int128 sum = exact_sum(a, b, i, j) * significand;
      exact.push_back(nan ? 0x7FFF : half_from_fixed(sum, exponent - 44));
      exact32.push_back(nan ? std::bit_cast<float>(0x7FFFFFFF) : float_from_fixed(sum, exponent - 44));
      float t = tensor_core_sum(a, b, i, j);
      if (!nan) t *= alpha;
      tensor32.push_back(t);
      tensor.push_back(half_from_float(t));
    }
  for (Simd simd : simd_levels())
    for (int threads : {1, 3}) {
      INFO(fmt::format("{}, {}, {} threads, {} x {} x {}, alpha {}", what, simd_name(simd), threads, a.rows,
                       b.rows, a.k, alpha));
      const ReferenceOptions e{Rounding::kExact, alpha, threads, simd},
          t{Rounding::kTensorCore, alpha, threads, simd};
      const auto check16 = [&](const std::vector<std::uint16_t>& got,
                               const std::vector<std::uint16_t>& want) {
        const Comparison c = compare_half(got, want, a.rows, b.rows);
        INFO(c.describe());
        REQUIRE(c.bit_exact());
      };
      check16(reference_gemm(a, b, e), exact);
      check16(reference_gemm(a, b, t), tensor);
      const std::vector<float> e32 = reference_gemm_f32(a, b, e), t32 = reference_gemm_f32(a, b, t);
      for (std::size_t i = 0; i < e32.size(); ++i) {
        REQUIRE(bits(e32[i]) == bits(exact32[i]));
        REQUIRE(bits(t32[i]) == bits(tensor32[i]));
      }
    }
}

struct Size {
  int m, n, k;
};
const Size kSizes[] = {{1, 1, 16},    {3, 17, 64},  {5, 16, 80},  {16, 8, 128},
                       {33, 31, 208}, {257, 3, 64}, {2, 40, 1040}};

}  // namespace

TEST_CASE(
    "reference: every distribution, sizes off every vector width, all instruction sets, both roundings") {
  std::uint64_t seed = 1;
  for (Distribution d : distributions())
    for (const Size& s : kSizes) {
      ++seed;
      check_all(random_operand(s.m, s.k, d, seed, 0), random_operand(s.n, s.k, d, seed, 1),
                std::string(distribution_name(d)));
    }
}

TEST_CASE("reference: alpha is part of the one rounding") {
  for (float alpha : {0.5f, 0x1.234568p-7f, -3.0f, 0x1p-40f, 1e30f, 0.0f})
    check_all(random_operand(9, 192, Distribution::kFull, 5, 0),
              random_operand(11, 192, Distribution::kFull, 5, 1), "alpha", alpha);
}

TEST_CASE("reference: NaN scales, sign bits of scales, zero scales and zero blocks of the largest scale") {
  std::mt19937 random(6);
  for (int trial = 0; trial < 6; ++trial) {
    Operand a = random_operand(20, 320, Distribution::kFull, trial, 0),
            b = random_operand(23, 320, Distribution::kFull, trial, 1);
    for (Operand* m : {&a, &b})
      for (std::size_t s = 0; s < m->scales.size(); ++s) {
        if (random() % 4 == 0) {
          m->scales[s] = 0x7E;
          std::fill_n(m->codes.begin() + std::ptrdiff_t(s * 8), 8, std::uint8_t(random() % 2 ? 0x80 : 0));
        } else if (trial >= 2) {
          m->scales[s] =
              std::uint8_t(random() % 3 ? random() % 16 : 0);  // tiny, so that the large zero blocks cut
        }
        if (trial % 2 && random() % 5 == 0) m->scales[s] |= 0x80;
        if (trial == 3 && random() % 150 == 0) m->scales[s] = random() % 2 ? 0x7F : 0xFF;
      }
    check_all(a, b, fmt::format("trial {}", trial));
  }
}

TEST_CASE("reference: blocks that cancel leave only what is small") {
  // B's second half repeats the first with opposite signs, except in one block: large terms vanish exactly.
  Operand a = random_operand(18, 512, Distribution::kFull, 8, 0),
          b = random_operand(21, 512, Distribution::kFull, 8, 1);
  for (Operand* m : {&a, &b})
    for (int row = 0; row < m->rows; ++row) {
      for (int i = 0; i < 128; ++i)
        m->codes[std::size_t(row) * 256 + 128 + i] =
            m->codes[std::size_t(row) * 256 + i] ^ (m == &b ? 0x88 : 0);
      for (int s = 0; s < 16; ++s)
        m->scales[std::size_t(row) * 32 + 16 + s] = m->scales[std::size_t(row) * 32 + s];
      m->codes[std::size_t(row) * 256 + 255] = 0x11;
    }
  check_all(a, b, "cancelling");
}

TEST_CASE("reference: with moderate scales and K up to 1024 both roundings give the same bits") {
  for (int k : {64, 512, 1024}) {
    const Operand a = random_operand(64, k, Distribution::kModerate, 3, 0),
                  b = random_operand(200, k, Distribution::kModerate, 3, 1);
    const auto exact = reference_gemm_f32(a, b, {Rounding::kExact});
    const auto tensor = reference_gemm_f32(a, b, {Rounding::kTensorCore});
    for (std::size_t i = 0; i < exact.size(); ++i) REQUIRE(bits(exact[i]) == bits(tensor[i]));
    CHECK(compare_half(reference_gemm(a, b, {Rounding::kTensorCore}), reference_gemm(a, b), 64, 200)
              .bit_exact());
  }
}

TEST_CASE("reference: with wide scales the two roundings differ, so a check can tell them apart") {
  const Operand a = random_operand(64, 4096, Distribution::kFull, 3, 0),
                b = random_operand(64, 4096, Distribution::kFull, 3, 1);
  const auto exact = reference_gemm_f32(a, b, {Rounding::kExact}),
             tensor = reference_gemm_f32(a, b, {Rounding::kTensorCore});
  int different = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) different += bits(exact[i]) != bits(tensor[i]);
  CHECK(different > 64 * 64 / 2);
}

TEST_CASE("reference: long K, where every kind of accumulator has to be flushed") {
  for (Distribution d : distributions())
    check_all(random_operand(2, 16384, d, 12, 0), random_operand(9, 16384, d, 12, 1),
              std::string(distribution_name(d)));
  // All at the largest value: the bound itself.
  Operand a = make_operand(2, 16384), b = make_operand(9, 16384);
  for (Operand* m : {&a, &b}) {
    std::fill(m->codes.begin(), m->codes.end(), std::uint8_t(0x77));
    std::fill(m->scales.begin(), m->scales.end(), std::uint8_t(0x7E));
    m->scales[3] = 1;
  }
  check_all(a, b, "largest");
}

TEST_CASE("reference: a lowest bit added at the peak of the largest possible sum survives") {
  // Up by half of K at the top of the range, one product of 2^-20, and down again: what is left is that
  // product.
  const int k = 16384;
  Operand a = make_operand(2, k), b = make_operand(9, k);
  for (Operand* m : {&a, &b}) {
    std::fill(m->codes.begin(), m->codes.end(), std::uint8_t(0x77));
    std::fill(m->scales.begin(), m->scales.end(), std::uint8_t(0x7E));
    for (int row = 0; row < m->rows; ++row) {
      std::uint8_t* codes = m->codes.data() + std::size_t(row) * k / 2;
      std::uint8_t* scales = m->scales.data() + std::size_t(row) * k / 16;
      std::fill_n(codes, 16, std::uint8_t(0));          // groups 0 and 1, so that as many go up as go down,
      std::fill_n(codes + k / 4, 16, std::uint8_t(0));  // and 512 and 513
      codes[k / 4] = 1, scales[512] = 1;
      if (m == &b) std::fill_n(codes + k / 4 + 16, k / 4 - 16, std::uint8_t(0xFF));
    }
  }
  check_all(a, b, "peak");
  CHECK(exact_sum(a, b, 0, 0) == 1);
}

TEST_CASE("reference: sums beyond 31 bits of the lowest bit, where terms are far below") {
  Operand a = make_operand(2, 16384), b = make_operand(9, 16384);
  for (Operand* m : {&a, &b}) {
    std::fill(m->codes.begin(), m->codes.end(), std::uint8_t(0x77));
    std::fill(m->scales.begin(), m->scales.end(), std::uint8_t(71));  // 3.75
    m->scales[3] = 41;                                                // 0.28125: the lowest bit is 2^-5
  }
  check_all(a, b, "31 bits");
}

TEST_CASE("reference: the largest code is seen wherever it stands in a byte or word") {
  for (int position = 0; position < 32; ++position) {
    Operand a = make_operand(3, 64), b = make_operand(5, 64);
    for (Operand* m : {&a, &b}) {
      std::fill(m->codes.begin(), m->codes.end(), std::uint8_t(0));
      std::fill(m->scales.begin(), m->scales.end(), std::uint8_t(0x3B));
      for (int row = 0; row < m->rows; ++row)
        m->codes[std::size_t(row) * 32 + position / 2] = position % 2 ? 0x70 : 0x07;
    }
    check_all(a, b, fmt::format("position {}", position));
  }
}

TEST_CASE("reference: K beyond what int8 digit products can sum") {
  Operand a = make_operand(1, 196608), b = make_operand(1, 196608);
  for (Operand* m : {&a, &b}) {
    std::fill(m->codes.begin(), m->codes.end(), std::uint8_t(0x77));
    std::fill(m->scales.begin(), m->scales.end(), std::uint8_t(0x39));  // 9/8: the digit is 12 * 9
  }
  check_all(a, b, "long");
}

TEST_CASE("reference: dual GEMM is silu(A B1) * (A B2), and not A B") {
  for (Distribution d : distributions())
    for (Simd simd : simd_levels()) {
      const Operand a = random_operand(21, 336, d, 4, 0), b1 = random_operand(37, 336, d, 4, 1),
                    b2 = random_operand(37, 336, d, 4, 2);
      std::vector<std::uint16_t> exact, tensor;
      for (int i = 0; i < a.rows; ++i)
        for (int j = 0; j < b1.rows; ++j) {
          const auto dual = [](double x, double y) { return half_from_double(x / (1 + std::exp(-x)) * y); };
          exact.push_back(
              dual(double(exact_sum(a, b1, i, j)) * 0x1p-20, double(exact_sum(a, b2, i, j)) * 0x1p-20));
          tensor.push_back(dual(tensor_core_sum(a, b1, i, j), tensor_core_sum(a, b2, i, j)));
        }
      CHECK(
          compare_half(reference_dual(a, b1, b2, {Rounding::kExact, 1, 2, simd}), exact, 21, 37).bit_exact());
      CHECK(compare_half(reference_dual(a, b1, b2, {Rounding::kTensorCore, 1, 2, simd}), tensor, 21, 37)
                .bit_exact());
      CHECK_FALSE(compare_half(reference_gemm(a, b1), exact, 21, 37).passed());
    }
}

TEST_CASE("reference: a whole problem, and operands that do not belong together") {
  const Problem problem = make_problem(find_case("group:5,40/128,256/256"), Distribution::kFull, 1);
  const auto c = reference(problem);
  REQUIRE(c.size() == 2);
  CHECK(c[1] == reference_gemm(problem.groups[1].a, problem.groups[1].b));
  const Operand a = random_operand(2, 64, Distribution::kFull, 1, 0),
                b = random_operand(2, 80, Distribution::kFull, 1, 0);
  CHECK_THROWS_WITH_AS(reference_gemm(a, b), doctest::Contains("K 64"), Error);
  CHECK_THROWS_AS(reference_gemm(a, a, {Rounding::kExact, INFINITY}), Error);
  CHECK(reference_gemm(make_operand(0, 64), a).empty());
}
