#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

namespace {

uint64_t place(uint32_t pc, uint32_t reg) { return uint64_t(pc) << 32 | reg; }

}  // namespace

Ssa::Ssa(const Function& f, const Dataflow& flow, std::vector<uint32_t> registers,
         const std::vector<Stretch>& stretches)
    : f_(f), flow_(flow), registers_(std::move(registers)) {
  const size_t blocks = flow.blocks().size();
  if (registers_.empty() || blocks == 0) return;
  is_too_big_ = is_too_big(blocks, registers_.size());
  if (is_too_big_) return;
  for (uint32_t i = 0; i < registers_.size(); ++i) index_[registers_[i]] = i;
  merged_.assign(blocks * registers_.size(), kNone);
  end_ = merged_;
  place_merges(stretches);
  name_values();
}

uint32_t Ssa::index_of(uint32_t reg) const {
  const auto found = index_.find(reg);
  return found == index_.end() ? kNone : found->second;
}

uint32_t Ssa::read(uint32_t pc, uint32_t reg) const {
  const auto found = reads_.find(place(pc, reg));
  return found == reads_.end() ? kNone : found->second;
}

bool Ssa::dominates(uint32_t other, uint32_t block) const {
  return other == block || (below_[other] && place_[block] - place_[other] < below_[other]);
}

// Each block in front of all that it dominates, which stand together.
void Ssa::number_blocks() {
  below_.assign(up_.size(), 0);
  place_.assign(up_.size(), kNone);
  for (auto b = order_.rbegin(); b != order_.rend(); ++b) {
    ++below_[*b];
    if (*b != order_[0]) below_[up_[*b]] += below_[*b];
  }
  std::vector<uint32_t> next(up_.size(), 0);
  for (const uint32_t b : order_) {
    place_[b] = b == order_[0] ? 0 : next[up_[b]];
    next[b] = place_[b] + 1;
    if (b != order_[0]) next[up_[b]] += below_[b];
  }
}

uint32_t Ssa::add(Value v) {
  values_.push_back(std::move(v));
  return static_cast<uint32_t>(values_.size() - 1);
}

// Cytron, Ferrante, Rosen, Wegman, Zadeck, "Efficiently computing static single assignment form": values meet
// at the dominance frontiers of the blocks that make some, and in turn of those where they meet.
void Ssa::place_merges(const std::vector<Stretch>& stretches) {
  const auto blocks = static_cast<uint32_t>(flow_.blocks().size());
  std::vector<std::vector<uint32_t>> frontier(blocks);
  Dominators dominators = dominators_of(flow_);
  order_ = std::move(dominators.order);
  up_ = std::move(dominators.up);
  number_blocks();
  for (const uint32_t b : order_) {
    if (flow_.blocks()[b].predecessors.size() < 2) continue;
    for (uint32_t p : flow_.blocks()[b].predecessors)
      for (; up_[p] != kNone && p != up_[b]; p = up_[p]) {
        if (!frontier[p].empty() && frontier[p].back() == b) break;  // so have those above
        frontier[p].push_back(b);
      }
  }
  std::vector<char> is_live(merged_.size(), 0);  // at a block's begin
  std::vector<std::vector<uint32_t>> makers(registers_.size());
  for (uint32_t b = 0; b < blocks; ++b) {
    for (uint32_t i = 0; i < registers_.size(); ++i)
      is_live[cell(b, i)] = static_cast<char>(flow_.lives_behind(b, registers_[i]));
    for (uint32_t pc = flow_.blocks()[b].end; pc-- > flow_.blocks()[b].begin;) {
      if (flow_.is_dead(pc)) continue;
      for (const uint32_t reg : flow_.access(pc).writes)
        if (const uint32_t i = index_of(reg); i != kNone) {
          if (f_.code[pc].guard < 0) is_live[cell(b, i)] = 0;
          if (makers[i].empty() || makers[i].back() != b) makers[i].push_back(b);
        }
      for (const uint32_t reg : flow_.access(pc).reads)
        if (const uint32_t i = index_of(reg); i != kNone) is_live[cell(b, i)] = 1;
    }
  }
  const auto merge = [&](uint32_t b, uint32_t i) {
    uint32_t& merged = merged_[cell(b, i)];
    if (merged != kNone || !is_live[cell(b, i)]) return false;
    merged = add({Value::Kind::merged, b, flow_.blocks()[b].begin, registers_[i], {}});
    return true;
  };
  for (const Stretch& stretch : stretches)
    for (const uint32_t pc : stretch.pcs)
      for (const uint32_t reg : flow_.access(pc).writes)
        if (const uint32_t i = index_of(reg); i != kNone && !flow_.is_dead(pc) && merge(stretch.out, i))
          makers[i].push_back(stretch.out);
  for (uint32_t i = 0; i < registers_.size(); ++i)
    for (std::vector<uint32_t>& work = makers[i]; !work.empty();) {
      const uint32_t b = work.back();
      work.pop_back();
      for (const uint32_t there : frontier[b])
        if (merge(there, i)) work.push_back(there);
    }
}

void Ssa::name_values() {
  for (const uint32_t b : order_) {
    for (uint32_t i = 0; i < registers_.size(); ++i) {
      uint32_t& value = end_[cell(b, i)];
      value = merged_[cell(b, i)];
      if (value != kNone) continue;
      value = b == 0 ? add({Value::Kind::unknown, 0, 0, registers_[i], {}}) : end_[cell(up_[b], i)];
    }
    for (uint32_t pc = flow_.blocks()[b].begin; pc < flow_.blocks()[b].end; ++pc) {
      for (const uint32_t reg : flow_.access(pc).reads)
        if (const uint32_t i = index_of(reg); i != kNone) reads_[place(pc, reg)] = end_[cell(b, i)];
      if (flow_.is_dead(pc)) continue;
      for (const uint32_t reg : flow_.access(pc).writes) {
        const uint32_t i = index_of(reg);
        if (i == kNone) continue;
        uint32_t& value = end_[cell(b, i)];
        const uint32_t made = add({Value::Kind::made, b, pc, reg, {}});
        value = f_.code[pc].guard < 0 ? made : add({Value::Kind::kept, b, pc, reg, {value, made}});
      }
    }
  }
  for (const uint32_t b : order_)
    for (uint32_t i = 0; i < registers_.size(); ++i)
      if (const uint32_t merged = merged_[cell(b, i)]; merged != kNone)
        for (const uint32_t p : flow_.blocks()[b].predecessors)
          if (up_[p] != kNone) values_[merged].operands.push_back(end_[cell(p, i)]);
}

}  // namespace fp4lab::emu
