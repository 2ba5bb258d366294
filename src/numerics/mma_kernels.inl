// Included by mma_avx512.cpp and mma_avx2.cpp inside their namespace, with V (the vector operations) defined.
//
// Three ways lead to the bits of mma_step, from dear to cheap; ranges decide per step and panel, and c per
// vector:
//   general   every term is truncated to u = 2^(emax - 35), the sum is taken in double, one conversion rounds
//   toward zero fixed     nothing can be truncated and the four terms add up within 31 bits: integer sum,
//   then double, then round narrow    nothing can be truncated and the four terms add up within 24 bits: fp32
//   all the way
// All of it runs with MXCSR rounding toward zero. Only three kinds of operation below round at all: the
// truncation in `general`, and the addition and conversion that end a step, where rounding toward zero is
// what the model asks for; composed truncations are one truncation.

constexpr int W = V::kWidth;

struct RoundTowardZero {
  unsigned saved = _mm_getcsr();
  RoundTowardZero() { _mm_setcsr(saved | 0x6000u); }
  ~RoundTowardZero() { _mm_setcsr(saved); }
};

static void unpack_e2m1_twice(const std::uint8_t* packed, std::size_t count, std::int8_t* out) {
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
  const __m256i nibble = _mm256_set1_epi8(15);
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + i / 2));
    // Each byte to a 16-bit lane: low nibble stays in the even byte, the high one moves to the odd byte.
    const __m256i wide = _mm256_cvtepu8_epi16(bytes);
    const __m256i codes = _mm256_and_si256(_mm256_or_si256(wide, _mm256_slli_epi16(wide, 4)), nibble);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_shuffle_epi8(table, codes));
  }
  for (; i < count; i += 2) {
    const std::int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    out[i] = twice[packed[i / 2] & 15];
    out[i + 1] = twice[packed[i / 2] >> 4];
  }
}

static void pack_panel(const std::int8_t* codes, std::ptrdiff_t stride, const std::uint8_t* scale_codes,
                       std::ptrdiff_t scale_stride, int cols, ScaleFormat format, bool negate,
                       MmaPanel& panel) {
  const ScaleTable& table = scale_table(format);
  panel.nan = 0;
  panel.cols = cols;
  SeenScales seen;
  const __m128i bias = _mm_set1_epi8(kCodeBias);
  __m128i largest = _mm_setzero_si128();
  for (int col = 0; col < W; ++col) {
    auto* to = reinterpret_cast<std::uint32_t*>(panel.codes) + col;
    for (int quarter = 0; quarter < 4; ++quarter) {
      __m128i v = _mm_setzero_si128();
      if (col < cols)
        v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + col * stride + quarter * 16));
      if (negate) v = _mm_sub_epi8(_mm_setzero_si128(), v);
      largest = _mm_max_epu8(largest, _mm_abs_epi8(v));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(panel.plain + col * kMmaK + quarter * 16), v);
      v = _mm_add_epi8(v, bias);
      to[(quarter * 4 + 0) * W] = std::uint32_t(_mm_extract_epi32(v, 0));
      to[(quarter * 4 + 1) * W] = std::uint32_t(_mm_extract_epi32(v, 1));
      to[(quarter * 4 + 2) * W] = std::uint32_t(_mm_extract_epi32(v, 2));
      to[(quarter * 4 + 3) * W] = std::uint32_t(_mm_extract_epi32(v, 3));
    }
    for (int g = 0; g < kMmaGroups; ++g) {
      // Columns past the end: zero codes with zero scales.
      const std::uint8_t code = col < cols ? scale_codes[col * scale_stride + g] : 0;
      const ScaleEntry& entry = table.entry[code];
      panel.scale_codes[col * kMmaGroups + g] = code;
      panel.scale[g * W + col] = col < cols ? 0.25f * entry.value : 0;
      panel.power[g * W + col] = col < cols ? entry.power : 0;
      if (col >= cols) continue;
      panel.nan |= std::uint32_t(entry.nan) << col;
      seen.add(entry);
    }
  }
  panel.range = seen.range();
  alignas(16) std::uint8_t bytes[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(bytes), largest);
  for (std::uint8_t byte : bytes)
    panel.range.code_max = byte > panel.range.code_max ? byte : panel.range.code_max;
}

// A panel's codes as vectors, one for each four K. Loaded once for all rows, so that a store to the sums,
// which the compiler must take for a possible change of the codes, does not make it load them again.
struct PanelCodes {
  V::I four[16];
  explicit __attribute__((always_inline)) PanelCodes(const MmaPanel& b) {
    for (int q = 0; q < 16; ++q) four[q] = V::load(reinterpret_cast<const std::int32_t*>(b.codes) + q * W);
  }
};

// 4 * the sum of 16 products of group g of one row with W columns.
FP4LAB_INLINE V::I group_dot(const std::int8_t* row, std::int32_t bias, const PanelCodes& panel, int g) {
  V::Dot dot;
  dot.start(V::set1(bias));
  for (int q = 0; q < 4; ++q) {
    std::int32_t four;
    __builtin_memcpy(&four, row + g * 16 + q * 4, 4);
    dot.add(panel.four[g * 4 + q], V::set1(four));
  }
  return dot.finish();
}

// Lanes whose step the vector code does not cover.
static __attribute__((noinline)) void repair(const MmaRows& a, int row, const MmaPanel& b, ScaleFormat format,
                                             const float* c, std::uint32_t lanes, float* d) {
  for (int col = 0; col < W; ++col) {
    if (!(lanes >> col & 1)) continue;
    int d4[kMmaGroups] = {};
    for (int k = 0; k < kMmaK; ++k)
      d4[k / 16] += a.codes[std::size_t(row) * kMmaK + k] * b.plain[col * kMmaK + k];
    d[col] = mma_step(d4, a.scale_codes + row * kMmaGroups, b.scale_codes + col * kMmaGroups, format, c[col]);
  }
}

// c may be a denormal: its exponent then reads as zero here and not as -126, but the terms' exponents are
// above both, or there are none and c passes. No sum can overflow: next to a c of 2^104 or more, nothing
// within the spread below carries.
FP4LAB_INLINE V::F general(const V::I dot[4], const V::F sb[4], const V::F pb[4], const float* sa,
                           const float* pa, V::F c) {
  const V::F sign_bit = V::as_float(V::set1(std::int32_t(0x80000000u)));
  V::F emax = V::bit_and(c, V::as_float(V::set1(0x7F800000)));  // 2^exponent of c
  V::F term[4];
  for (int g = 0; g < 4; ++g) {
    term[g] = V::mul(V::mul(V::to_float(dot[g]), sb[g]), V::set1(sa[g]));
    emax = V::max(emax, V::mul(pb[g], V::set1(pa[g])));
  }
  // Adding 2^23 u = 2^(emax - 12) with the sign of the term and taking it away again truncates the term to a
  // multiple of u: a term with bits below u is itself smaller than 2^18 u; one without has at most 20 bits
  // and passes exactly.
  const V::F big = V::mul(emax, V::set1(0x1p-12f));
  for (int g = 0; g < 4; ++g) {
    const V::F signed_big = V::bit_or(big, V::bit_and(term[g], sign_bit));
    term[g] = V::sub(V::add(term[g], signed_big), signed_big);
  }
  // c has 24 bits, so only a c below 2^23 u has bits below u, and only such a c may take the detour.
  const V::F signed_big = V::bit_or(big, V::bit_and(c, sign_bit));
  const V::F cut = V::sub(V::add(c, signed_big), signed_big);
  c = V::select_less(V::bit_andnot(sign_bit, c), big, cut, c);
  // Multiples of u below 2^49 u: exact in double.
  V::D sum = V::add(V::zero_double(), V::to_double(c));
  sum = V::add(sum, V::add(V::add(V::to_double(term[0]), V::to_double(term[1])),
                           V::add(V::to_double(term[2]), V::to_double(term[3]))));
  return V::round(sum);  // never -0: a sum of zero is +0 as soon as one of its terms is
}

enum class Way { kGeneral, kFixed, kNarrow };

// Where |c| must lie for the cheap ways: 0, or no bits below the terms' u, and a u of its own below their
// lowest bit.
struct Window {
  std::int32_t low, high;  // float patterns, low <= |c| < high
};

template <Way way>
static __attribute__((noinline)) void step_rows(const MmaRows& a, const MmaPanel& b, ScaleFormat format,
                                                bool accumulate, float* d, std::ptrdiff_t stride,
                                                Window window, int lsb) {
  V::F sb[4], pb[4], sb_fixed[4];
  const V::F to_units = V::set1(float_from_bits(std::uint32_t(127 - lsb) << 23));
  const V::F from_units = V::set1(float_from_bits(std::uint32_t(127 + lsb) << 23));
  for (int g = 0; g < 4; ++g) {
    sb[g] = V::load(b.scale + g * W);
    pb[g] = V::load(b.power + g * W);
    if (way == Way::kFixed) sb_fixed[g] = V::mul(sb[g], to_units);
  }
  const V::I low = V::set1(window.low), high = V::set1(window.high);
  const V::I zero = V::set1(0), infinity = V::set1(0x7F800000);
  const PanelCodes panel(b);
  const MmaRows rows = a;  // a copy, for the same reason
  const std::uint32_t nan_columns = b.nan;
  for (int row = 0; row < rows.rows; ++row) {
    const std::int8_t* codes = rows.codes + std::size_t(row) * kMmaK;
    const float* sa = rows.scale + row * kMmaGroups;
    float* out = d + row * stride;
    if (__builtin_expect(rows.nan[row], 0)) {
      V::store(out, V::as_float(V::set1(std::int32_t(kMmaNan))));
      continue;
    }
    V::I dot[4];
    for (int g = 0; g < 4; ++g) dot[g] = group_dot(codes, rows.bias[row * kMmaGroups + g], panel, g);
    const V::F c = accumulate ? V::load(out) : V::set1(0.0f);
    V::F result;
    bool done = false;
    if (way == Way::kNarrow && __builtin_expect(V::all_in_window(c, low, high), 1)) {
      V::F sum = V::set1(0.0f);
      for (int g = 0; g < 4; ++g) sum = V::fma(V::mul(V::to_float(dot[g]), sb[g]), V::set1(sa[g]), sum);
      result = V::add(c, sum);
      done = true;
    }
    if (way == Way::kFixed && __builtin_expect(V::all_in_window(c, low, high), 1)) {
      V::I sum = V::set1(0);
      for (int g = 0; g < 4; ++g)
        sum = V::add(sum, V::to_int(V::mul(V::mul(V::to_float(dot[g]), sb_fixed[g]), V::set1(sa[g]))));
      result = V::round(V::fma(V::to_double(sum), V::to_double(from_units), V::to_double(c)));
      done = true;
    }
    if (!done) {
      const std::uint32_t strange = ~V::in_window(c, zero, infinity) & ((1u << W) - 1);
      result = general(dot, sb, pb, sa, rows.power + row * kMmaGroups, c);
      if (__builtin_expect(strange != 0, 0)) {
        alignas(64) float olds[W], news[W];
        V::store(olds, c);
        V::store(news, result);
        repair(a, row, b, format, olds, strange, news);
        result = V::load(news);
      }
    }
    V::store(out, result);
    if (__builtin_expect(nan_columns != 0, 0))
      for (int col = 0; col < W; ++col)
        if (nan_columns >> col & 1) out[col] = float_from_bits(kMmaNan);
  }
}

static void step_tensor_core(const MmaRows& a, const MmaPanel& b, ScaleFormat format, bool accumulate,
                             float* d, std::ptrdiff_t stride) {
  const RoundTowardZero rounding;
  const int spread = 30;  // of ue8m0 exponents; keeps every fp32 product far from overflow and underflow
  if (a.range.top > spread || b.range.top > spread || (a.range.scale_max != 0 && a.range.bottom < -spread) ||
      (b.range.scale_max != 0 && b.range.bottom < -spread)) {
    const float zeros[W] = {};
    for (int row = 0; row < a.rows; ++row) {
      alignas(64) float olds[W];
      __builtin_memcpy(olds, accumulate ? d + row * stride : zeros, sizeof olds);
      repair(a, row, b, format, olds, (1u << W) - 1, d + row * stride);
    }
    return;
  }
  const MmaBound bound = mma_bound(a.range, b.range, kMmaGroups);
  // 0 units: nothing but zeros, where the ranges say nothing. Below 2^31 units top - 35 is below lsb, so no
  // term is truncated as long as c does not raise emax.
  if (bound.units == 0 || bound.units >= 0x1p31)
    return step_rows<Way::kGeneral>(a, b, format, accumulate, d, stride, {}, 0);
  const int top = a.range.top + b.range.top;
  // |c| >= 2^(top - 12): its 23 fraction bits end at 2^(top - 35) or above. |c| < 2^(lsb + 36): its u is at
  // most 2^lsb.
  const Window window{(127 + top - 12) << 23, (127 + bound.lsb + kMmaFractionBits + 1) << 23};
  if (bound.units <= 0x1p24)
    step_rows<Way::kNarrow>(a, b, format, accumulate, d, stride, window, bound.lsb);
  else
    step_rows<Way::kFixed>(a, b, format, accumulate, d, stride, window, bound.lsb);
}

static void step_exact_int32(const MmaRows& a, const MmaPanel& b, int lsb, std::int32_t* sum) {
  V::F sb[4];
  const V::F to_units = V::set1(float_from_bits(std::uint32_t(127 - lsb) << 23));
  for (int g = 0; g < 4; ++g) sb[g] = V::mul(V::load(b.scale + g * W), to_units);
  const PanelCodes panel(b);
  const MmaRows rows = a;
  for (int row = 0; row < rows.rows; ++row) {
    const std::int8_t* codes = rows.codes + std::size_t(row) * kMmaK;
    V::I total = V::load(sum + row * W);
    for (int g = 0; g < 4; ++g) {
      const V::I dot = group_dot(codes, rows.bias[row * kMmaGroups + g], panel, g);
      const V::F term = V::mul(V::mul(V::to_float(dot), sb[g]), V::set1(rows.scale[row * kMmaGroups + g]));
      total = V::add(total, V::to_int(term));
    }
    V::store(sum + row * W, total);
  }
}

static void step_exact_double(const MmaRows& a, const MmaPanel& b, double* sum) {
  V::F sb[4];
  for (int g = 0; g < 4; ++g) sb[g] = V::load(b.scale + g * W);
  const PanelCodes panel(b);
  const MmaRows rows = a;
  for (int row = 0; row < rows.rows; ++row) {
    const std::int8_t* codes = rows.codes + std::size_t(row) * kMmaK;
    V::D total = V::load_double(sum + row * W);
    for (int g = 0; g < 4; ++g) {
      const V::I dot = group_dot(codes, rows.bias[row * kMmaGroups + g], panel, g);
      const V::F term = V::mul(V::mul(V::to_float(dot), sb[g]), V::set1(rows.scale[row * kMmaGroups + g]));
      total = V::add(total, V::to_double(term));
    }
    V::store_double(sum + row * W, total);
  }
}

static void mma_tile(const MmaTile& tile) {
  if (tile.m <= 0 || tile.n <= 0) return;
  constexpr int kRows = 128;
  std::int32_t bias[kRows * kMmaGroups];
  float scale[kRows * kMmaGroups], power[kRows * kMmaGroups], edge[kRows * W];
  std::uint8_t nan[kRows];
  MmaPanel panel;
  for (int i = 0; i < tile.m; i += kRows) {
    MmaRows a;
    a.rows = tile.m - i < kRows ? tile.m - i : kRows;
    a.codes = tile.a + std::ptrdiff_t(i) * kMmaK;
    a.scale_codes = tile.sfa + std::ptrdiff_t(i) * kMmaGroups;
    a.range = pack_rows(a.codes, a.scale_codes, a.rows, tile.format, bias, scale, power, nan);
    a.bias = bias, a.scale = scale, a.power = power, a.nan = nan;
    for (int j = 0; j < tile.n; j += W) {
      const int cols = tile.n - j < W ? tile.n - j : W;
      pack_panel(tile.b + std::ptrdiff_t(j) * kMmaK, kMmaK, tile.sfb + std::ptrdiff_t(j) * kMmaGroups,
                 kMmaGroups, cols, tile.format, tile.negate, panel);
      float* d = tile.d + i * tile.d_stride + j;
      if (cols == W) {
        step_tensor_core(a, panel, tile.format, tile.accumulate, d, tile.d_stride);
        continue;
      }
      for (int row = 0; row < a.rows; ++row)
        for (int col = 0; col < W; ++col)
          edge[row * W + col] = tile.accumulate && col < cols ? d[row * tile.d_stride + col] : 0.0f;
      step_tensor_core(a, panel, tile.format, tile.accumulate, edge, W);
      for (int row = 0; row < a.rows; ++row)
        for (int col = 0; col < cols; ++col) d[row * tile.d_stride + col] = edge[row * W + col];
    }
  }
}

extern const MmaKernels kKernels = {
    W, mma_tile, unpack_e2m1_twice, pack_panel, step_tensor_core, step_exact_int32, step_exact_double};
