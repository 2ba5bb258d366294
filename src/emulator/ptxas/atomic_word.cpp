#include "emulator/ptxas/atomic_word.h"

#include <algorithm>

#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/part.h"
#include "emulator/ptxas/read_behind.h"

namespace fp4lab::emu {

namespace {

// By whom a word is taken out of 64 bits, and which one it is.
struct Word {
  uint32_t taking;
  uint32_t nth;
};

bool adds_halves(const Source& s) {
  return (s.tokens[0] == "atom" || s.tokens[0] == "red") && s.has("add") && !s.has("global") &&
         (s.type() == Type::f16x2 || s.type() == Type::bf16x2);
}

std::optional<uint32_t> nth_word(const Function& f, uint32_t pc, const Operand& read) {
  const Instr& i = f.code[pc];
  const Source& s = f.source[pc];
  const bool cuts = is_integer_cvt(s) && bits_of(s.type(0)) == 32 && bits_of(s.type(1)) == 64;
  if (cuts) return is_value(i.op[1]) ? std::optional(0u) : std::nullopt;
  return takes_apart(i, s) && bits_of(s.type()) == 64 && i.op[0].count == 2 ? nth_part(f, pc, read)
                                                                            : std::nullopt;
}

// Behind copies, and packs of two words.
std::optional<Word> word_behind(const Function& f, const Known& known, uint32_t pc, unsigned slot) {
  constexpr unsigned kMostCopies = 256;  // see behind_copies
  const Operand* read = &f.code[pc].op[slot];
  uint32_t maker = known.maker(pc, slot);
  for (unsigned copies = 0; copies < kMostCopies && maker != Dataflow::kNone && maker < pc; ++copies) {
    pc = maker;
    const Operand& from = f.code[pc].op[1];
    if (const auto nth = nth_word(f, pc, *read)) {
      if (known.bits(pc, 1)) return std::nullopt;
      const auto whole = behind_copies(f, known, pc, from, known.maker(pc, 1));
      const Operand* packed = whole ? &f.code[*whole].op[1] : nullptr;
      if (!packed || packed->kind != Operand::Kind::vector) return Word{pc, *nth};
      if (packed->count != 2) return std::nullopt;
      pc = *whole;
      read = &f.vectors[packed->index + *nth];
      maker = known.maker_of_element(pc, packed->index + *nth);
    } else {
      if (!is_copy(f.code[pc], f.source[pc])) return std::nullopt;
      read = &from;
      maker = known.maker(pc, 1);
    }
  }
  return std::nullopt;
}

// The lower halves of the word and of the upper one.
Operand lower_halves(Rewriter& w, const Word& word) {
  const Operand whole = w.f.code[word.taking].op[1];
  const Operand shifted = w.fresh(Type::b64), upper = w.fresh(Type::b32), lower = w.fresh(Type::b32);
  const Operand halves = w.fresh(Type::b32);
  w.insert(word.taking, {"shr", "u64"}, {shifted, whole, w.constant(32)});
  w.insert(word.taking, {"cvt", "u32", "u64"}, {upper, shifted});
  w.insert(word.taking, {"cvt", "u32", "u64"}, {lower, whole});
  w.insert(word.taking, {"prmt", "b32"}, {halves, word.nth == 0 ? lower : upper, upper, w.constant(0x5410)});
  return halves;
}

// The two instructions that make the words of one product of 64 bits, and which one is read.
struct Product {
  uint32_t low, high;
  bool reads_low;
};

// Of 32 bits, and the lower or upper word: of a product alone, or of one in a sum with a carry.
bool makes_word(const Source& s, std::string_view which) {
  if (is_float(s.type()) || bits_of(s.type()) != 32 || !s.has(which)) return false;
  return s.tokens[0] == "mul" || s.tokens[0] == "madc" || (s.tokens[0] == "mad" && s.has("cc"));
}

bool have_equal_factors(const Function& f, const Known& known, uint32_t a, uint32_t b) {
  const auto are_equal = [&](unsigned one, unsigned other) {
    const auto bits = known.bits(a, one);
    if (bits) return bits == known.bits(b, other);
    return f.code[a].op[one].offset == f.code[b].op[other].offset && is_value(f.code[b].op[other]) &&
           known.maker(a, one) == known.maker(b, other);
  };
  return (are_equal(1, 1) && are_equal(2, 2)) || (are_equal(1, 2) && are_equal(2, 1));
}

// A sum with a carry and the one that reads it stand behind each other; products alone, which somebody
// wants, anywhere in one block.
std::optional<Product> product_behind(const Function& f, const Dataflow& flow, const Known& known,
                                      uint32_t pc, unsigned slot) {
  const auto made = behind_copies(f, known, pc, f.code[pc].op[slot], known.maker(pc, slot));
  if (!made || f.code[*made].guard >= 0) return std::nullopt;
  const bool is_low = makes_word(f.source[*made], "lo");
  if (!is_low && !makes_word(f.source[*made], "hi")) return std::nullopt;
  const Dataflow::Block& block = flow.blocks()[flow.block_of(*made)];
  const bool is_alone = f.source[*made].tokens[0] == "mul";
  constexpr uint32_t kFar = 4096;  // instructions, beyond which nobody looks
  const uint32_t begin = is_alone ? *made - std::min(*made, kFar)
                         : is_low ? *made + 1
                                  : std::max(*made, 1u) - 1;
  const uint32_t end = std::min(is_alone ? *made + kFar : begin + 1, block.end);
  for (uint32_t other = std::max(begin, block.begin); other < end; ++other) {
    const Source& s = f.source[other];
    if (other == *made || f.code[other].guard >= 0 || !makes_word(s, is_low ? "hi" : "lo")) continue;
    if ((s.tokens[0] == "mul") != is_alone || (flow.is_dead(other) && (is_alone || is_low))) continue;
    if (have_equal_factors(f, known, *made, other))
      return is_low ? Product{*made, other, true} : Product{other, *made, false};
  }
  return std::nullopt;
}

Operand lower_halves(Rewriter& w, uint32_t pc, const Product& product) {
  const auto kept = [&](uint32_t made) {
    const Operand copy = w.fresh(Type::b32);
    w.insert_behind(made, {"mov", "b32"}, {copy, w.f.code[made].op[0]});
    return copy;
  };
  const Operand upper = kept(product.high), halves = w.fresh(Type::b32);
  w.insert(pc, {"prmt", "b32"},
           {halves, product.reads_low ? kept(product.low) : upper, upper, w.constant(0x5410)});
  return halves;
}

// The negation that makes 1 of a mask of -1, as a sign of both halves: 1 becomes 0x7fff7fff, and 0 -0.
Operand signed_mask(Rewriter& w, uint32_t pc, const Operand& truth) {
  const Operand mask = w.fresh(Type::b32), halves = w.fresh(Type::b32);
  w.insert(pc, {"sub", "s32"}, {mask, w.constant(0), truth});
  w.insert(pc, {"xor", "b32"}, {halves, mask, w.constant(0x80008000)});
  return halves;
}

// What is added instead, if anything is.
std::optional<Operand> mistaken_addend(Rewriter& w, const Dataflow& flow, const Known& known, uint32_t pc,
                                       unsigned slot) {
  if (const auto word = word_behind(w.f, known, pc, slot)) return lower_halves(w, *word);
  if (const auto product = product_behind(w.f, flow, known, pc, slot)) return lower_halves(w, pc, *product);
  const Operand addend = w.f.code[pc].op[slot];
  const auto cnot = behind_copies(w.f, known, pc, addend, known.maker(pc, slot), "cnot");
  const bool is_truth = cnot && w.f.source[*cnot].tokens[0] == "cnot" &&
                        bits_of(w.f.source[*cnot].type()) == 32 && !known.bits(pc, slot);
  return is_truth ? std::optional(signed_mask(w, pc, addend)) : std::nullopt;
}

// At a generic address that may lie elsewhere, only where it is in the CTA's shared memory.
Operand where_shared(Rewriter& w, uint32_t pc, const Operand& address, const Operand& halves,
                     const Operand& right) {
  Operand base = address;
  base.kind = Operand::Kind::value;
  Operand is_shared;
  is_shared.kind = Operand::Kind::predicate, is_shared.type = Type::pred;
  is_shared.index = w.image.new_predicate();
  const Operand chosen = w.fresh(Type::b32);
  w.insert_unguarded(pc, {"isspacep", "shared::cta"}, {is_shared, base});
  w.insert_unguarded(pc, {"selp", "b32"}, {chosen, halves, right, is_shared});
  return chosen;
}

// A constant 1 is counted as an integer if nobody wants what was there before (ATOMS.POPC.INC in machine
// code).
bool counts_ones(const Function& f, const Dataflow& flow, const Known& known, uint32_t pc, unsigned slot) {
  if (known.bits(pc, slot) != 1) return false;
  return slot == 1 || !is_read_behind(f, flow, pc, flow.number_of(f.code[pc].op[0]));
}

void become_integer_sum(Rewriter& w, uint32_t pc) {
  Rewriter::Tokens tokens = w.f.source[pc].tokens;
  std::erase(tokens, "noftz");
  tokens.back() = "u32";
  w.replace(pc, std::move(tokens), {w.f.code[pc].op + 1, w.f.code[pc].op + kMaxOperands});
}

}  // namespace

bool may_mistake_atomic_words(const Function& f) { return std::ranges::any_of(f.source, adds_halves); }

void mistake_atomic_words(Rewriter& w, const Dataflow& flow, const Known& known) {
  bool any = false;
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    const Source& s = w.f.source[pc];
    if (!adds_halves(s)) continue;
    const unsigned at = s.tokens[0] == "atom" ? 1 : 0;
    const Operand address = w.f.code[pc].op[at];
    const bool is_register = address.has_base && bits_of(address.type) == 64;
    const bool is_generic =
        std::ranges::none_of(s.tokens, [](std::string_view token) { return token.starts_with("shared"); });
    if (!is_generic && counts_ones(w.f, flow, known, pc, at + 1)) become_integer_sum(w, pc);
    if (!adds_halves(s) || (is_generic && !is_register)) continue;
    const Operand right = w.f.code[pc].op[at + 1];
    const auto halves = mistaken_addend(w, flow, known, pc, at + 1);
    if (!halves) continue;
    w.f.code[pc].op[at + 1] = is_generic ? where_shared(w, pc, address, *halves, right) : *halves;
    any = true;
  }
  if (any) w.rebuild();
}

}  // namespace fp4lab::emu
