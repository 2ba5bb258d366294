// and, or and xor of a lop3 and one of its operands, which become one lop3. Of a register that this has
// twice, one is taken for 0; and what such a lop3 meets next takes the place of that 0, as if the table were
// one without. Of 64 bits that is copysign.f64, whose upper half is such a lop3. What others read of the
// lop3, too, becomes part of nothing where that would keep an operand that nobody else reads.
#include "emulator/ptxas/peephole/logic.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

using Place = TableLogic::Place;

constexpr uint32_t kTables[] = {0xf0, 0xcc, 0xaa};  // those that give the operand in a place

// Of 64 bits the upper half.
std::optional<uint64_t> constant_of(const Pass& p, const Place& place) {
  if (place.slot == TableLogic::kSignMask) return 0x80000000;
  const auto bits = p.bits(place.at, place.slot);
  return bits && bits_of(p.source(place.at).type()) == 64 ? *bits >> 32 : bits;
}

// The move of a special register of which an operand is a copy.
std::optional<uint32_t> special_behind_copies(const Pass& p, Place place) {
  constexpr unsigned kMostCopies = 64;
  for (unsigned copies = 0; copies < kMostCopies; ++copies) {
    const uint32_t maker = p.known.maker(place.at, place.slot);
    if (maker == Dataflow::kNone || maker >= place.at || !p.is_copy(maker)) return std::nullopt;
    if (p.flow.number_of(p.operand(maker, 1)) == Dataflow::kNone) return maker;
    place = {maker, 1};
  }
  return std::nullopt;
}

bool are_same(const Pass& p, const Place& a, const Place& b) {
  const auto one = constant_of(p, a), other = constant_of(p, b);
  if (one || other) return one == other;
  if (a.at == b.at && p.same_register(a.at, a.slot, b.slot)) return true;
  if (p.holds_same(a.at, a.slot, b.at, b.slot) || p.same_copies(a.at, a.slot, b.at, b.slot)) return true;
  const auto special = special_behind_copies(p, a);
  return special && special == special_behind_copies(p, b);
}

void change_places(TableLogic& logic, unsigned a, unsigned b) {
  std::swap(logic.places[a], logic.places[b]);
  const unsigned x = 2 - a, y = 2 - b;  // bits of a row's number
  uint32_t table = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t others = i & ~(1u << x | 1u << y);
    table |= (logic.table >> (others | (i >> x & 1) << y | (i >> y & 1) << x) & 1) << i;
  }
  logic.table = table;
}

// The machine instruction has a constant in the middle.
void put_constant_in_middle(const Pass& p, TableLogic& logic) {
  if (constant_of(p, logic.places[1])) return;
  for (const unsigned place : {0u, 2u})
    if (constant_of(p, logic.places[place])) return change_places(logic, place, 1);
}

// A lop3, or the one that becomes of copysign, or that was made here.
std::optional<TableLogic> table_logic(const Pass& p, uint32_t pc, unsigned slot) {
  const auto lop3 = p.open_maker(pc, slot, "lop3");
  if (lop3)
    if (const auto merged = p.merged_logic.find(*lop3); merged != p.merged_logic.end()) return merged->second;
  std::optional<TableLogic> logic;
  if (lop3) {
    const unsigned first = p.source(*lop3).tokens.size() == 2 ? 1 : 2;  // behind the predicate that it makes
    const Operand& table = p.operand(*lop3, first + 3);
    if (table.immediate)
      logic = {{{{*lop3, first}, {*lop3, first + 1}, {*lop3, first + 2}}},
               static_cast<uint32_t>(table.displacement)};
  }
  if (const auto sign = p.open_maker(pc, slot, "copysign");
      sign && bits_of(p.source(*sign).type()) == bits_of(p.source(pc).type()))
    logic = {{{{*sign, 2}, {*sign, TableLogic::kSignMask}, {*sign, 1}}}, 0xb8};
  if (logic) put_constant_in_middle(p, *logic);
  return logic;
}

uint32_t combined(std::string_view name, uint32_t a, uint32_t b) {
  return name == "and" ? a & b : name == "or" ? a | b : a ^ b;
}

// Of what a register's place is now free for: not of a second constant. False if there is none.
bool take_free_place(const Pass& p, TableLogic& logic, const Place& added, std::string_view name) {
  if (constant_of(p, added))
    for (const Place& place : logic.places)
      if (!place.is_free && constant_of(p, place)) return false;
  for (const unsigned place : {1u, 2u}) {
    if (!logic.places[place].is_free) continue;
    logic.places[place] = added;
    logic.table = combined(name, logic.table, kTables[place]);
    return true;
  }
  return false;
}

// Guarded moves over what an instruction made: a selection reads it.
unsigned selections_of(const Pass& p, uint32_t maker) {
  constexpr uint32_t kFar = 4096;  // nothing further away is looked at: a bound for hostile texts
  unsigned reads = 0;
  for (uint32_t pc = maker + 1; pc < p.f.code.size() && pc - maker < kFar; ++pc)
    reads += p.f.code[pc].guard >= 0 && p.source(pc).tokens[0] == "mov" && !p.flow.is_dead(pc) &&
             p.known.only_maker(pc, 0) == maker;
  return reads;
}

// Who reads what a place holds, but for copies; counted up to two.
unsigned reads_of(Pass& p, const Place& place) {
  constexpr size_t kMostCopies = 64;
  const uint32_t maker = p.known.only_maker(place.at, place.slot);
  std::vector<uint32_t> makers{maker};
  unsigned reads = 0;
  if (maker == Dataflow::kNone) {
    const uint32_t reg = p.flow.number_of(p.operand(place.at, place.slot));
    for (uint32_t pc = 0; pc < p.f.code.size() && reads < 2; ++pc)
      if (!p.flow.is_dead(pc))
        reads += static_cast<unsigned>(std::ranges::count(p.flow.access(pc).reads, reg));
    return reads;
  }
  for (size_t next = 0; next < makers.size() && next < kMostCopies && reads < 2; ++next) {
    reads += p.known.becomes_variable(makers[next]) + selections_of(p, makers[next]);
    for (const Pass::Reader& reader : p.readers(makers[next])) {
      const bool is_through = p.is_copy(reader.pc) && !p.readers(reader.pc).empty();
      if (is_through) makers.push_back(reader.pc);
      // Not of a predicate that was made, too.
      else if (p.operand(reader.pc, reader.slot).kind != Operand::Kind::predicate)
        ++reads;
    }
  }
  return reads;
}

// It needs no register of its own for longer than it does anyway.
bool is_kept_anyway(Pass& p, const Place& place) { return constant_of(p, place) || reads_of(p, place) > 1; }

// ptxas tries the operand of a lop3 that logic has made first, if that shares one of its first two operands,
// and the other is kept anyway: this comes to nothing, but then nothing takes the lop3 up by that operand.
bool is_tried_with_its_maker(Pass& p, uint32_t pc, unsigned slot, const Place& other) {
  for (const std::string_view name : {"and", "or", "xor", "lop3"}) {
    const auto maker = p.open_maker(pc, slot, name);
    if (!maker) continue;
    const unsigned first = name == "lop3" && p.source(*maker).tokens.size() > 2 ? 2 : 1;
    const Place one{*maker, first}, second{*maker, first + 1};
    return (are_same(p, one, other) && is_kept_anyway(p, second)) ||
           (are_same(p, second, other) && is_kept_anyway(p, one));
  }
  return false;
}

// The operand of an instruction that a lop3 has too comes first.
bool share_place(Pass& p, TableLogic& logic, const Place& shared, std::string_view name) {
  unsigned first = 0;
  while (first < 3 && (logic.places[first].is_free || !are_same(p, logic.places[first], shared))) ++first;
  if (first == 3) return false;
  change_places(logic, 0, first);
  const auto equal = [&](unsigned a, unsigned b) {
    const Place &one = logic.places[a], &other = logic.places[b];
    return !one.is_free && !other.is_free && !constant_of(p, one) && are_same(p, one, other);
  };
  const bool drops_second = equal(0, 1), drops_third = equal(0, 2) || equal(1, 2);
  const Place& other = logic.places[drops_second ? 2 : 1];
  if (!drops_second && reads_of(p, {shared.at, 3 - shared.slot}) > 1 && !is_kept_anyway(p, other))
    return false;
  if (!other.is_free && is_tried_with_its_maker(p, shared.at, shared.slot, other)) return false;
  logic.places[1].is_free |= drops_second;
  logic.places[2].is_free |= drops_third;
  logic.table = combined(name, logic.table, kTables[0]);
  return logic.has_free();
}

// The logic that an instruction and what made one of its operands become.
std::optional<TableLogic> merged_logic(Pass& p, uint32_t pc, unsigned slot) {
  const std::string_view name = p.source(pc).tokens[0];
  const Place other{pc, 3 - slot};
  auto logic = table_logic(p, pc, slot);
  if (!logic) return std::nullopt;
  TableLogic shared = *logic;
  if (share_place(p, shared, other, name)) return shared;
  return take_free_place(p, *logic, other, name) ? logic : std::nullopt;
}

// A register of 32 bits, or the upper half of one of 64, for the instruction at pc.
Operand part_for(Pass& p, uint32_t pc, const Place& place) {
  const Operand whole = p.kept(place.at, place.slot);
  if (bits_of(whole.type) != 64) return whole;
  const Operand shifted = p.w.fresh(Type::b64), half = p.w.fresh(Type::b32);
  p.insert(pc, {"shr", "u64"}, {shifted, whole, p.w.constant(32)});
  p.insert(pc, {"cvt", "u32", "u64"}, {half, shifted});
  return half;
}

// The upper half is what the table gives.
void replace_upper_half(Pass& p, uint32_t pc, std::vector<Operand> sources) {
  const Operand upper = p.w.fresh(Type::b32), wide = p.w.fresh(Type::b64), whole = p.w.fresh(Type::b64);
  sources.insert(sources.begin(), upper);
  p.insert(pc, {"lop3", "b32"}, std::move(sources));
  p.insert(pc, {"cvt", "u64", "u32"}, {wide, upper});
  p.insert(pc, p.source(pc).tokens, {whole, p.operand(pc, 1), p.operand(pc, 2)});
  p.replace(pc, {"bfi", "b64"}, {wide, whole, p.w.constant(32), p.w.constant(32)});
}

void fold_logic(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  if (type != Type::b32 && type != Type::b64) return;
  for (const unsigned slot : {2u, 1u}) {
    const auto logic = merged_logic(p, pc, slot);
    if (!logic) continue;
    std::vector<Operand> sources;
    for (const Place& place : logic->places)
      sources.push_back(place.is_free                         ? p.w.constant(0)
                        : place.slot == TableLogic::kSignMask ? p.w.constant(0x80000000)
                                                              : part_for(p, pc, place));
    sources.push_back(p.w.constant(logic->table));
    if (type == Type::b64) return replace_upper_half(p, pc, std::move(sources));
    p.replace(pc, {"lop3", "b32"}, sources);
    // Not of three equal registers, of which two places are free: what took one is nobody's operand now.
    const bool has_taken =
        std::ranges::any_of(logic->places, [&](const Place& place) { return place.at == pc; });
    if (logic->has_free() && !has_taken) p.merged_logic.emplace(pc, *logic);
    return;
  }
}

// A lop3 that makes a predicate too, in the same block: its result is compared with 0 by that predicate,
// which has been combined with another one. The first comparison alone, and whoever reads the predicate
// itself.
void ask_logic(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const bool asks_equal = s.tokens[1] == "eq";
  if (s.tokens.size() != 3 || (!asks_equal && s.tokens[1] != "ne")) return;
  if (bits_of(s.type()) != 32 || is_float(s.type())) return;
  const unsigned asked = p.bits(pc, 3) ? 2 : 3;
  const auto from = p.bits(pc, 5 - asked) == uint64_t(0) ? p.made_by(pc, asked, "lop3") : std::nullopt;
  constexpr unsigned kCombined = 6;  // the operand of a lop3 with a predicate
  if (!from || p.operand(*from, kCombined).kind != Operand::Kind::predicate) return;
  if (!p.known.is_in_block(pc, *from) || !p.asked_logic.insert(*from).second) return;
  const Operand with = p.w.fresh(Type::b32), any = p.w.fresh(Type::b32), combined = p.w.fresh(Type::b32);
  p.insert(*from, {"selp", "b32"},
           {with, p.w.constant(0xffffffff), p.w.constant(0), p.operand(*from, kCombined)});
  p.insert(pc, {"set", "ne", "u32", "u32"}, {any, p.operand(pc, asked), p.w.constant(0)});
  p.insert(pc, {p.source(*from).has("and") ? "and" : "or", "b32"}, {combined, any, with});
  p.replace(pc, s.tokens, {p.operand(pc, 1), combined, p.w.constant(0)});
}

}  // namespace

std::span<const Rule> logic_rules() {
  static constexpr Rule kRules[] = {
      {"and", fold_logic}, {"or", fold_logic}, {"xor", fold_logic}, {"setp", ask_logic}};
  return kRules;
}

}  // namespace fp4lab::emu::peephole
