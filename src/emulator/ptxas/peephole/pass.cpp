#include "emulator/ptxas/peephole/pass.h"

#include <algorithm>

#include "emulator/ptxas/behind_copies.h"

namespace fp4lab::emu::peephole {

std::optional<uint32_t> Pass::behind_copies(uint32_t pc, unsigned slot, std::string_view wanted) const {
  return emu::behind_copies(f, known, pc, operand(pc, slot), known.maker(pc, slot), wanted);
}

std::optional<uint32_t> Pass::made_by(uint32_t pc, unsigned slot, std::string_view mnemonic) const {
  const auto from = behind_copies(pc, slot, mnemonic);
  return from && source(*from).tokens[0] == mnemonic ? from : std::nullopt;
}

bool Pass::same_value(uint32_t pc, unsigned slot, uint32_t other, unsigned of_other) const {
  const Operand &a = operand(pc, slot), &b = operand(other, of_other);
  const uint32_t maker = known.maker(pc, slot);
  return is_value(a) && is_value(b) && a.offset == b.offset && maker != Dataflow::kNone &&
         maker < std::min(pc, other) && maker == known.maker(other, of_other);
}

bool Pass::same_copies(uint32_t pc, unsigned slot, uint32_t other, unsigned of_other) const {
  if (same_value(pc, slot, other, of_other)) return true;
  const auto origin = [&](uint32_t at, unsigned of) {
    return origin_behind_copies(f, known, at, operand(at, of), known.maker(at, of));
  };
  const auto a = origin(pc, slot), b = origin(other, of_other);
  return a && b && a->maker == b->maker && is_value(*a->value) && is_value(*b->value) &&
         a->value->offset == b->value->offset && bits_of(a->value->type) == bits_of(b->value->type);
}

bool Pass::same_register(uint32_t pc, unsigned a, unsigned b) const {
  return is_value(operand(pc, a)) && is_value(operand(pc, b)) &&
         operand(pc, a).offset == operand(pc, b).offset;
}

bool Pass::holds_same(uint32_t first, unsigned slot, uint32_t second, unsigned of_second) const {
  constexpr uint32_t kFar = 4096;  // instructions, beyond which nobody looks
  if (same_value(second, of_second, first, slot)) return true;
  const Operand &a = operand(first, slot), &b = operand(second, of_second);
  if (!is_value(a) || !is_value(b) || a.offset != b.offset) return false;
  if (first > second || second - first > kFar || flow.block_of(first) != flow.block_of(second)) return false;
  for (uint32_t pc = first; pc < second; ++pc) {
    const auto& writes = flow.access(pc).writes;
    if (std::find(writes.begin(), writes.end(), flow.number_of(a)) != writes.end()) return false;
  }
  return true;
}

const std::vector<Pass::Reader>& Pass::readers(uint32_t pc) {
  if (readers_.empty()) {
    readers_[Dataflow::kNone];  // so that they are looked for once
    for (uint32_t reader = 0; reader < f.code.size(); ++reader) {
      if (flow.is_dead(reader)) continue;
      for (unsigned slot = 1; slot < Known::kSlots; ++slot) {
        const Operand& op = operand(reader, slot);
        const auto add = [&](uint32_t maker, uint32_t element) {
          if (maker != Dataflow::kNone) readers_[maker].push_back({reader, slot, element});
        };
        if (op.kind != Operand::Kind::vector) add(known.only_maker(reader, slot), Dataflow::kNone);
        for (uint32_t n = 0; n < op.count; ++n) add(known.maker_of_element(reader, op.index + n), n);
      }
    }
  }
  return readers_[pc];
}

Operand Pass::kept(uint32_t pc, unsigned slot) {
  const Operand copy = w.fresh(operand(pc, slot).type);
  insert(pc, {"mov", name_of(bits_type(copy.type))}, {copy, operand(pc, slot)});
  return copy;
}

const std::vector<uint32_t>& Pass::branches_back() {
  if (branches_back_) return *branches_back_;
  branches_back_.emplace();
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    const Operand& to = operand(pc, 0);
    if (source(pc).tokens[0] == "bra" && to.kind == Operand::Kind::label && to.index <= pc)
      branches_back_->push_back(pc);
  }
  return *branches_back_;
}

uint32_t Pass::fences_before(uint32_t pc) {
  if (fences_.empty()) {
    fences_.reserve(f.source.size() + 1);
    uint32_t count = 0;
    for (const Source& s : f.source) {
      fences_.push_back(count);
      count += s.tokens[0] == "membar" || s.tokens[0] == "fence";
    }
  }
  return fences_[pc];
}

void Pass::insert(uint32_t pc, Rewriter::Tokens tokens, std::vector<Operand> operands) {
  w.insert(pc, std::move(tokens), std::move(operands));
  changed_ = true;
}

void Pass::replace(uint32_t pc, Rewriter::Tokens tokens, std::vector<Operand> sources) {
  w.replace(pc, std::move(tokens), std::move(sources));
  known.forget(pc);
  replaced_ = pc;
  changed_ = true;
}

std::string_view Pass::moved_type(uint32_t pc, Type type) const {
  return name_of(w.f.code[pc].guard >= 0 && type == Type::f32 ? type : bits_type(type));
}

void Pass::become(uint32_t pc, uint64_t value, Type type) {
  replace(pc, {"mov", moved_type(pc, type)}, {w.constant(value, bits_type(type))});
}

void Pass::become_copy(uint32_t pc, const Operand& of, Type type) {
  replace(pc, {"mov", moved_type(pc, type)}, {of});
}

void Pass::become_copy_of(uint32_t pc, unsigned slot, Type type) {
  const uint32_t maker = known.only_maker(pc, slot);
  become_copy(pc, operand(pc, slot), type);
  known.learn(pc, maker);
}

void Pass::exchange(uint32_t pc, unsigned slot, unsigned other) {
  std::swap(operand(pc, slot), operand(pc, other));
  known.forget(pc);
  changed_ = true;
}

void Pass::set_operand(uint32_t pc, unsigned slot, uint64_t value) {
  operand(pc, slot) = w.constant(value);
  changed_ = true;
}

void Pass::set_operand(const Reader& reader, uint64_t value) {
  if (reader.element == Dataflow::kNone) return set_operand(reader.pc, reader.slot, value);
  Operand& parts = operand(reader.pc, reader.slot);
  const std::vector<Operand> elements(f.vectors.begin() + parts.index,
                                      f.vectors.begin() + parts.index + parts.count);
  parts.index = static_cast<uint32_t>(f.vectors.size());  // copies of the instruction keep theirs
  f.vectors.insert(f.vectors.end(), elements.begin(), elements.end());
  f.vectors[parts.index + reader.element] = w.constant(value);
  changed_ = true;
}

}  // namespace fp4lab::emu::peephole
