#include "emulator/ptx/optimise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptx/dataflow.h"
#include "emulator/ptx/fold.h"
#include "emulator/ptx/known.h"
#include "emulator/ptx/peephole.h"
#include "emulator/ptx/value_order.h"

namespace fp4lab::emu {

namespace {

constexpr size_t kMostInstructions = 1u << 18;  // beyond: as written
constexpr uint32_t kNoAdd = 0xffffffff;

bool says_rounding(const Source& s) { return s.has("rn") || s.has("rz") || s.has("rm") || s.has("rp"); }

enum class Shape : uint8_t { other, product, sum, copy, negation };

// A product that sums of the same block take, all of those that use it.
struct Product {
  uint32_t pc;
  struct Use {
    uint32_t pc;
    bool second, negated;  // which operand of the sum; whether it is the product's negation
  };
  std::vector<Use> uses;
};

struct Fusion {
  uint32_t product = kNoAdd;
  bool second = false, negated = false;
};

class Optimiser {
 public:
  explicit Optimiser(Rewriter& w) : w_(w), f_(w.f) {
    for (const Row& row : w.image.constants)
      if (row.what == Row::What::bits32 || row.what == Row::What::bits64) values_[row.offset] = row.bits;
  }

  void run(const Dataflow& flow) {
    const ValueOrder order(f_, flow);
    fusions_.resize(f_.code.size());
    const Known known(w_, flow);
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (!flow.is_dead(pc) && f_.source[pc].type() == Type::f32) fold(pc, known);
    for (uint32_t b = 0; b < flow.blocks().size(); ++b) find_products(flow, b);
    choose_products();
    for (const Dataflow::Block& b : flow.blocks())
      for (uint32_t pc = b.begin; pc < b.end; ++pc) {
        if (flow.is_dead(pc)) continue;
        simplify(pc, order);
        fold_signs(pc, b, flow);
        const std::string_view name = f_.source[pc].tokens[0];
        if (name == "st") convert_stored(pc, b, flow);
        if (name == "shl" || name == "shr") convert_amount(pc, b, flow);
      }
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (fusions_[pc].product != kNoAdd) fuse(pc, flow);
    w_.rebuild();
  }

 private:
  using Tokens = Rewriter::Tokens;

  // --- contraction

  Shape shape_of(uint32_t pc) const {
    const Instr& i = f_.code[pc];
    const Source& s = f_.source[pc];
    const std::string_view name = i.opcode->name;
    if (name == "mov" && i.guard < 0 && is_value(i.op[0]) && is_value(i.op[1]) && !i.op[1].immediate)
      return Shape::copy;
    // Of bf16x2 ptxas negates with an fma of its own.
    if ((name == "neg_float" || name == "neg_half") && i.guard < 0 && !s.has("ftz") &&
        s.type() != Type::bf16x2)
      return Shape::negation;
    if (says_rounding(s) || !is_value(i.op[0])) return Shape::other;
    if (name == "mul_float" || name == "mul_half" || ends_in_product(s))
      return i.guard < 0 && !s.has("sat") ? Shape::product : Shape::other;
    if (name == "add_float" || name == "sub_float" || name == "add_half" || name == "sub_half")
      return Shape::sum;
    return Shape::other;
  }

  // What ptxas makes of approximate reciprocals and quotients ends in a product; rcp.approx.ftz is the
  // unit's.
  static bool ends_in_product(const Source& s) {
    if (s.type() != Type::f32 || !(s.has("approx") || s.has("full"))) return false;
    return s.tokens[0] == "div" || (s.tokens[0] == "rcp" && !s.has("ftz"));
  }

  static bool same_kind(const Source& a, const Source& b) {
    return a.type() == b.type() && a.has("ftz") == b.has("ftz");
  }

  // What the compiler makes branches of: subroutines, also where nobody wants their results, and guarded
  // instructions that do more than compute.
  static bool ends_block(const Instr& i, const Source& s, const Dataflow& flow) {
    static const std::unordered_set<std::string_view> kAlways = {"call",    "membar", "fence", "setmaxnreg",
                                                                 "pmevent", "trap",   "brkpt"};
    const std::string_view name = s.tokens[0];
    if (kAlways.contains(name) || s.has("launch_dependents")) return true;
    const Type type = s.type();
    if (name == "div" || name == "rem") return !s.has("approx") && !s.has("full") && type != Type::u32;
    if (name == "sqrt" || name == "rcp" || name == "rsqrt")
      return type == Type::f64 ? !s.has("ftz") : !s.has("approx");
    if (i.guard < 0 || flow.is_dead(i.pc)) return false;
    return !flow.is_pure(i.pc) || name == "ld" || name == "ldu";
  }

  void find_products(const Dataflow& flow, uint32_t block) {
    const Dataflow::Block& b = flow.blocks()[block];
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      if (flow.is_dead(pc) || shape_of(pc) != Shape::product) continue;
      if (auto product = used_in_sums(flow, block, pc); product && !product->uses.empty())
        products_.push_back(std::move(*product));
    }
  }

  // A product with the sums that use it; nothing when it is used otherwise too, or behind the block.
  std::optional<Product> used_in_sums(const Dataflow& flow, uint32_t block, uint32_t product) const {
    const Dataflow::Block& b = flow.blocks()[block];
    std::vector<std::pair<uint32_t, bool>> holders;  // registers that hold it, or its negation
    const auto holder = [&](const Operand& op) {
      const uint32_t reg = flow.number_of(op);
      return std::find_if(holders.begin(), holders.end(), [&](const auto& h) { return h.first == reg; });
    };
    holders.emplace_back(flow.number_of(f_.code[product].op[0]), false);
    Product found{product, {}};
    bool behind = false;  // behind what ends the compiler's block
    for (uint32_t pc = product + 1; pc < b.end && !holders.empty(); ++pc) {
      const Instr& i = f_.code[pc];
      if (flow.is_dead(pc)) {
        behind |= ends_block(i, f_.source[pc], flow);
        continue;
      }
      const Dataflow::Access& access = flow.access(pc);
      const auto held = [&](uint32_t reg) {
        return std::any_of(holders.begin(), holders.end(), [&](const auto& h) { return h.first == reg; });
      };
      std::optional<std::pair<uint32_t, bool>> another;
      if (std::any_of(access.reads.begin(), access.reads.end(), held)) {
        const Shape shape = shape_of(pc);
        const auto first = holder(i.op[1]), second = holder(i.op[2]);
        if (shape == Shape::copy || (shape == Shape::negation && same_type(pc, product))) {
          another = {flow.number_of(i.op[0]), first->second != (shape == Shape::negation)};
        } else if (shape == Shape::sum && same_kind(f_.source[pc], f_.source[product]) &&
                   (first == holders.end()) != (second == holders.end())) {
          const bool is_second = first == holders.end();
          found.uses.push_back({pc, is_second, (is_second ? second : first)->second});
        } else {
          return std::nullopt;
        }
        if (behind && shape == Shape::sum) return std::nullopt;
      }
      behind |= ends_block(i, f_.source[pc], flow);
      for (const uint32_t reg : access.writes) {
        if (!held(reg)) continue;
        if (i.guard >= 0) return std::nullopt;  // the product stays in some lanes
        std::erase_if(holders, [&](const auto& h) { return h.first == reg; });
      }
      if (another) holders.push_back(*another);
    }
    for (const auto& [reg, _] : holders)
      if (flow.lives_behind(block, reg)) return std::nullopt;
    return found;
  }

  bool same_type(uint32_t a, uint32_t b) const { return f_.source[a].type() == f_.source[b].type(); }

  // Sums take products that nothing else uses before others, the first operand before the second. A product
  // of several sums is taken as long as none of them has taken its other operand.
  void choose_products() {
    std::map<uint32_t, std::array<const Product*, 2>> sums;  // by pc: what their operands are
    for (const Product& p : products_)
      for (const Product::Use& use : p.uses) sums[use.pc][use.second] = &p;
    for (const bool single : {true, false})
      for (const auto& [pc, operands] : sums)
        for (const Product* p : operands)
          if (p && fusions_[pc].product == kNoAdd && (p->uses.size() == 1) == single && is_free(*p))
            for (const Product::Use& use : p->uses)
              if (use.pc == pc) fusions_[pc] = {p->pc, use.second, use.negated};
  }
  bool is_free(const Product& p) const {
    return std::all_of(p.uses.begin(), p.uses.end(), [&](const Product::Use& use) {
      const uint32_t taken = fusions_[use.pc].product;
      return taken == kNoAdd || taken == p.pc;
    });
  }

  // sum = a * b + c for a sum and its product.
  void fuse(uint32_t pc, const Dataflow& flow) {
    const Fusion& fusion = fusions_[pc];
    const Source& s = f_.source[pc];
    const bool subtracts = s.tokens[0] == "sub";
    const bool negate_product = fusion.negated != (subtracts && fusion.second);
    const bool negate_other = subtracts && !fusion.second;
    const bool quotient = ends_in_product(f_.source[fusion.product]);
    const auto [a, b] = quotient ? expand_quotient(fusion.product) : factors(fusion.product, pc, flow);
    Operand other = f_.code[pc].op[fusion.second ? 1 : 2];
    std::vector<std::string_view> tokens{"fma", "rn"};
    if (s.has("ftz")) tokens.push_back("ftz");
    if (s.has("sat")) tokens.push_back("sat");
    tokens.push_back(name_of(s.type()));
    if (negate_other) other = negated(other, pc);
    w_.replace(pc, tokens, {negate_product ? negated(a, pc) : a, b, other});
  }

  // The factors of a product, where a sum that takes it stands: copies if they have changed by then.
  std::pair<Operand, Operand> factors(uint32_t product, uint32_t sum, const Dataflow& flow) {
    const Instr& i = f_.code[product];
    const auto changed = [&](const Operand& op) {
      const uint32_t reg = flow.number_of(op);
      if (reg == Dataflow::kNone) return false;
      for (uint32_t pc = product; pc < sum; ++pc) {
        const auto& writes = flow.access(pc).writes;
        if (std::find(writes.begin(), writes.end(), reg) != writes.end()) return true;
      }
      return false;
    };
    const auto at_sum = [&](const Operand& op) {
      if (!changed(op)) return op;
      const Operand copy = w_.fresh(op.type);
      w_.insert(product, {"mov", name_of(bits_type(op.type))}, {copy, op});
      return copy;
    };
    const Operand a = at_sum(i.op[1]);
    return {a, at_sum(i.op[2])};
  }

  // The factors of what ends in a product: the dividend and the unit's reciprocal, both scaled where the
  // divisor is subnormal or very large (float_approx.h has the same steps).
  std::pair<Operand, Operand> expand_quotient(uint32_t pc) {
    const auto known = quotients_.find(pc);
    if (known != quotients_.end()) return known->second;
    const Source s = f_.source[pc];
    const bool ftz = s.has("ftz"), reciprocal = s.tokens[0] == "rcp";
    const Operand divisor = f_.code[pc].op[reciprocal ? 1 : 2];
    const auto made = [&](std::vector<std::string_view> tokens, std::vector<Operand> sources) {
      const Operand d = w_.fresh(f_.code[pc].op[0].type);
      sources.insert(sources.begin(), d);
      w_.insert(pc, std::move(tokens), std::move(sources));
      return d;
    };
    const auto value = [&](float v) { return w_.constant(std::bit_cast<uint32_t>(v)); };
    const Operand size = made({"abs", "f32"}, {divisor});
    Operand scale = value(1);
    if (!ftz) {
      const Operand subnormal = made({"set", "lt", "f32", "f32"}, {size, value(0x1p-126f)});
      scale = made({"fma", "rn", "f32"}, {subnormal, value(0x1p24f - 1), scale});
    }
    if (reciprocal || s.has("full")) {
      const Operand huge = made({"set", "gt", "f32", "f32"}, {size, value(0x1p126f)});
      scale = made({"fma", "rn", "f32"}, {huge, value(0.25f - 1), scale});
    }
    const Operand inverse =
        made({"rcp", "approx", "ftz", "f32"}, {made(rounded_product(s), {divisor, scale})});
    const Operand other = reciprocal ? scale : made(rounded_product(s), {f_.code[pc].op[1], scale});
    return quotients_[pc] = {other, inverse};
  }

  // --- approximate functions: before sums look for products

  void fold(uint32_t pc, const Known& known) {
    const Source& s = f_.source[pc];
    const bool approximate = s.has("approx") || s.has("full");
    if (approximate && s.tokens[0] == "div") return fold_quotient(pc, known);
    if (const auto result = folded(pc, known)) return w_.replace(pc, {"mov", "b32"}, {w_.constant(*result)});
    if (approximate && s.tokens[0] == "rcp" && s.has("ftz"))
      if (const auto inverse = inverse_of(pc, 1, known)) w_.replace(pc, {"mov", "b32"}, {*inverse});
  }

  std::optional<uint32_t> folded(uint32_t pc, const Known& known) const {
    std::array<uint32_t, 3> operands{};
    for (unsigned slot = 1; slot <= 3 && f_.code[pc].op[slot]; ++slot) {
      const auto bits = known.bits(pc, slot);
      if (!bits) return std::nullopt;
      operands[slot - 1] = static_cast<uint32_t>(*bits);
    }
    const Source& s = f_.source[pc];
    return s.has("approx") ? folded_function(s, operands[0]) : folded_arithmetic(s, operands);
  }

  void fold_quotient(uint32_t pc, const Known& known) {
    const Source& s = f_.source[pc];
    const auto divisor = known.bits(pc, 2);
    if (!divisor) {
      if (!s.has("approx") || !s.has("ftz")) return;
      if (const auto inverse = inverse_of(pc, 2, known))
        w_.replace(pc, {"mul", "ftz", "f32"}, {f_.code[pc].op[1], *inverse});
      return;
    }
    if (std::isnan(std::bit_cast<float>(static_cast<uint32_t>(*divisor)))) return;
    const FoldedDivisor by = folded_divisor(s, static_cast<uint32_t>(*divisor));
    Operand a = f_.code[pc].op[1];
    if (by.before != 1) {
      const Operand scaled = w_.fresh(a.type);
      w_.insert(pc, rounded_product(s), {scaled, a, w_.constant(std::bit_cast<uint32_t>(by.before))});
      a = scaled;
    }
    if (by.factor == 1 && !s.has("ftz")) return w_.replace(pc, {"mov", "b32"}, {a});
    w_.replace(pc, s.has("ftz") ? Tokens{"mul", "ftz", "f32"} : Tokens{"mul", "f32"},
               {a, w_.constant(std::bit_cast<uint32_t>(by.factor))});
    if (const auto result = folded(pc, known)) w_.replace(pc, {"mov", "b32"}, {w_.constant(*result)});
  }

  // 1 / operand where the compiler has it otherwise: a reciprocal's operand, and 2^-x of a 2^x that nothing
  // else reads.
  std::optional<Operand> inverse_of(uint32_t pc, unsigned slot, const Known& known) {
    const uint32_t from = known.maker(pc, slot);
    if (from == Dataflow::kNone || from >= pc) return std::nullopt;
    const Source s = f_.source[from];
    const std::string_view name = s.tokens[0];
    if (!s.has("approx") || !s.has("ftz") || s.type() != Type::f32) return std::nullopt;
    const Operand argument = f_.code[from].op[1];
    const Operand inverse = w_.fresh(f_.code[from].op[0].type);
    if (name == "rcp") {
      w_.insert(from, {"mov", "b32"}, {inverse, argument});
    } else if (name == "ex2" && known.uses(from) == 1) {
      const Operand negative = w_.fresh(inverse.type);
      w_.insert(from, {"neg", "f32"}, {negative, argument});
      w_.insert(from, s.tokens, {inverse, negative});
    } else {
      return std::nullopt;
    }
    return inverse;
  }

  // --- single instructions

  void simplify(uint32_t pc, const ValueOrder& order) {
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
    if (type == Type::f64 && fusions_[pc].product == kNoAdd) order_operands(pc, order);
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
    if (f_.code[pc].guard >= 0 && f_.source[pc].type() == Type::f32 && flow.is_pure(pc) && mnemonic != "ld" &&
        is_value(f_.code[pc].op[0]))
      keep_bits(pc, b, flow);
    if (shape_of(pc) == Shape::negation) fold_two_negations(pc, b, flow);
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
    const uint32_t from = writer(op, pc, b, flow);
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
    const uint32_t from = writer(i.op[1], pc, b, flow);
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

  // The value of an operand that is the same in every thread, as far as the text shows.
  std::optional<uint64_t> constant_at(uint32_t pc, unsigned slot, const ValueOrder& order) const {
    const auto offset = order.constant_row(pc, slot);
    if (!offset) return std::nullopt;
    const auto found = values_.find(*offset);
    return found != values_.end() ? std::optional(found->second) : std::nullopt;
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
    w_.replace(pc, tokens, {negated(i.op[2], pc), a});
  }

  // --- making instructions

  static Tokens rounded_product(const Source& s) {
    return s.has("ftz") ? Tokens{"mul", "rn", "ftz", "f32"} : Tokens{"mul", "rn", "f32"};
  }

  Operand negated(const Operand& op, uint32_t before) {
    const Operand negative = w_.fresh(op.type);
    w_.insert(before, {"neg", name_of(f_.source[before].type())}, {negative, op});
    return negative;
  }

  Rewriter& w_;
  Function& f_;
  std::unordered_map<uint32_t, uint64_t> values_;  // of constants, by their rows' offsets
  std::vector<Product> products_;
  std::vector<Fusion> fusions_;                                          // by the sum's pc
  std::unordered_map<uint32_t, std::pair<Operand, Operand>> quotients_;  // their factors, by pc
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
  const auto with_dataflow = [&](auto what) {
    const std::unordered_set<uint32_t> constants = constant_rows(image);
    const Dataflow flow(image.out, f, w.rows, constants);
    if (!flow.is_too_big()) what(flow);
  };
  with_dataflow([&](const Dataflow& flow) {
    if (!peephole(w, flow))
      Optimiser(w).run(flow);
    else
      with_dataflow([&](const Dataflow& after) { Optimiser(w).run(after); });
  });
}

}  // namespace fp4lab::emu
