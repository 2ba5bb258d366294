#include "fp4lab/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "fp4lab/error.h"
#include "fp4lab/half.h"

namespace fp4lab {
namespace {

std::string pattern(std::uint16_t h) {
  if (h == kHalfPoison) return "0xfdfd (never written)";
  return fmt::format("{:.6g} (0x{:04x})", half_to_float(h), h);
}

std::string place(const Mismatch& m) {
  std::string text =
      fmt::format("row {} col {}: got {}, want {}", m.row, m.col, pattern(m.got), pattern(m.want));
  if (!half_is_nan(m.got) && !half_is_nan(m.want))
    text += fmt::format(", {:+} ulps", half_ulps(m.got, m.want));
  return text;
}

}  // namespace

Comparison compare_half(std::span<const std::uint16_t> got, std::span<const std::uint16_t> want,
                        std::int64_t rows, std::int64_t cols, Tolerance tolerance,
                        std::span<const float> slack) {
  const auto size = std::size_t(rows * cols);
  if (rows < 0 || cols < 0 || got.size() != size || want.size() != size ||
      (!slack.empty() && slack.size() != size))
    fail("compare_half: {} x {} = {} elements, but got has {}, want {} and slack {}", rows, cols, size,
         got.size(), want.size(), slack.size());
  Comparison result;
  result.count = rows * cols;
  for (std::int64_t i = 0; i < result.count; ++i) {
    const std::uint16_t g = got[std::size_t(i)], w = want[std::size_t(i)];
    if (g == w && !half_is_nan(g)) {
      ++result.bit_equal;
      continue;
    }
    const Mismatch here{i / cols, i % cols, g, w};
    bool inside = false;
    if (g == kHalfPoison) {
      ++result.unwritten;
    } else if (half_is_nan(g) || half_is_nan(w)) {
      inside = half_is_nan(g) && half_is_nan(w);
      if (inside && g == w) ++result.bit_equal;
      if (!inside) ++result.nan;
    } else {
      const double gv = half_to_float(g), wv = half_to_float(w);
      const double room = slack.empty() ? 0.0 : double(slack[std::size_t(i)]);
      if (std::isfinite(gv) && std::isfinite(wv)) {
        const double error = std::fabs(gv - wv), allowed = tolerance.atol + tolerance.rtol * std::fabs(wv);
        inside = error <= allowed + room;
        result.by_slack += inside && error > allowed;
        result.max_abs = std::max(result.max_abs, error);
        if (wv != 0) result.max_rel = std::max(result.max_rel, error / std::fabs(wv));
      } else if (room > 0) {
        // An infinity is anything from 65520 on, where fp16 rounds to it; of either sign where huge terms
        // cancel.
        inside = std::fabs(std::clamp(gv, -65520.0, 65520.0) - std::clamp(wv, -65520.0, 65520.0)) <= room;
        result.by_slack += inside;
      }
      result.max_ulps = std::max(result.max_ulps, std::abs(half_ulps(g, w)));
    }
    if (g != w && !result.first_different) result.first_different = here;
    if (!inside) {
      ++result.outside;
      if (!result.first_outside) result.first_outside = here;
    }
  }
  return result;
}

std::string Comparison::describe() const {
  const double share = count ? 100.0 * double(bit_equal) / double(count) : 100.0;
  std::string text = passed() ? fmt::format("ok: {} elements", count)
                              : fmt::format("WRONG: {} of {} elements outside the tolerance", outside, count);
  text += fmt::format(", {} bit-equal ({:.4g} %)", bit_equal, share);
  if (bit_equal != count)
    text +=
        fmt::format(", max abs error {:.4g}, max rel error {:.4g}, max {} ulps", max_abs, max_rel, max_ulps);
  if (by_slack)
    text += fmt::format("\n  {} elements are right within what fp32 accumulation may lose", by_slack);
  if (unwritten) text += fmt::format("\n  {} elements never written", unwritten);
  if (nan) text += fmt::format("\n  {} NaN in one of the two only", nan);
  if (first_outside)
    text += "\n  first: " + place(*first_outside);
  else if (first_different)
    text += "\n  first difference: " + place(*first_different);
  return text;
}

}  // namespace fp4lab
