#include "cublas/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "fp4lab/e2m1.h"
#include "fp4lab/half.h"
#include "fp4lab/scale_layout.h"
#include "fp4lab/ue4m3.h"
#include "fp4lab/ue8m0.h"

namespace fp4lab::blas {

namespace {

float bf16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

uint16_t bf16_nearest(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class Stored>
Stored stored(const void* data, int64_t index) {
  Stored x;
  std::memcpy(&x, static_cast<const Stored*>(data) + index, sizeof x);
  return x;
}
template <class Stored>
void put(void* data, int64_t index, Stored x) {
  std::memcpy(static_cast<Stored*>(data) + index, &x, sizeof x);
}

// f(reader): one call for all elements of a type.
template <class F>
auto with_reader(cudaDataType type, F&& f) {
  switch (type) {
    case CUDA_R_64F:
      return f([](const void* p, int64_t i) { return stored<double>(p, i); });
    case CUDA_R_16F:
      return f([](const void* p, int64_t i) { return half_to_float(stored<uint16_t>(p, i)); });
    case CUDA_R_16BF:
      return f([](const void* p, int64_t i) { return bf16_value(stored<uint16_t>(p, i)); });
    case CUDA_R_8F_E4M3:
      return f([](const void* p, int64_t i) { return e4m3_value(stored<uint8_t>(p, i)); });
    case CUDA_R_8F_E5M2:
      return f([](const void* p, int64_t i) {
        return half_to_float(static_cast<uint16_t>(stored<uint8_t>(p, i) << 8));
      });
    case CUDA_R_4F_E2M1:
      return f([](const void* p, int64_t i) {
        return e2m1_value(e2m1_unpack(static_cast<const unsigned char*>(p), i));
      });
    case CUDA_R_8I:
      return f([](const void* p, int64_t i) { return float(stored<int8_t>(p, i)); });
    case CUDA_R_32I:
      return f([](const void* p, int64_t i) { return double(stored<int32_t>(p, i)); });
    default:
      return f([](const void* p, int64_t i) { return stored<float>(p, i); });
  }
}

}  // namespace

int bits_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_64F:
      return 64;
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 32;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 16;
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
    case CUDA_R_8I:
      return 8;
    case CUDA_R_4F_E2M1:
      return 4;
    default:
      return 0;
  }
}

bool can_store(cudaDataType type) {
  return bits_of(type) && type != CUDA_R_4F_E2M1 && type != CUDA_R_8F_E5M2;
}

double value_at(const void* data, cudaDataType type, int64_t index) {
  return with_reader(type, [&](auto read) { return double(read(data, index)); });
}

void store_at(void* data, cudaDataType type, int64_t index, double x) {
  switch (type) {
    case CUDA_R_64F:
      return put(data, index, x);
    case CUDA_R_16F:
      return put(data, index, half_from_float(float(x)));
    case CUDA_R_16BF:
      return put(data, index, bf16_nearest(float(x)));
    case CUDA_R_8F_E4M3:
      return put(data, index, uint8_t(e4m3_encode(float(x))));
    case CUDA_R_8I:
      return put(data, index, int8_t(std::nearbyint(std::fmax(-128, std::fmin(127, x)))));
    case CUDA_R_32I:
      return put(data, index, int32_t(int64_t(std::fmod(x, 0x1p32))));  // sums of integers wrap
    default:
      return put(data, index, float(x));
  }
}

template <class T>
void read_row(const Matrix& m, const void* data, int64_t row, T* to, int64_t step) {
  with_reader(m.type, [&](auto read) {
    for (int64_t c = 0; c < m.columns; ++c) to[c * step] = T(read(data, row * m.row + c * m.column));
  });
  if (m.mode != ScaleMode::vec16_ue4m3 && m.mode != ScaleMode::vec32_ue8m0) return;
  const bool nv = m.mode == ScaleMode::vec16_ue4m3;
  const int64_t width = nv ? 16 : 32, blocks = (m.columns + width - 1) / width;
  for (int64_t block = 0; block < blocks; ++block) {
    const auto code = stored<uint8_t>(m.scale, blocked_scale_offset(row, block, blocks));
    const T scale = nv ? ue4m3_value(code) : ue8m0_value(code);
    for (int64_t c = block * width; c < std::min(m.columns, (block + 1) * width); ++c) to[c * step] *= scale;
  }
}
template void read_row(const Matrix&, const void*, int64_t, float*, int64_t);
template void read_row(const Matrix&, const void*, int64_t, double*, int64_t);

double factor(const Matrix& m, int64_t row) {
  if (!m.scale) return 1;
  if (m.mode == ScaleMode::tensor) return stored<float>(m.scale, 0);
  return m.mode == ScaleMode::outer_vector ? stored<float>(m.scale, row) : 1;
}

}  // namespace fp4lab::blas
