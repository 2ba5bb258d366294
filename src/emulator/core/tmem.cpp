#include "emulator/core/tmem.h"

#include <algorithm>
#include <utility>

#include "emulator/core/cta_state.h"
#include "emulator/core/machine.h"

namespace fp4lab::emu {

TensorMemory::TensorMemory() : cells(std::make_unique<std::array<Column, kTmemColumns>>()) {
  for (auto& column : *cells) column.fill(0xffffffff);  // a NaN in every format of accumulators and scales
}

int TensorMemory::find_free(unsigned columns) const {
  for (unsigned first = 0; first + columns <= kTmemColumns; first += columns) {
    unsigned n = 0;
    while (n < columns && !owner[first + n]) ++n;
    if (n == columns) return static_cast<int>(first);
  }
  return -1;
}

namespace {

// Unique for each CTA of a launch; 0 names none.
uint64_t name_of(const Cta& cta) { return (cta.cluster.id << 8 | cta.rank) + 1; }

}  // namespace

void TensorMemory::allocate(unsigned first, unsigned columns, const Cta* cta) {
  for (unsigned c = first; c < first + columns; ++c) {
    owner[c] = cta;
    const Ahead written = std::exchange(ahead[c], {});
    defined[c] = written.writer == name_of(*cta) ? written.lanes : std::array<uint64_t, 2>{};
    for (unsigned lane = 0; lane < kTmemLanes; ++lane)
      if (!(defined[c][lane / 64] >> lane % 64 & 1)) (*cells)[c][lane] = 0xffffffff;
  }
}

void TensorMemory::release(unsigned first, unsigned columns) {
  for (unsigned c = first; c < first + columns; ++c) {
    if (owner[c]) former[c] = name_of(*owner[c]);
    owner[c] = nullptr;
  }
}

namespace {

std::array<uint64_t, 2> lane_mask(unsigned lane0, unsigned lanes) {
  if (lane0 == 0 && lanes == kTmemLanes) return {~uint64_t(0), ~uint64_t(0)};
  std::array<uint64_t, 2> m{};
  for (unsigned half = 0; half < 2; ++half) {
    unsigned begin = half * 64, end = begin + 64;
    unsigned lo = lane0 > begin ? lane0 : begin, hi = lane0 + lanes < end ? lane0 + lanes : end;
    if (lo < hi) m[half] = (hi - lo == 64 ? ~uint64_t(0) : (uint64_t(1) << (hi - lo)) - 1) << (lo - begin);
  }
  return m;
}

}  // namespace

bool TensorMemory::is_defined(unsigned c, unsigned lane0, unsigned lanes) const {
  auto m = lane_mask(lane0, lanes);
  return (defined[c][0] & m[0]) == m[0] && (defined[c][1] & m[1]) == m[1];
}

void TensorMemory::define(const Cta& writer, unsigned c, unsigned lane0, unsigned lanes) {
  auto m = lane_mask(lane0, lanes);
  defined[c][0] |= m[0], defined[c][1] |= m[1];
  if (owner[c]) [[likely]]
    return;
  if (ahead[c].writer != name_of(writer)) ahead[c] = {name_of(writer), {}};
  ahead[c].lanes[0] |= m[0], ahead[c].lanes[1] |= m[1];
}

void TensorMemory::undefine(unsigned c, unsigned lane0, unsigned lanes) {
  auto m = lane_mask(lane0, lanes);
  defined[c][0] &= ~m[0], defined[c][1] &= ~m[1];
  ahead[c].lanes[0] &= ~m[0], ahead[c].lanes[1] &= ~m[1];
}

void TensorMemory::note_copy(const Copied& copy) {
  constexpr size_t kCopies = 32;
  std::erase_if(copied, [&](const Copied& c) { return c.line == copy.line; });
  if (copied.size() == kCopies) copied.erase(copied.begin());
  copied.push_back(copy);
}

std::string TensorMemory::copies_near(uint32_t column) const {
  constexpr size_t kShown = 4;
  std::vector<Copied> near = copied;
  std::ranges::stable_sort(
      near, {}, [&](const Copied& c) { return c.column < column ? column - c.column : c.column - column; });
  if (near.size() > kShown) near.resize(kShown);
  std::string text;
  for (const Copied& c : near)
    text +=
        fmt::format("{}[{}, {}) (line {}{})", text.empty() ? "; tcgen05.cp wrote columns " : ", ", c.column,
                    c.column + c.columns, c.line, c.unwritten ? ", from unwritten shared memory" : "");
  return text.empty() ? "; no tcgen05.cp has written any column yet" : text;
}

void TensorMemory::check(const Cta& cta, unsigned column, unsigned columns, const char* what,
                         const AsyncOp* op) const {
  if (column + columns > kTmemColumns)
    fault(FaultKind::tmem_address, 0, "{} touches TMEM columns [{}, {}), but there are only {}", what, column,
          column + columns, kTmemColumns);
  const auto begin = owner.begin() + column, end = begin + columns;
  if (std::all_of(begin, end, [&](const Cta* o) { return o == &cta; })) return;
  // Columns of another CTA are never tolerated.
  const auto foreign = std::find_if(begin, end, [&](const Cta* o) { return o && o != &cta; });
  const auto outside = foreign != end ? foreign : std::find(begin, end, nullptr);
  const auto c = static_cast<size_t>(outside - owner.begin());
  std::string live;
  for (const TmemAllocation& a : cta.state->tmem)
    live += fmt::format("{}[{}, {}) by line {}", live.empty() ? "; allocated are " : ", ", a.column,
                        a.column + a.columns, cta.state->ptx_line(a.function, *a.origin));
  const Fault unowned(
      FaultKind::tmem_address, 0,
      fmt::format("{} touches TMEM columns [{}, {}), but column {} {}{}", what, column, column + columns, c,
                  foreign != end              ? "belongs to another CTA of this SM"
                  : former[c] == name_of(cta) ? "is freed"
                                              : "is not allocated",
                  live));
  if (foreign != end || !cta.cluster.grid.schedule.tolerant) throw unowned;
  if (op && op->origin) cta.cluster.tolerated(unowned, *op);  // at issue there is no message yet
}

bool TensorMemory::owns_any(const Cta& cta, unsigned column, unsigned columns) const {
  const auto end = owner.begin() + std::min(column + columns, kTmemColumns);
  return std::find(owner.begin() + std::min(column, kTmemColumns), end, &cta) != end;
}

}  // namespace fp4lab::emu
