// Is this fp16 output right, and if not: where, by how much, and how often?
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace fp4lab {

// Fill an output with this before a kernel writes it (memset 0xFD does): a NaN whose payload no conversion
// produces.
inline constexpr std::uint16_t kHalfPoison = 0xFDFD;

struct Tolerance {
  double rtol = 1e-3;  // |got - want| <= atol + rtol * |want|, on the fp16 values
  double atol = 1e-3;
};

struct Mismatch {
  std::int64_t row = 0, col = 0;
  std::uint16_t got = 0, want = 0;
};

struct Comparison {
  std::int64_t count = 0;      // elements compared
  std::int64_t bit_equal = 0;  // same pattern
  std::int64_t outside = 0;    // beyond the tolerance; includes every element counted in the next two
  std::int64_t by_slack = 0;   // beyond the tolerance, but not beyond it and the element's slack
  std::int64_t unwritten = 0;  // still kHalfPoison
  std::int64_t nan = 0;  // NaN where none is due, or a number where NaN is due; unwritten ones not counted
  double max_abs = 0;    // over elements where both are finite
  double max_rel = 0;    // |got - want| / |want|, where want is finite and not 0
  int max_ulps = 0;      // over elements where neither is NaN
  std::optional<Mismatch> first_outside;    // lowest row, then lowest column
  std::optional<Mismatch> first_different;  // first pattern that differs at all

  bool passed() const { return outside == 0; }
  bool bit_exact() const { return bit_equal == count; }
  // One line when it passed, a few when not: coordinate, both values and patterns, ulps, counts, largest
  // errors.
  std::string describe() const;
};

// `slack`, if not empty, is added to each element's tolerance. Row-major [rows][cols] fp16 patterns; fails
// where a size does not fit. NaN agrees with NaN only, whatever the payload. An infinity agrees with the same
// infinity, and with what is no further than the slack from +-65520, where fp16 rounds to infinity.
Comparison compare_half(std::span<const std::uint16_t> got, std::span<const std::uint16_t> want,
                        std::int64_t rows, std::int64_t cols, Tolerance tolerance = {},
                        std::span<const float> slack = {});

}  // namespace fp4lab
