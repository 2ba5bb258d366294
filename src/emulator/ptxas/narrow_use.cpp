#include "emulator/ptxas/narrow_use.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu {

namespace {

bool is_wide_shift(const Source& s) {
  return (s.tokens[0] == "shl" || s.tokens[0] == "shr") && bits_of(s.type()) == 64;
}

Type integer(Type t) {
  return t == Type::b8 ? Type::u8 : t == Type::b16 ? Type::u16 : t == Type::b32 ? Type::u32 : t;
}

bool is_scalar_float(Type t) { return t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64; }

// An approximate function that brings numbers which are not normal to scale and back, in guarded products:
// straight-line code ends behind it.
bool is_scaled(const Source& s) {
  static const std::unordered_set<std::string_view> kScaled = {"div", "ex2", "lg2", "rcp", "rsqrt", "sqrt"};
  return kScaled.contains(s.tokens[0]) && s.type() == Type::f32 && s.has("approx") && !s.has("ftz");
}

// Of an expansion the last machine instruction counts: `copysign` ends in one on bits, and what is scaled in
// a guarded product. A `set` makes an integer first, and converts it.
bool ends_in_float(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (name == "copysign" || s.has("full")) return false;
  if (name == "cvt" && s.has("ftz")) return s.type(0) != Type::f64 && s.type(1) != Type::f64;
  return !is_scaled(s);
}

// Of bf16 few have a machine instruction that says so; what the others make is taken for f16.
Type read_as(const Source& s, Type type) {
  static const std::unordered_set<std::string_view> kOfItsOwn = {"add", "sub",  "mul", "tanh",
                                                                 "ex2", "atom", "set"};
  return type == Type::bf16 && !kOfItsOwn.contains(s.tokens[0]) ? Type::f16 : type;
}

// What ptxas holds for an integer with a sign; extending and taking out bits is code on 32 bits, and a
// routine's result has the type that its register was declared with.
bool leaves_signed_64(const Source& s) {
  static const std::unordered_set<std::string_view> kBits = {"bfe", "div", "rem"};
  if (s.has("wide")) return s.type() == Type::s32;
  if (s.tokens[0] == "cvt" && !is_scalar_float(s.type(1))) return false;
  return s.type() == Type::s64 && !kBits.contains(s.tokens[0]);
}

// A guard on it is a branch over it, so that it stands in a block of its own. What is rounded to nearest, and
// every root and reciprocal of f32, is computed unguarded and then selected.
bool stands_alone_under_guard(const Source& s) {
  if (!is_float_routine(s)) return true;
  return s.type() == Type::f64 ? !s.has("rn") && !s.has("approx") : !is_selected_routine(s);
}

// Straight-line code ends behind these, with what they write, where it ends in front of what others do.
bool leaves_to_next(const Source& s) {
  const bool is_vector = s.has("v2") || s.has("v4") || s.has("v8");
  return s.has("sync") || s.tokens[0] == "activemask" || (s.tokens[0] == "atom" && is_vector);
}

class NarrowUses {
 public:
  NarrowUses(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow) {}

  void convert() {
    for (const Dataflow::Block& b : flow_.blocks()) {
      writer_.clear();
      for (uint32_t pc = b.begin; pc < b.end; ++pc) {
        const Source& s = f_.source[pc];
        if (s.begins_block) writer_.clear();
        if (!flow_.is_dead(pc) && s.tokens[0] == "st") convert_stored(pc);
        if (!flow_.is_dead(pc) && is_wide_shift(s)) convert_amount(pc);
        // What nobody wants is still there.
        const bool branches = flow_.becomes_branch(pc) || flow_.branches_under_guard(pc);
        if (ends_stretch(s) || is_scaled(s) || branches) writer_.clear();
        if (branches && f_.code[pc].guard >= 0 && stands_alone_under_guard(s)) continue;
        if (leaves_to_next(s)) continue;
        for (const uint32_t reg : flow_.access(pc).writes) writer_[reg] = pc;
      }
    }
    w_.rebuild();
  }

 private:
  // All elements of a vector if the last one is such. Under a guard it is a block of its own.
  void convert_stored(uint32_t pc) {
    if (f_.code[pc].guard >= 0) writer_.clear();
    Operand& stored = f_.code[pc].op[1];
    const bool vector = stored.kind == Operand::Kind::vector;
    Operand* const first = vector ? &f_.vectors[stored.index] : &stored;
    Operand* const last = vector ? first + stored.count - 1 : first;
    const Type to = integer(f_.source[pc].type()), from = written(*last, to);
    if (from == Type::none || bits_of(to) >= bits_of(from)) return;
    for (Operand* op = first; op <= last; ++op) {
      if (!is_value(*op)) continue;
      const Operand wide = from == Type::bf16 ? converted(*op, Type::f32, Type::bf16, pc) : *op;
      *op = converted(wide, to, from == Type::bf16 ? Type::f32 : from, pc);
    }
  }

  // To 64 bits, of which the shift takes the lower half.
  void convert_amount(uint32_t pc) {
    Operand& amount = f_.code[pc].op[2];
    if (float_written(amount) != Type::f32) return;
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

  // What is stored as f32 is a number also where the register holds an integer.
  Type written(const Operand& op, Type stored_as) const {
    const Type number = float_written(op);
    if (number != Type::none || stored_as != Type::f32 || !is_value(op) || op.immediate) return number;
    if (bits_of(op.type) != 64) return Type::none;
    const uint32_t from = writer(op);
    return from != Dataflow::kNone && leaves_signed_64(f_.source[from]) ? Type::s64 : Type::u64;
  }

  // The type of float that an instruction of the block wrote into a register as wide, or that the register
  // was declared with if none of the block wrote it; none for anything else.
  Type float_written(const Operand& op) const {
    if (!is_value(op) || op.immediate) return Type::none;
    const uint32_t from = writer(op);
    if (from == Dataflow::kNone) return is_scalar_float(op.type) ? op.type : Type::none;
    const Type named = f_.source[from].type();
    const bool is_tf32 = named == Type::tf32 && !f_.source[from].has("rna");  // that one is integer code
    const Type type = is_tf32 ? Type::f32 : named;
    const bool fits = is_scalar_float(type) && bits_of(type) == bits_of(op.type);
    return fits && ends_in_float(f_.source[from]) ? read_as(f_.source[from], type) : Type::none;
  }

  // kNone = nobody in the straight-line code before.
  uint32_t writer(const Operand& op) const {
    const auto found = writer_.find(flow_.number_of(op));
    return found == writer_.end() ? Dataflow::kNone : found->second;
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  std::unordered_map<uint32_t, uint32_t> writer_;  // by register: who wrote it last in the straight-line code
};

// Whether a store or a shift may take something narrower than a register.
bool may_narrow(const Function& f) {
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    const Source& s = f.source[pc];
    const Operand& taken = f.code[pc].op[s.tokens[0] == "st" ? 1 : 2];
    if (is_wide_shift(s) && is_value(taken) && !taken.immediate) return true;
    if (s.tokens[0] != "st") continue;
    const Operand& last =
        taken.kind == Operand::Kind::vector ? f.vectors[taken.index + taken.count - 1] : taken;
    if (is_value(last) && !last.immediate && bits_of(s.type()) < bits_of(last.type)) return true;
  }
  return false;
}

}  // namespace

void convert_narrow_uses(Image& image, Function& f, std::vector<const Entry*>& rows) {
  if (!may_narrow(f)) return;
  Rewriter w(image, f, std::move(rows));
  const Dataflow flow(image.out, f, w.rows, constant_rows(image));
  if (!flow.is_too_big()) NarrowUses(w, flow).convert();
  rows = std::move(w.rows);
}

}  // namespace fp4lab::emu
