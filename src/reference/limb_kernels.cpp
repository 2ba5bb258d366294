// The AMX and AVX-512 half of the digit products. Nothing of the standard library is instantiated in this
// file, so that no code for these instructions can be linked into a path that other machines take.
#include "reference/limb_kernels.h"

#include <cstring>

// g++ 12's own AVX-512 headers start from registers that they leave undefined on purpose, and warn about it.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,amx-tile,amx-int8")
#include <immintrin.h>

namespace fp4lab::amx {
namespace {

// 16 rows of 64 bytes in each of the eight tiles (Intel SDM volume 1, 18.3: TILECFG palette 1).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// products[w] += sum over digit pairs i + j = w of left digit i times right digit j, for `steps` steps of 64
// K.
template <int limbs>
void multiply(const std::int8_t* left, const std::int8_t* right, int steps, std::int32_t* products);

#define FP4LAB_LEFT(i) (left + (step * L + (i)) * kLimbTileBytes)
#define FP4LAB_RIGHT(i) (right + (step * L + (i)) * kLimbTileBytes)

template <>
void multiply<1>(const std::int8_t* left, const std::int8_t* right, int steps, std::int32_t* products) {
  constexpr int L = 1;
  _tile_loadd(0, products, 64);
  for (int step = 0; step < steps; ++step) {
    _tile_loadd(6, FP4LAB_LEFT(0), 64);
    _tile_loadd(7, FP4LAB_RIGHT(0), 64);
    _tile_dpbssd(0, 6, 7);
  }
  _tile_stored(0, products, 64);
}

// A product waits about 52 cycles for its sum and starts every 16: the middle digit's two products get a sum
// each.
template <>
void multiply<2>(const std::int8_t* left, const std::int8_t* right, int steps, std::int32_t* products) {
  constexpr int L = 2;
  alignas(64) std::int32_t second[256];
  _tile_loadd(0, products, 64);
  _tile_loadd(1, products + 256, 64);
  _tile_loadd(2, products + 512, 64);
  _tile_zero(3);
  for (int step = 0; step < steps; ++step) {
    _tile_loadd(4, FP4LAB_LEFT(0), 64);
    _tile_loadd(6, FP4LAB_RIGHT(0), 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, FP4LAB_RIGHT(1), 64);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(5, FP4LAB_LEFT(1), 64);
    _tile_dpbssd(2, 5, 7);
    _tile_dpbssd(3, 5, 6);
  }
  _tile_stored(0, products, 64);
  _tile_stored(1, products + 256, 64);
  _tile_stored(2, products + 512, 64);
  _tile_stored(3, second, 64);
  __asm__ volatile("" ::: "memory");
  for (int i = 0; i < 256; i += 16)
    _mm512_store_si512(products + 256 + i, _mm512_add_epi32(_mm512_load_si512(products + 256 + i),
                                                            _mm512_load_si512(second + i)));
}

// Five sums leave three tiles for digits; in this order nine products need eight loads.
template <>
void multiply<3>(const std::int8_t* left, const std::int8_t* right, int steps, std::int32_t* products) {
  constexpr int L = 3;
  _tile_loadd(0, products, 64);
  _tile_loadd(1, products + 256, 64);
  _tile_loadd(2, products + 512, 64);
  _tile_loadd(3, products + 768, 64);
  _tile_loadd(4, products + 1024, 64);
  for (int step = 0; step < steps; ++step) {
    _tile_loadd(5, FP4LAB_RIGHT(0), 64);
    _tile_loadd(6, FP4LAB_RIGHT(1), 64);
    _tile_loadd(7, FP4LAB_LEFT(0), 64);
    _tile_dpbssd(0, 7, 5);
    _tile_dpbssd(1, 7, 6);
    _tile_loadd(7, FP4LAB_LEFT(1), 64);
    _tile_dpbssd(2, 7, 6);
    _tile_dpbssd(1, 7, 5);
    _tile_loadd(7, FP4LAB_LEFT(2), 64);
    _tile_dpbssd(3, 7, 6);
    _tile_dpbssd(2, 7, 5);
    _tile_loadd(5, FP4LAB_RIGHT(2), 64);
    _tile_dpbssd(4, 7, 5);
    _tile_loadd(7, FP4LAB_LEFT(1), 64);
    _tile_dpbssd(3, 7, 5);
    _tile_loadd(7, FP4LAB_LEFT(0), 64);
    _tile_dpbssd(2, 7, 5);
  }
  _tile_stored(0, products, 64);
  _tile_stored(1, products + 256, 64);
  _tile_stored(2, products + 512, 64);
  _tile_stored(3, products + 768, 64);
  _tile_stored(4, products + 1024, 64);
}
#undef FP4LAB_LEFT
#undef FP4LAB_RIGHT

// 64 packed codes to one code per byte.
inline __m512i unpack(const std::uint8_t* packed) {
  const __m512i wide = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed)));
  return _mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi16(wide, 4)), _mm512_set1_epi8(15));
}

// Digits of 64 elements under four scales: a table look-up per 16 elements.
inline __m512i digits(const LimbTable& table, int limb, __m512i codes, const std::uint8_t* scales) {
  const auto row = [&](int g) { return *reinterpret_cast<const __m128i*>(table.digit[limb][scales[g]]); };
  __m512i rows = _mm512_castsi128_si512(row(0));
  rows = _mm512_inserti32x4(rows, row(1), 1);
  rows = _mm512_inserti32x4(rows, row(2), 2);
  rows = _mm512_inserti32x4(rows, row(3), 3);
  return _mm512_shuffle_epi8(rows, codes);
}

// Up to 64 elements of a row at K = step * 64; f(limb, digits).
template <class F>
inline void row_digits(const Operand& operand, const LimbTable& table, int row, int step, F f) {
  const int k = step * kMmaK, width = operand.k - k < kMmaK ? operand.k - k : kMmaK;
  const std::uint8_t* packed = operand.code_row(row) + k / 2;
  const std::uint8_t* scales = operand.scale_row(row) + k / kScaleBlock;
  alignas(32) std::uint8_t edge_codes[32];
  std::uint8_t edge_scales[4];
  if (width < kMmaK) {
    __builtin_memset(edge_codes, 0, sizeof edge_codes);
    __builtin_memset(edge_scales, 0, sizeof edge_scales);
    __builtin_memcpy(edge_codes, packed, std::size_t(width / 2));
    __builtin_memcpy(edge_scales, scales, std::size_t(width / kScaleBlock));
    packed = edge_codes, scales = edge_scales;
  }
  const __m512i codes = unpack(packed);
  for (int limb = 0; limb < table.limbs; ++limb) f(limb, digits(table, limb, codes, scales));
}

}  // namespace

void tiles_on() {
  // Static, because g++ 12's intrinsic tells the compiler only of the first 8 of the 64 bytes that are read.
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}
void tiles_off() { _tile_release(); }

void multiply(int limbs, const std::int8_t* left, const std::int8_t* right, int steps,
              std::int32_t* products) {
  __asm__ volatile("" ::: "memory");  // the tile intrinsics of g++ 12 do not say that they touch memory
  if (limbs == 1)
    multiply<1>(left, right, steps, products);
  else if (limbs == 2)
    multiply<2>(left, right, steps, products);
  else
    multiply<3>(left, right, steps, products);
  __asm__ volatile("" ::: "memory");
}

void multiply_square(const std::int8_t* left0, const std::int8_t* left1, const std::int8_t* right0,
                     const std::int8_t* right1, int steps, std::int32_t* const products[2][2]) {
  __asm__ volatile("" ::: "memory");
  _tile_loadd(0, products[0][0], 64);
  _tile_loadd(1, products[0][1], 64);
  _tile_loadd(2, products[1][0], 64);
  _tile_loadd(3, products[1][1], 64);
  for (int step = 0; step < steps; ++step) {
    const int at = step * kLimbTileBytes;
    _tile_loadd(4, left0 + at, 64);
    _tile_loadd(6, right0 + at, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, right1 + at, 64);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(5, left1 + at, 64);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_stored(0, products[0][0], 64);
  _tile_stored(1, products[0][1], 64);
  _tile_stored(2, products[1][0], 64);
  _tile_stored(3, products[1][1], 64);
  __asm__ volatile("" ::: "memory");
}

void pack_left(const Operand& b, const LimbTable& table, int first, int rows, int step, int steps,
               std::int8_t* to) {
  for (int row = 0; row < kLimbTile; ++row) {
    // The rows lie kilobytes apart, where no hardware prefetcher looks; the next call usually wants the
    // next 16.
    if (first + kLimbTile + row < b.rows) {
      __builtin_prefetch(b.scale_row(first + kLimbTile + row) + step * 4);
      for (int byte = 0; byte < steps * 32; byte += 64)
        __builtin_prefetch(b.code_row(first + kLimbTile + row) + step * 32 + byte);
    }
    for (int s = 0; s < steps; ++s) {
      std::int8_t* at = to + s * table.limbs * kLimbTileBytes + row * 64;
      if (row < rows)
        row_digits(b, table, first + row, step + s,
                   [&](int limb, __m512i v) { _mm512_storeu_si512(at + limb * kLimbTileBytes, v); });
      else
        for (int limb = 0; limb < table.limbs; ++limb)
          _mm512_storeu_si512(at + limb * kLimbTileBytes, _mm512_setzero_si512());
    }
  }
}

void pack_right(const Operand& a, const LimbTable& table, int first, int rows, int step, std::int8_t* to) {
  for (int row = 0; row < kLimbTile; ++row) {
    const auto scatter = [&](int limb, __m512i v) {
      alignas(64) std::int32_t words[16];
      _mm512_store_si512(words, v);
      auto* at = reinterpret_cast<std::int32_t*>(to + limb * kLimbTileBytes) + row;
      for (int q = 0; q < 16; ++q) at[q * 16] = words[q];
    };
    if (row < rows)
      row_digits(a, table, first + row, step, scatter);
    else
      for (int limb = 0; limb < table.limbs; ++limb) scatter(limb, _mm512_setzero_si512());
  }
}

// sums[i] = (products[0][i] + 2^8 products[1][i] + ...) * 2^shift for one tile; row n of the tile to sums + n
// * stride.
void combine(const std::int32_t* products, int sums_count, int shift, std::int64_t* sums, int stride) {
  for (int n = 0; n < kLimbTile; ++n)
    for (int half = 0; half < 2; ++half) {
      __m512i sum = _mm512_setzero_si512();
      for (int w = sums_count; w-- > 0;) {
        const __m256i part =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(products + w * 256 + n * 16 + half * 8));
        sum = _mm512_add_epi64(_mm512_slli_epi64(sum, 8), _mm512_cvtepi32_epi64(part));
      }
      sum = _mm512_sll_epi64(sum, _mm_cvtsi32_si128(shift));
      _mm512_storeu_si512(sums + std::ptrdiff_t(n) * stride + half * 8, sum);
    }
}

}  // namespace fp4lab::amx
#pragma GCC pop_options
