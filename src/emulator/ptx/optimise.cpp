#include "emulator/ptx/optimise.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptx/approximate.h"
#include "emulator/ptx/contraction.h"
#include "emulator/ptx/dataflow.h"
#include "emulator/ptx/peephole.h"
#include "emulator/ptx/value_order.h"

namespace fp4lab::emu {

namespace {

constexpr size_t kMostInstructions = 1u << 18;  // beyond: as written
class Optimiser {
 public:
  explicit Optimiser(Rewriter& w) : w_(w), f_(w.f) {}

  void run(const Dataflow& flow) {
    const ValueOrder order(f_, flow);
    find_only_writers(flow);
    fold_approximate(w_, flow);
    Contraction contraction(w_, flow);
    for (const Dataflow::Block& b : flow.blocks())
      for (uint32_t pc = b.begin; pc < b.end; ++pc) {
        if (flow.is_dead(pc)) continue;
        simplify(pc, order, contraction);
        fold_signs(pc, b, flow);
        const std::string_view name = f_.source[pc].tokens[0];
        if (name == "st") convert_stored(pc, b, flow);
        if (name == "shl" || name == "shr") convert_amount(pc, b, flow);
      }
    contraction.apply();
    w_.rebuild();
  }

 private:
  // --- single instructions

  void simplify(uint32_t pc, const ValueOrder& order, const Contraction& contraction) {
    Instr& i = f_.code[pc];
    const Source& s = f_.source[pc];
    const std::string_view name = i.opcode->name;
    const bool extreme = s.tokens[0] == "min" || s.tokens[0] == "max";
    const Type type = s.type();
    if (extreme && (name.ends_with("n_float") || name.ends_with("x_float") || name.ends_with("_half")) &&
        !s.has("ftz") && !s.has("NaN") && !s.has("xorsign") &&
        (type == Type::f32 || type == Type::f64 || type == Type::f16) && order.same(pc, 1, 2))
      return w_.replace(pc,
                        {"mov", type == Type::f32   ? "b32"
                                : type == Type::f64 ? "b64"
                                                    : "b16"},
                        {i.op[1]});
    if (type == Type::f64 && !contraction.takes_product(pc)) order_operands(pc, order);
  }

  // --- signs, which the compiler folds into what reads them

  bool writes(uint32_t pc, uint32_t reg, const Dataflow& flow) const {
    const auto& list = flow.access(pc).writes;
    return std::find(list.begin(), list.end(), reg) != list.end();
  }

  // Who wrote a register last in the block before pc; kNone = nobody there.
  uint32_t writer(const Operand& op, uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) const {
    const uint32_t reg = flow.number_of(op);
    if (reg == Dataflow::kNone) return Dataflow::kNone;
    while (pc-- > b.begin)
      if (writes(pc, reg, flow)) return pc;
    return Dataflow::kNone;
  }

  // The same, or else who alone writes it, earlier in the text.
  uint32_t maker(const Operand& op, uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) const {
    const uint32_t here = writer(op, pc, b, flow), reg = flow.number_of(op);
    if (here != Dataflow::kNone || reg == Dataflow::kNone) return here;
    return only_writer_[reg] < pc ? only_writer_[reg] : Dataflow::kNone;
  }
  void find_only_writers(const Dataflow& flow) {
    only_writer_.assign(flow.registers(), Dataflow::kNone);
    std::vector<char> is_written(flow.registers(), 0);
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      for (const uint32_t reg : flow.access(pc).writes) {
        only_writer_[reg] = is_written[reg] ? Dataflow::kNone : pc;
        is_written[reg] = 1;
      }
  }

  // abs or neg of f32.
  bool is_sign(uint32_t pc) const {
    const std::string_view name = f_.code[pc].opcode->name;
    return (name == "abs_float" || name == "neg_float") && f_.source[pc].type() == Type::f32 &&
           !f_.source[pc].has("ftz");
  }
  void make_bitwise(uint32_t pc) {
    const bool abs = f_.code[pc].opcode->name == "abs_float";
    const Operand a = f_.code[pc].op[1];
    w_.replace(pc, {abs ? "and" : "xor", "b32"}, {a, w_.constant(abs ? 0x7fffffff : 0x80000000)});
  }

  void fold_signs(uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) {
    const std::string_view mnemonic = f_.source[pc].tokens[0];
    if (is_sign(pc)) {
      if (f_.code[pc].guard >= 0 || is_selected_next(pc, b, flow)) return make_bitwise(pc);
    } else if ((mnemonic == "selp" || mnemonic == "slct") && f_.source[pc].type() == Type::f32) {
      for (const unsigned slot : {1u, 2u}) take_bits(pc, slot, b, flow);
    }
    if (is_selection(f_.code[pc], f_.source[pc]) && flow.is_pure(pc)) keep_bits(pc, b, flow);
    if (is_negation(f_.code[pc], f_.source[pc])) fold_two_negations(pc, b, flow);
  }

  // The next that happens to the result is that a guarded instruction writes over it.
  bool is_selected_next(uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) const {
    const uint32_t reg = flow.number_of(f_.code[pc].op[0]);
    for (uint32_t next = pc + 1; next < b.end; ++next) {
      if (flow.is_dead(next)) continue;
      const auto& reads = flow.access(next).reads;
      if (std::find(reads.begin(), reads.end(), reg) != reads.end()) return false;
      if (writes(next, reg, flow)) return f_.code[next].guard >= 0;
    }
    return false;
  }

  // A guarded instruction that is one for ptxas too.
  static bool is_selection(const Instr& i, const Source& s) {
    static const std::unordered_set<std::string_view> kSeveral = {"ld",    "ldu", "div", "rcp", "sqrt",
                                                                  "rsqrt", "ex2", "lg2", "sin", "cos"};
    return i.guard >= 0 && s.type() == Type::f32 && is_value(i.op[0]) && !kSeveral.contains(s.tokens[0]);
  }

  // A selection of f32 takes the sign's change itself, also the one between what a guarded instruction
  // computes and what its target held before.
  void take_bits(uint32_t pc, unsigned slot, const Dataflow::Block& b, const Dataflow& flow) {
    Operand& op = f_.code[pc].op[slot];
    if (const auto bits = changed_sign(op, pc, b, flow)) op = *bits;
  }
  void keep_bits(uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) {
    const Operand target = f_.code[pc].op[0];
    if (const auto bits = changed_sign(target, pc, b, flow)) w_.insert(pc, {"mov", "b32"}, {target, *bits});
  }
  // What an abs or neg made, without its way with NaNs.
  std::optional<Operand> changed_sign(const Operand& op, uint32_t pc, const Dataflow::Block& b,
                                      const Dataflow& flow) {
    const uint32_t from = maker(op, pc, b, flow);
    if (from == Dataflow::kNone || !is_sign(from) || f_.code[from].guard >= 0) return std::nullopt;
    const bool abs = f_.code[from].opcode->name == "abs_float";
    const Operand bits = w_.fresh(op.type);
    w_.insert(from, {abs ? "and" : "xor", "b32"},
              {bits, f_.code[from].op[1], w_.constant(abs ? 0x7fffffff : 0x80000000)});
    return bits;
  }

  void fold_two_negations(uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) {
    const Instr& i = f_.code[pc];
    const Type type = f_.source[pc].type();
    const uint32_t from = maker(i.op[1], pc, b, flow);
    if (from == Dataflow::kNone || i.guard >= 0 || f_.code[from].opcode != i.opcode ||
        f_.code[from].guard >= 0 || f_.source[from].type() != type || f_.source[from].has("ftz"))
      return;
    const std::string_view bits = name_of(bits_type(type));
    const Operand copy = w_.fresh(i.op[0].type);
    w_.insert(from, {"mov", bits}, {copy, f_.code[from].op[1]});
    w_.replace(pc, {"mov", bits}, {copy});
  }

  // --- stores

  // A store of integers or bits that are narrower than the register converts what a float instruction wrote:
  // all elements of a vector if the last one is such. Not under a guard.
  void convert_stored(uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) {
    if (f_.code[pc].guard >= 0) return;
    Operand& stored = f_.code[pc].op[1];
    const bool vector = stored.kind == Operand::Kind::vector;
    Operand* const first = vector ? &f_.vectors[stored.index] : &stored;
    Operand* const last = vector ? first + stored.count - 1 : first;
    const Type to = integer(f_.source[pc].type()), from = float_written(*last, pc, b, flow);
    if (from == Type::none || bits_of(to) >= bits_of(from)) return;
    for (Operand* op = first; op <= last; ++op) {
      if (!is_value(*op)) continue;
      const Operand wide = from == Type::bf16 ? converted(*op, Type::f32, Type::bf16, pc) : *op;
      *op = converted(wide, to, from == Type::bf16 ? Type::f32 : from, pc);
    }
  }

  // So does a shift of 64 bits with its amount: to 64 bits, of which it takes the lower half.
  void convert_amount(uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) {
    Operand& amount = f_.code[pc].op[2];
    if (bits_of(f_.source[pc].type()) != 64 || float_written(amount, pc, b, flow) != Type::f32) return;
    const Operand wide = w_.fresh(Type::b64), low = w_.fresh(Type::b32);
    w_.insert(pc, {"cvt", "rzi", f_.source[pc].type() == Type::s64 ? "s64" : "u64", "f32"}, {wide, amount});
    w_.insert(pc, {"cvt", "u32", "u64"}, {low, wide});
    amount = low;
  }

  Operand converted(const Operand& op, Type to, Type from, uint32_t before) {
    Operand d = w_.fresh(op.type);
    if (to == Type::f32 && from == Type::bf16) {
      d.type = Type::b32;
      w_.insert(before, {"cvt", "f32", "bf16"}, {d, op});
    } else {
      w_.insert(before, {"cvt", to == Type::f32 ? "rn" : "rzi", name_of(to), name_of(from)}, {d, op});
    }
    return d;
  }

  // The type of float that an instruction of the block wrote into a register as wide; none for anything else.
  Type float_written(const Operand& op, uint32_t pc, const Dataflow::Block& b, const Dataflow& flow) const {
    if (!is_value(op) || op.immediate) return Type::none;
    const uint32_t from = writer(op, pc, b, flow);
    if (from == Dataflow::kNone) return Type::none;
    const std::string_view name = f_.source[from].tokens[0];
    const Type named = f_.source[from].type(), type = named == Type::tf32 ? Type::f32 : named;
    const bool scalar = type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64;
    if (!scalar || bits_of(type) != bits_of(op.type) || name == "copysign" || name == "set")
      return Type::none;
    // Their expansions are of f16.
    const bool halves = name == "neg" || name == "abs" || name == "min" || name == "max";
    return type == Type::bf16 && halves ? Type::f16 : type;
  }

  static Type integer(Type t) {
    return t == Type::b8 ? Type::u8 : t == Type::b16 ? Type::u16 : t == Type::b32 ? Type::u32 : t;
  }

  // Operands of a sum, product or extreme of f64: the one that was made first comes first.
  void order_operands(uint32_t pc, const ValueOrder& order) {
    Instr& i = f_.code[pc];
    const std::string_view name = f_.source[pc].tokens[0];
    const bool ordered = name == "add" || name == "sub" || name == "mul" || name == "fma" || name == "mad" ||
                         name == "min" || name == "max";
    if (!ordered || !order.comes_later(pc, 1, 2)) return;
    if (name != "sub") return std::swap(i.op[1], i.op[2]);
    std::vector<std::string_view> tokens = f_.source[pc].tokens;
    tokens[0] = "add";
    const Operand a = i.op[1];
    w_.replace(pc, tokens, {w_.negated(i.op[2], pc), a});
  }

  Rewriter& w_;
  Function& f_;
  std::vector<uint32_t> only_writer_;  // by register; kNone: several, or none
};

// Integer kernels without any of these are as they were written.
bool is_worth_it(const Function& f) {
  return std::any_of(f.source.begin(), f.source.end(), [](const Source& s) {
    static const std::unordered_set<std::string_view> kNames = {
        "abs",  "add", "and", "bfe", "bfi",  "cos",  "cvt", "div", "ex2",  "fma",
        "lg2",  "mad", "max", "min", "mul",  "neg",  "or",  "rcp", "rem",  "rsqrt",
        "setp", "shl", "shr", "sin", "slct", "sqrt", "st",  "sub", "selp", "xor"};
    return kNames.contains(s.tokens[0]);
  });
}

}  // namespace

void optimise(Image& image, Function& f, std::vector<const Entry*> rows) {
  if (f.code.size() > kMostInstructions || !is_worth_it(f)) return;
  Rewriter w(image, f, std::move(rows));
  // Each step sees what the ones before it made.
  const auto step = [&](auto what) {
    const std::unordered_set<uint32_t> constants = constant_rows(image);
    const Dataflow flow(image.out, f, w.rows, constants);
    if (flow.is_too_big()) return;
    what(flow);
  };
  const auto arithmetic = [&](const Dataflow& flow) { Optimiser(w).run(flow); };
  const auto single = [&](const Dataflow& flow, Known& known) {
    fold_single(w, flow, known) ? step(arithmetic) : arithmetic(flow);
  };
  step([&](const Dataflow& flow) {
    Known known(w, flow);
    if (!fold_guards(w, flow, known)) return single(flow, known);
    step([&](const Dataflow& after) {
      Known known_then(w, after);
      single(after, known_then);
    });
  });
}

}  // namespace fp4lab::emu
