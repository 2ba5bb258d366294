// Sums of A * B^T without a rounding of their own, rectangle by rectangle, by the cheapest engine that is
// exact.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "fp4lab/reference.h"
#include "reference/limbs.h"
#include "reference/survey.h"
#include "reference/tiles.h"

namespace fp4lab {

struct Rectangle {
  int row, col, rows, cols;
};

// A view of a rectangle's sums.
template <class T>
struct Sums {
  const T* data;
  std::ptrdiff_t row_stride, col_stride;
  T operator()(int row, int col) const { return data[row * row_stride + col * col_stride]; }
};

class Product;

// One thread's engine. A result is valid until the next call.
class SumEngine {
 public:
  explicit SumEngine(const Product& product) : product_(product) {}
  Sums<float> tensor_core(const Rectangle& r, int which);   // which of the B
  Sums<std::int64_t> exact(const Rectangle& r, int which);  // in units of 2^kExactUnit; NaN scales count as 0

 private:
  const Product& product_;
  std::optional<TileEngine> tiles_;
  std::optional<LimbEngine> limbs_;
};

class Product {
 public:
  // All B have the same number of rows, and A's K.
  Product(const Operand& a, std::vector<const Operand*> bs, const ReferenceOptions& options);
  void each_rectangle(const std::function<void(const Rectangle&, SumEngine&)>& f) const;
  bool nan_row(int row) const { return a_survey_.nan_row[std::size_t(row)]; }
  bool nan_col(int which, int col) const { return b_surveys_[std::size_t(which)].nan_row[std::size_t(col)]; }
  bool any_nan() const { return any_nan_; }

 private:
  friend class SumEngine;
  const Operand& a_;
  std::vector<const Operand*> bs_;
  ReferenceOptions options_;
  Survey a_survey_;
  std::vector<Survey> b_surveys_;
  int columns_;  // of a rectangle
  bool any_nan_;
  std::optional<PackedRows> rows_;
  // Digits, when AMX does the work.
  std::optional<LimbTable> a_table_;
  std::vector<LimbTable> b_tables_;
  std::optional<LimbRows> limb_rows_;
};

}  // namespace fp4lab
