#include "reference/survey.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "fp4lab/ue4m3.h"
#include "reference/parallel.h"

namespace fp4lab {

Survey survey(const Operand& operand, int threads) {
  constexpr int kRows = 64;
  Survey result;
  result.nan_row.resize(std::size_t(operand.rows));
  std::mutex mutex;
  parallel_for(threads, (operand.rows + kRows - 1) / kRows, [&](std::int64_t task) {
    const int first = int(task) * kRows, last = std::min(first + kRows, operand.rows);
    bool seen[256] = {};
    std::uint64_t ones = 0;
    for (int row = first; row < last; ++row) {
      const std::uint8_t* scales = operand.scale_row(row);
      bool nan = false;
      for (int s = 0; s < operand.scales_per_row(); ++s) {
        seen[scales[s]] = true;
        nan |= e4m3_is_nan(scales[s]);
      }
      result.nan_row[std::size_t(row)] = nan;
      const std::uint8_t* codes = operand.code_row(row);
      for (int byte = 0; byte < operand.k / 2; byte += 8) {  // K is a multiple of 16
        std::uint64_t word;
        std::memcpy(&word, codes + byte, 8);
        ones |= word;
      }
    }
    MmaRange range;
    for (unsigned code = 0; code < 256; ++code)
      if (seen[code]) range.add_scale(std::uint8_t(code), ScaleFormat::kUe4m3);
    // The code made of every bit seen in any nibble is at least as large as each of them.
    for (int shift = 0; shift < 64; shift += 4)
      range.code_max = std::max(range.code_max, e2m1_twice(unsigned(ones >> shift) & 7));
    const std::lock_guard lock(mutex);
    result.range.add(range);
  });
  return result;
}

}  // namespace fp4lab
