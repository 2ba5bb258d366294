// The tensor core model of the plain kinds against an oracle that follows its definition in wide arithmetic:
// every term as an exact long integer at a fixed weight.
#include "emulator/engine/mma_float.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "fp4lab/e2m1.h"
#include "fp4lab/ue8m0.h"
#include "numerics/tensor_core.h"

using namespace fp4lab::emu;

namespace {

struct Value {
  long significand;  // integer, `exponent` of its leading place and `fraction` bits
  int exponent, fraction;
};

// Written from the formats' definitions, not from the code under test.
Value parse(uint32_t bits, int e_bits, int m_bits, int bias) {
  const int e = static_cast<int>(bits >> m_bits) & ((1 << e_bits) - 1);
  long m = bits & ((1u << m_bits) - 1);
  if (e) m += 1l << m_bits;
  const int exponent = m == 0 ? -1000 : (e ? e : 1) - bias;
  return {bits >> (e_bits + m_bits) & 1 ? -m : m, exponent, m_bits};
}

// Truncation toward zero of significand * 2^(exponent - fraction) to a multiple of 2^(emax - keep).
long truncated(long significand, int exponent, int fraction, int emax, int keep) {
  const long double v = std::ldexp(static_cast<long double>(significand), exponent - fraction - emax + keep);
  return static_cast<long>(std::trunc(v));
}

float toward_zero(long sum, int weight) {  // sum * 2^weight
  const long double v = std::ldexp(static_cast<long double>(sum), weight);
  float f = static_cast<float>(v);
  if (std::fabs(static_cast<long double>(f)) > std::fabs(v)) f = std::nextafter(f, 0.0f);
  return f;
}

std::vector<uint8_t> from_hex(const std::string& digits) {
  std::vector<uint8_t> bytes;
  if (digits == "-") return bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

const std::map<std::string, ElementFormat> kFormats = {
    {"f16", ElementFormat::f16},   {"bf16", ElementFormat::bf16}, {"tf32", ElementFormat::tf32},
    {"e4m3", ElementFormat::e4m3}, {"e5m2", ElementFormat::e5m2}, {"e2m3", ElementFormat::e2m3},
    {"e3m2", ElementFormat::e3m2}, {"e2m1", ElementFormat::e2m1}, {"u8", ElementFormat::u8},
    {"s8", ElementFormat::s8}};

// A line of tcgen05_b200.txt.
struct Step {
  std::string kind, d, format_a, format_b;
  std::vector<uint8_t> a, b, scale_a, scale_b;
  uint32_t old = 0, want = 0;
  explicit Step(const std::string& line) {
    std::istringstream in(line);
    std::string x, y, sx, sy;
    in >> kind >> d >> format_a >> format_b >> x >> y >> sx >> sy >> std::hex >> old >> want;
    a = from_hex(x), b = from_hex(y), scale_a = from_hex(sx), scale_b = from_hex(sy);
  }
};

// Dense fp4 with a scale for 16 or 32 elements.
uint32_t fp4_step(const Step& s) {
  int products[fp4lab::kMmaGroups] = {};
  uint8_t scale_a[fp4lab::kMmaGroups], scale_b[fp4lab::kMmaGroups];
  for (unsigned k = 0; k < fp4lab::kMmaK; ++k)
    products[k / 16] += fp4lab::e2m1_twice(s.a[k]) * fp4lab::e2m1_twice(s.b[k]);
  for (unsigned g = 0; g < fp4lab::kMmaGroups; ++g) {
    scale_a[g] = s.scale_a[g * s.scale_a.size() / fp4lab::kMmaGroups];
    scale_b[g] = s.scale_b[g * s.scale_b.size() / fp4lab::kMmaGroups];
  }
  const auto scales =
      s.kind.find("ue4m3") == std::string::npos ? fp4lab::ScaleFormat::kUe8m0 : fp4lab::ScaleFormat::kUe4m3;
  return std::bit_cast<uint32_t>(
      fp4lab::mma_step(products, scale_a, scale_b, scales, std::bit_cast<float>(s.old)));
}

// Everything else.
uint32_t plain_step(const Step& s, bool vectors) {
  const uint32_t bytes = s.format_a == "tf32" ? 4 : s.format_a == "f16" || s.format_a == "bf16" ? 2 : 1;
  const auto k = static_cast<uint32_t>(s.a.size()) / bytes;
  MmaElements a, b;
  a.decode(kFormats.at(s.format_a), reinterpret_cast<const std::byte*>(s.a.data()), 1, k, false);
  b.decode(kFormats.at(s.format_b), reinterpret_cast<const std::byte*>(s.b.data()), 1, k, false);
  uint32_t d = s.old;
  if (s.kind == "i8") {
    IntMma f;
    f.a = &a, f.b = &b, f.saturate = s.d == "sat", f.d = &d, f.column_stride = 1;
    mma_int(f);
    return d;
  }
  FloatMma f;
  f.format_a = kFormats.at(s.format_a), f.format_b = kFormats.at(s.format_b);
  f.half_output = s.d == "f16", f.vectors = vectors;
  int32_t scale_a = 0, scale_b = 0;
  uint8_t nan_a = 0, nan_b = 0;
  if (!s.scale_a.empty()) {
    scale_a = fp4lab::ue8m0_exponent(s.scale_a[0]), scale_b = fp4lab::ue8m0_exponent(s.scale_b[0]);
    nan_a = fp4lab::ue8m0_is_nan(s.scale_a[0]), nan_b = fp4lab::ue8m0_is_nan(s.scale_b[0]);
    f.scale_a = &scale_a, f.scale_b = &scale_b, f.nan_a = &nan_a, f.nan_b = &nan_b;
  }
  f.a = &a, f.b = &b, f.d = &d, f.column_stride = 1;
  mma_float(f);
  return d;
}

struct Case {
  ElementFormat format;
  int e_bits, m_bits, bias, bytes;
  uint32_t k;
};

}  // namespace

TEST_CASE("one instruction is the model, bit for bit") {
  const Case cases[] = {{ElementFormat::f16, 5, 10, 15, 2, 16}, {ElementFormat::bf16, 8, 7, 127, 2, 16},
                        {ElementFormat::e4m3, 4, 3, 7, 1, 32},  {ElementFormat::e5m2, 5, 2, 15, 1, 32},
                        {ElementFormat::e2m3, 2, 3, 1, 1, 32},  {ElementFormat::e3m2, 3, 2, 3, 1, 32},
                        {ElementFormat::e2m1, 2, 1, 1, 1, 32}};
  std::mt19937 rng(7);
  for (const Case& c : cases)
    for (int fraction_bits : {25, 13}) {
      if (fraction_bits == 13 && c.bytes == 2) continue;
      const uint32_t rows = 37, columns = 9;
      std::vector<std::byte> a(rows * c.k * c.bytes), b(columns * c.k * c.bytes);
      auto fill = [&](std::vector<std::byte>& v) {
        for (size_t i = 0; i < v.size(); i += c.bytes) {
          uint32_t bits = rng() & ((2u << (c.e_bits + c.m_bits)) - 1);
          if (c.bytes == 2)
            bits = (bits & ~(0x7u << (c.m_bits + c.e_bits - 3))) | 3u << (c.m_bits + c.e_bits - 3);  // near 1
          if (c.format == ElementFormat::e4m3 && (bits & 0x7f) == 0x7f) bits = 0;
          if (c.format == ElementFormat::e5m2 && (bits & 0x7c) == 0x7c) bits = 0;
          std::memcpy(&v[i], &bits, c.bytes);
        }
      };
      fill(a), fill(b);
      MmaElements da, db;
      da.decode(c.format, a.data(), rows, c.k, false);
      db.decode(c.format, b.data(), columns, c.k, true);
      std::vector<uint32_t> d(rows * columns), want(rows * columns);
      for (uint32_t& x : d)
        x = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int>(rng() % 2001) - 1000) * 0.3f);
      for (uint32_t n = 0; n < columns; ++n)
        for (uint32_t m = 0; m < rows; ++m) {
          auto element = [&](const std::vector<std::byte>& v, uint32_t row, uint32_t k) {
            uint32_t bits = 0;
            std::memcpy(&bits, &v[(row * c.k + k) * c.bytes], c.bytes);
            return parse(bits, c.e_bits, c.m_bits, c.bias);
          };
          const Value old = parse(d[n * rows + m], 8, 23, 127);
          int emax = std::max(old.exponent, -133);
          for (uint32_t k = 0; k < c.k; ++k)
            emax = std::max(emax, element(a, m, k).exponent + element(b, n, k).exponent);
          long sum = truncated(old.significand, old.exponent, old.fraction, emax, fraction_bits);
          for (uint32_t k = 0; k < c.k; ++k) {
            const Value x = element(a, m, k), y = element(b, n, k);
            sum -= truncated(x.significand * y.significand, x.exponent + y.exponent, x.fraction + y.fraction,
                             emax,
                             fraction_bits);  // B is negated
          }
          want[n * rows + m] = std::bit_cast<uint32_t>(toward_zero(sum, emax - fraction_bits) + 0.0f);
        }
      FloatMma f;
      f.format_a = f.format_b = c.format;
      f.fraction_bits = fraction_bits;
      f.a = &da, f.b = &db, f.d = d.data(), f.column_stride = rows;
      f.output_bits = fraction_bits == 13 ? 13 : 23;
      if (fraction_bits == 13)
        for (uint32_t& x : want) x &= ~0x3ffu;
      std::vector<uint32_t> portable = d;
      mma_float(f);
      f.vectors = false, f.d = portable.data();
      mma_float(f);
      CAPTURE(static_cast<int>(c.format));
      CAPTURE(fraction_bits);
      CHECK(d == want);
      CHECK(portable == want);
    }
}

TEST_CASE("special values, fp16 results and scales") {
  auto one = [](uint16_t a, uint16_t b, uint32_t c, bool half) {
    std::vector<uint16_t> x(16, 0), y(16, 0);
    x[3] = a, y[3] = b;
    MmaElements da, db;
    da.decode(ElementFormat::f16, reinterpret_cast<std::byte*>(x.data()), 1, 16, false);
    db.decode(ElementFormat::f16, reinterpret_cast<std::byte*>(y.data()), 1, 16, false);
    FloatMma f;
    f.a = &da, f.b = &db, f.d = &c, f.column_stride = 1, f.half_output = half;
    mma_float(f);
    return c;
  };
  CHECK(one(0x7c00, 0x3c00, 0, false) == 0x7f800000);           // inf * 1
  CHECK(one(0x7c00, 0x0000, 0, false) == 0x7fffffff);           // inf * 0
  CHECK(one(0xfc00, 0x3c00, 0x7f800000, false) == 0x7fffffff);  // inf - inf
  CHECK(one(0x3c00, 0x3c00, 0x7fc12345, false) == 0x7fffffff);  // NaN accumulator
  CHECK(one(0x3c00, 0xbc00, 0x3f800000, false) == 0);           // 1 - 1 is +0
  CHECK(one(0x3c00, 0x3c00, 0x3c00, true) == 0x4000);           // fp16: 1 + 1
  CHECK(one(0x7bff, 0x4000, 0, true) == 0x7c00);                // overflow
  CHECK(one(0x3c01, 0x3800, 0, true) == 0x3801);                // 1.001 * 0.5 is exact
  CHECK(one(0x0001, 0x3c00, 0x33800000, false) == 0x34000000);  // 2^-24 + 2^-24

  std::vector<uint8_t> x(32, 0x38), y(32, 0x38);  // e4m3 ones
  MmaElements da, db;
  da.decode(ElementFormat::e4m3, reinterpret_cast<std::byte*>(x.data()), 1, 32, false);
  db.decode(ElementFormat::e4m3, reinterpret_cast<std::byte*>(y.data()), 1, 32, false);
  const int32_t scale_a = 5, scale_b = -2;
  uint32_t d = 0;
  FloatMma f;
  f.format_a = f.format_b = ElementFormat::e4m3;
  f.a = &da, f.b = &db, f.d = &d, f.column_stride = 1, f.scale_a = &scale_a, f.scale_b = &scale_b,
  f.accumulate = false;
  mma_float(f);
  CHECK(std::bit_cast<float>(d) == 256.0f);
  const uint8_t nan = 1;
  f.nan_a = &nan;
  mma_float(f);
  CHECK(d == 0x7fffffff);
}

TEST_CASE("vector and portable code agree on every kind of accumulator and distant exponents") {
  std::mt19937 rng(17);
  for (int round = 0; round < 60; ++round) {
    const bool bf16 = round % 2;
    const uint32_t rows = 16 + round % 7, columns = 11;
    std::vector<uint16_t> x(rows * 16), y(columns * 16);
    for (auto* v : {&x, &y})
      for (uint16_t& h : *v) {
        h = static_cast<uint16_t>(rng());
        if (rng() % 3 == 0) h = 0;
        if (round % 5 && (h & (bf16 ? 0x7f80 : 0x7c00)) == (bf16 ? 0x7f80 : 0x7c00)) h &= 0x83ff;
      }
    MmaElements a, b;
    const ElementFormat format = bf16 ? ElementFormat::bf16 : ElementFormat::f16;
    a.decode(format, reinterpret_cast<std::byte*>(x.data()), rows, 16, false);
    b.decode(format, reinterpret_cast<std::byte*>(y.data()), columns, 16, round % 3 == 0);
    std::vector<uint32_t> d(rows * columns);
    for (uint32_t& v : d) {
      v = static_cast<uint32_t>(rng());
      if (rng() % 8 == 0) v &= 0x807fffff;  // denormal
      if (rng() % 8 == 0) v &= 0x80000000;
    }
    std::vector<uint32_t> portable = d;
    FloatMma f;
    f.format_a = f.format_b = format;
    f.a = &a, f.b = &b, f.column_stride = rows;
    f.accumulate = round % 4 != 0, f.scale_input_d = round % 11 == 0 ? 7 : 0;
    f.d = d.data();
    mma_float(f);
    f.d = portable.data(), f.vectors = false;
    mma_float(f);
    CAPTURE(round);
    CHECK(d == portable);
  }
}

TEST_CASE("results of an H200") {
  std::ifstream file("tests/emulator/data/wgmma_h200.txt");
  REQUIRE_MESSAGE(file, "run the tests from the project's folder");
  unsigned lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    std::istringstream in(line);
    std::string d, a, b, bytes_a, bytes_b;
    uint32_t old, want;
    in >> d >> a >> b >> bytes_a >> bytes_b >> std::hex >> old >> want;
    const std::vector<uint8_t> x = from_hex(bytes_a), y = from_hex(bytes_b);
    const bool fp8 = a[0] == 'e';
    const uint32_t k = fp8 ? 32 : a == "tf32" ? 8 : 16;
    MmaElements da, db;
    da.decode(kFormats.at(a), reinterpret_cast<const std::byte*>(x.data()), 1, k, false);
    db.decode(kFormats.at(b), reinterpret_cast<const std::byte*>(y.data()), 1, k, false);
    for (bool vectors : {true, false}) {
      uint32_t got = old;
      FloatMma f;
      f.format_a = kFormats.at(a), f.format_b = kFormats.at(b);
      if (fp8) f.fraction_bits = f.output_bits = 13;
      f.half_output = d == "f16", f.vectors = vectors;
      f.a = &da, f.b = &db, f.d = &got, f.column_stride = 1;
      mma_float(f);
      CAPTURE(line);
      CHECK(got == want);
    }
    ++lines;
  }
  CHECK(lines == 320);
}

TEST_CASE("results of a B200") {
  std::ifstream file("tests/emulator/data/tcgen05_b200.txt");
  REQUIRE_MESSAGE(file, "run the tests from the project's folder");
  unsigned lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    if (line[0] == '#') continue;
    const Step s(line);
    CAPTURE(line);
    if (s.kind.starts_with("mxf4")) {
      CHECK(fp4_step(s) == s.want);
    } else {
      CHECK(plain_step(s, true) == s.want);
      CHECK(plain_step(s, false) == s.want);
    }
  }
  CHECK(lines == 63);
}
