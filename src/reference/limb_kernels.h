// What the digit products need of AMX and AVX-512; see limbs.h. Call only where simd_levels() has Simd::kAmx.
#pragma once

#include "reference/limbs.h"

namespace fp4lab::amx {

// Around all calls of multiply on a thread.
void tiles_on();
void tiles_off();

// products[w][n][m] += sum over digits i + j = w of left digit i (row n) times right digit j (row m), over
// `steps` steps of 64 K. left and right hold a tile of 1024 bytes for each digit of each step, products 2 *
// limbs - 1 tiles of 16 x 16.
void multiply(int limbs, const std::int8_t* left, const std::int8_t* right, int steps,
              std::int32_t* products);

// The same for one digit and two by two tiles at once, so that four sums are under way.
void multiply_square(const std::int8_t* left0, const std::int8_t* left1, const std::int8_t* right0,
                     const std::int8_t* right1, int steps, std::int32_t* const products[2][2]);

// Digits of 16 rows from `first`, of which `rows` exist, at steps [step, step + steps): one tile for each
// step and digit, 64 K to a row (left), or four K of 16 rows to a row (right; one step).
void pack_left(const Operand& b, const LimbTable& table, int first, int rows, int step, int steps,
               std::int8_t* to);
void pack_right(const Operand& a, const LimbTable& table, int first, int rows, int step, std::int8_t* to);

// sums[n * stride + m] = (products[0][n][m] + 2^8 products[1][n][m] + ...) * 2^shift
void combine(const std::int32_t* products, int sums_count, int shift, std::int64_t* sums, int stride);

}  // namespace fp4lab::amx
