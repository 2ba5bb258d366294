// Elements of cuBLAS's data types as numbers.
#pragma once

#include <library_types.h>

#include <cstdint>

#include "cublas/product.h"

namespace fp4lab::blas {

// 0: not a supported type of operands.
int bits_of(cudaDataType);
bool can_store(cudaDataType);
void store_at(void* data, cudaDataType, int64_t index, double);

// Reads count elements of one row, from column 0 on, multiplied by its scales of 16 or 32 elements, into
// every `step`-th element of `to`. T: float or double.
template <class T>
void read_row(const Matrix&, const void* data, int64_t row, T* to, int64_t step);

// The factor of the whole matrix (or, for an outer vector of scales, of one of its rows).
double factor(const Matrix&, int64_t row);

}  // namespace fp4lab::blas
