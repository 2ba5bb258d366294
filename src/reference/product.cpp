#include "reference/product.h"

#include <algorithm>

#include "fp4lab/error.h"
#include "reference/parallel.h"

namespace fp4lab {

Product::Product(const Operand& a, std::vector<const Operand*> bs, const ReferenceOptions& options)
    : a_(a), bs_(std::move(bs)), options_(options), a_survey_(survey(a, options.threads)) {
  const std::span<const Simd> levels = simd_levels();
  if (std::find(levels.begin(), levels.end(), options.simd) == levels.end())
    fail("reference: this machine has no {}", simd_name(options.simd));
  for (const Operand* b : bs_) b_surveys_.push_back(survey(*b, options.threads));
  const auto has_nan = [](const Survey& s) {
    return std::find(s.nan_row.begin(), s.nan_row.end(), 1) != s.nan_row.end();
  };
  any_nan_ = has_nan(a_survey_) || std::any_of(b_surveys_.begin(), b_surveys_.end(), has_nan);
  if (options.rounding == Rounding::kTensorCore || options.simd != Simd::kAmx || a.k > kLimbMaxK) {
    columns_ = mma_kernels(options.simd).panel;
    rows_.emplace(a, options.simd, options.threads);
    return;
  }
  columns_ = kLimbColumns;
  int limbs = limbs_needed(a_survey_.range);
  for (const Survey& b : b_surveys_) limbs = std::max(limbs, limbs_needed(b.range));
  a_table_.emplace(a_survey_.range, limbs);
  for (const Survey& b : b_surveys_) b_tables_.emplace_back(b.range, limbs);
  limb_rows_.emplace(a, *a_table_, options.threads);
}

void Product::each_rectangle(const std::function<void(const Rectangle&, SumEngine&)>& f) const {
  const int columns = bs_[0]->rows;
  const std::int64_t across = (columns + columns_ - 1) / columns_,
                     down = (a_.rows + kRowBlock - 1) / kRowBlock;
  parallel_for(options_.threads, across * down, [&](std::int64_t task) {
    const int row = int(task % down) * kRowBlock, col = int(task / down) * columns_;
    SumEngine engine(*this);
    f({row, col, std::min(kRowBlock, a_.rows - row), std::min(columns_, columns - col)}, engine);
  });
}

Sums<float> SumEngine::tensor_core(const Rectangle& r, int which) {
  if (!tiles_) tiles_.emplace(*product_.rows_, product_.options_.simd);
  return {tiles_->tensor_core(r.row / kRowBlock, *product_.bs_[std::size_t(which)], r.col), tiles_->panel(),
          1};
}

Sums<std::int64_t> SumEngine::exact(const Rectangle& r, int which) {
  const Operand& b = *product_.bs_[std::size_t(which)];
  if (product_.limb_rows_) {
    limbs_.emplace(*product_.limb_rows_, *product_.a_table_, product_.b_tables_[std::size_t(which)]);
    const int tiles = (r.rows + kLimbTile - 1) / kLimbTile;
    const std::int64_t* sums = limbs_->exact(r.row / kLimbTile, tiles, b, r.col, r.cols);
    return {sums, 1, limbs_->stride()};
  }
  if (!tiles_) tiles_.emplace(*product_.rows_, product_.options_.simd);
  const MmaBound bound =
      mma_bound(product_.a_survey_.range, product_.b_surveys_[std::size_t(which)].range, kMmaGroups);
  return {tiles_->exact(r.row / kRowBlock, b, bound, r.col), tiles_->panel(), 1};
}

}  // namespace fp4lab
