// Elements of cuBLAS's data types as numbers.
#pragma once

#include <library_types.h>

#include <cstdint>

#include "cublas/product.h"

namespace fp4lab::blas {

// 0: not a type of operands here.
int bits_of(cudaDataType);
bool can_store(cudaDataType);
void store_at(void* data, cudaDataType, int64_t index, double);

// count elements of one row from (row, 0) on along the columns, with its scales of 16 or 32 elements, every
// `step` elements of `to`. T: float or double.
template <class T>
void read_row(const Matrix&, const void* data, int64_t row, T* to, int64_t step);

// What the whole matrix (and, of an outer vector, one of its rows) is multiplied by.
double factor(const Matrix&, int64_t row);

}  // namespace fp4lab::blas
