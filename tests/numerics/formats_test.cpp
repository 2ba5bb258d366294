// The number formats, tried completely, against their definition and against CUDA's own host conversions.
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "fp4lab/e2m1.h"
#include "fp4lab/half.h"
#include "fp4lab/ue4m3.h"
#include "fp4lab/ue8m0.h"
#include "numerics/half_bulk.h"

using namespace fp4lab;

namespace {

// A value and its two neighbours, with both signs.
std::vector<float> around(const std::vector<float>& centres) {
  std::vector<float> all;
  for (float c : centres)
    for (float v : {std::nextafter(c, -INFINITY), c, std::nextafter(c, INFINITY)}) {
      all.push_back(v);
      all.push_back(-v);
    }
  for (float v : {0.0f, -0.0f, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, FLT_MIN,
                  std::numeric_limits<float>::denorm_min()})
    all.push_back(v);
  return all;
}

std::vector<float> random_floats(int count) {
  std::mt19937 random(7);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    const float v = std::bit_cast<float>(std::uint32_t(random()));
    if (!std::isnan(v)) values.push_back(v);
    values.push_back(std::ldexp(float(random() % 8192) / 1024.0f, int(random() % 24) - 12));
  }
  return values;
}

float cuda_half_to_float(std::uint16_t h) {
  __half_raw raw;
  raw.x = h;
  return __half2float(__half(raw));
}
std::uint16_t cuda_half_from_float(float v) { return __half_raw(__float2half_rn(v)).x; }

}  // namespace

TEST_CASE("e2m1: all 16 codes have the documented value, twice it is an integer, and encode inverts decode") {
  const float want[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (unsigned code = 0; code < 16; ++code) {
    CAPTURE(code);
    const float magnitude = want[code & 7];
    CHECK(std::fabs(e2m1_value(code)) == magnitude);
    CHECK(std::signbit(e2m1_value(code)) == (code >= 8));
    CHECK(float(e2m1_twice(code)) == 2 * e2m1_value(code));
    CHECK(e2m1_encode(e2m1_value(code)) == code);
    const __half_raw cuda = __nv_cvt_fp4_to_halfraw(__nv_fp4_storage_t(code), __NV_E2M1);
    CHECK(cuda_half_to_float(cuda.x) == e2m1_value(code));
  }
}

TEST_CASE("e2m1: all 16 x 16 products are quarters of an integer") {
  for (unsigned a = 0; a < 16; ++a)
    for (unsigned b = 0; b < 16; ++b)
      CHECK(0.25f * float(e2m1_twice(a) * e2m1_twice(b)) == e2m1_value(a) * e2m1_value(b));
}

TEST_CASE(
    "e2m1: every rounding boundary, its neighbours and random floats encode as CUDA's host conversion does") {
  std::vector<float> values =
      around({0, 0.25f, 0.5f, 0.75f, 1, 1.25f, 1.5f, 1.75f, 2, 2.5f, 3, 3.5f, 4, 5, 6, 7});
  for (float v : random_floats(200000)) values.push_back(v);
  int wrong = 0;
  for (float v : values) {
    const auto cuda = __nv_cvt_float_to_fp4(v, __NV_E2M1, cudaRoundNearest);
    if (e2m1_encode(v) != cuda && wrong++ < 5)
      FAIL_CHECK(v << " -> " << int(e2m1_encode(v)) << ", CUDA " << int(cuda));
  }
  CHECK(wrong == 0);
  CHECK(e2m1_encode(NAN) == 7);
  CHECK(e2m1_encode(-NAN) == 7);
  CHECK(e2m1_encode(2.5f) == 4);  // ties go to the even code
  CHECK(e2m1_encode(3.5f) == 6);
  CHECK(e2m1_encode(5.0f) == 6);
}

TEST_CASE("e2m1: packing puts the even element in the low nibble") {
  for (unsigned even = 0; even < 16; ++even)
    for (unsigned odd = 0; odd < 16; ++odd) {
      const unsigned char byte = e2m1_pack(even, odd);
      CHECK(byte == even + 16 * odd);
      CHECK(e2m1_unpack(&byte, 0) == even);
      CHECK(e2m1_unpack(&byte, 1) == odd);
    }
}

TEST_CASE("ue4m3: all 256 codes decode as the definition and as CUDA do") {
  for (unsigned code = 0; code < 256; ++code) {
    CAPTURE(code);
    const __half_raw cuda = __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t(code), __NV_E4M3);
    if (e4m3_is_nan(code)) {
      CHECK(std::isnan(e4m3_value(code)));
      CHECK(half_is_nan(cuda.x));
      continue;
    }
    const int field = int(code >> 3) & 15, m = int(code & 7);
    const double want = field ? std::ldexp(1 + m / 8.0, field - 7) : m * 0x1p-9;
    CHECK(double(ue4m3_value(code)) == want);
    CHECK(ue4m3_fixed(code) == want * 512);
    CHECK(std::ldexp(ue4m3_significand(code) / 8.0, ue4m3_exponent(code)) == want);
    CHECK(e4m3_value(code) == cuda_half_to_float(cuda.x));
    CHECK(e4m3_encode(e4m3_value(code)) == code);
  }
  CHECK(ue4m3_value(kE4m3MaxCode) == 448.0f);
}

TEST_CASE(
    "ue4m3: every rounding boundary, its neighbours and random floats encode as CUDA's host conversion "
    "does") {
  std::vector<float> centres = {464.0f, 480.0f, 512.0f, 0x1p-10f, 0x1p-11f};
  for (unsigned code = 0; code < 0x7E; ++code) {
    centres.push_back(ue4m3_value(code));
    centres.push_back(0.5f * (ue4m3_value(code) + ue4m3_value(code + 1)));
  }
  std::vector<float> values = around(centres);
  for (float v : random_floats(200000)) values.push_back(v);
  int wrong = 0;
  for (float v : values) {
    const auto cuda = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    if (e4m3_encode(v) != cuda && wrong++ < 5)
      FAIL_CHECK(v << " -> " << int(e4m3_encode(v)) << ", CUDA " << int(cuda));
    if (v >= 0 && ue4m3_encode(v) != (cuda & 0x7F)) ++wrong;
    if (v < 0 && ue4m3_encode(v) != 0) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(e4m3_encode(NAN) == 0x7F);
  CHECK(ue4m3_encode(-0.0f) == 0);
}

TEST_CASE("ue8m0: all 256 codes, and both roundings as CUDA's host conversion") {
  std::vector<float> centres;
  for (unsigned code = 0; code < 255; ++code) {
    CAPTURE(code);
    CHECK(double(ue8m0_value(code)) == std::ldexp(1.0, int(code) - 127));
    CHECK(ue8m0_exponent(code) == int(code) - 127);
    for (Ue8m0Round round : {Ue8m0Round::kTowardZero, Ue8m0Round::kUp})
      CHECK(ue8m0_encode(ue8m0_value(code), round) == code);
    centres.push_back(ue8m0_value(code));
    if (code < 254) centres.push_back(1.5f * ue8m0_value(code));
  }
  CHECK(std::isnan(ue8m0_value(255)));
  std::vector<float> values = around(centres);
  for (float v : random_floats(100000)) values.push_back(v);
  int wrong = 0;
  for (float v : values) {
    const auto down = __nv_cvt_float_to_e8m0(v, __NV_SATFINITE, cudaRoundZero);
    const auto up = __nv_cvt_float_to_e8m0(v, __NV_SATFINITE, cudaRoundPosInf);
    if ((ue8m0_encode(v, Ue8m0Round::kTowardZero) != down || ue8m0_encode(v, Ue8m0Round::kUp) != up) &&
        wrong++ < 5)
      FAIL_CHECK(v << " -> " << int(ue8m0_encode(v, Ue8m0Round::kTowardZero)) << " "
                   << int(ue8m0_encode(v, Ue8m0Round::kUp)) << ", CUDA " << int(down) << " " << int(up));
  }
  CHECK(wrong == 0);
  CHECK(ue8m0_encode(NAN, Ue8m0Round::kUp) == 0xFF);
}

TEST_CASE(
    "half: all 65536 patterns decode as CUDA does and encode back to themselves from every source type") {
  int wrong = 0;
  for (unsigned h = 0; h < 65536; ++h) {
    const auto pattern = std::uint16_t(h);
    const float value = half_to_float(pattern);
    if (half_is_nan(pattern)) {
      if (!std::isnan(value) || half_from_float(value) != kHalfNan || half_from_double(value) != kHalfNan)
        ++wrong;
      continue;
    }
    if (std::bit_cast<std::uint32_t>(value) != std::bit_cast<std::uint32_t>(cuda_half_to_float(pattern)))
      ++wrong;
    if (half_from_float(value) != pattern || half_from_double(double(value)) != pattern) ++wrong;
    if (std::isfinite(value) && value != 0 && half_from_fixed(Int128(std::ldexp(value, 24)), -24) != pattern)
      ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("half: every midpoint and its neighbours round to even, from float, double and an exact integer") {
  int wrong = 0;
  for (unsigned h = 0; h < 0x7C00; ++h) {
    const double low = half_to_float(std::uint16_t(h));
    const double high = h == 0x7BFF ? 65536.0 : double(half_to_float(std::uint16_t(h + 1)));
    const double middle = 0.5 * (low + high);
    const unsigned even = h & 1 ? h + 1 : h;
    for (int sign : {0, 0x8000}) {
      const double s = sign ? -1 : 1;
      if (half_from_float(float(s * middle)) != (even | sign)) ++wrong;
      if (half_from_float(std::nextafter(float(s * middle), float(s * low))) != (h | sign)) ++wrong;
      if (half_from_float(std::nextafter(float(s * middle), float(s * high))) != ((h + 1) | sign)) ++wrong;
      if (half_from_float(float(s * middle)) != cuda_half_from_float(float(s * middle))) ++wrong;
      if (half_from_double(s * middle) != (even | sign)) ++wrong;
      if (half_from_double(std::nextafter(s * middle, s * high)) != ((h + 1) | sign)) ++wrong;
      // 2^-90 above and below the midpoint: visible only to the exact conversion.
      const Int128 wide = Int128(std::ldexp(middle, 25)) * (Int128(1) << 65);
      for (int nudge : {-1, 0, 1}) {
        const Int128 value = (wide + nudge) * (sign ? -1 : 1);
        const unsigned want = nudge < 0 ? h : nudge > 0 ? h + 1 : even;
        if (half_from_fixed(value, -90) != (want | sign)) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("half: many sums at once round as one sum does, at every width and around every tie") {
  std::mt19937_64 random(9);
  std::vector<std::int64_t> sums = {0, 1, -1, INT64_MAX, -INT64_MAX};
  for (int i = 0; i < 200000; ++i)
    sums.push_back(std::int64_t(random() >> (1 + random() % 62)) * (random() & 1 ? 1 : -1));
  for (int shift = 0; shift < 50; ++shift)
    for (int odd = 1; odd < 8192; odd += 2)
      for (int nudge : {-1, 0, 1}) sums.push_back((std::int64_t(odd) << shift) + nudge);
  for (Simd simd : simd_levels())
    for (int exponent : {-20, -45, -60, 0}) {
      std::vector<std::uint16_t> got(sums.size());
      halves_from_fixed(sums.data(), sums.size(), exponent, got.data(), simd);
      int wrong = 0;
      for (std::size_t i = 0; i < sums.size(); ++i) wrong += got[i] != half_from_fixed(sums[i], exponent);
      CHECK(wrong == 0);
    }
}

TEST_CASE("half: a double just above a float midpoint must not round twice") {
  const double value = 1.0 + 0x1p-11 + 0x1p-40;  // as a float this is the tie 1 + 2^-11, which would go to 1
  CHECK(half_from_double(value) == 0x3C01);
  CHECK(half_from_float(float(value)) == 0x3C00);
  std::mt19937_64 random(10);
  for (int i = 0; i < 200000; ++i) {  // any double, and many near a tie
    double any = std::bit_cast<double>(random());
    if (i & 1)
      any = std::ldexp(double(random() % 8192) + (int(random() % 3) - 1) * 0x1p-30, int(random() % 50) - 40);
    if (!std::isfinite(any)) continue;
    int exponent = 0;
    const double fraction = std::frexp(any, &exponent);
    const auto want = half_from_fixed(Int128(std::ldexp(fraction, 53)), exponent - 53);
    REQUIRE(half_from_double(any) == (any == 0 ? (std::signbit(any) ? 0x8000 : 0) : want));
  }
  CHECK(half_from_double(1e300) == kHalfInfinity);
  CHECK(half_from_double(-5e-324) == 0x8000);
  CHECK(half_from_fixed(0, 5) == 0);
  CHECK(half_from_fixed(-1, -200) == 0x8000);
  CHECK(half_from_fixed(1, 200) == kHalfInfinity);
}

TEST_CASE("fp32 from an exact integer agrees with the compiler's own rounding") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    const auto v = std::int64_t(random() >> (random() % 63)) * (random() & 1 ? 1 : -1);
    CHECK(float_from_fixed(v, 0) == float(v));
  }
  CHECK(float_from_fixed(3, -150) == 0x1p-148f);  // 1.5 * 2^-149 ties to the even denormal
  CHECK(std::isinf(float_from_fixed(1, 128)));
}
