#include "emulator/ptxas/optimise.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/op/atomic.h"
#include "emulator/ptxas/alternating_sign.h"
#include "emulator/ptxas/approximate.h"
#include "emulator/ptxas/asked_equal.h"
#include "emulator/ptxas/atomic_word.h"
#include "emulator/ptxas/bank_half.h"
#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/block_order.h"
#include "emulator/ptxas/branch_knowledge.h"
#include "emulator/ptxas/contraction.h"
#include "emulator/ptxas/copied_predicate.h"
#include "emulator/ptxas/dataflow.h"
#include "emulator/ptxas/idle_loop.h"
#include "emulator/ptxas/joined_constant.h"
#include "emulator/ptxas/joined_predicate.h"
#include "emulator/ptxas/late_constant.h"
#include "emulator/ptxas/masked_half.h"
#include "emulator/ptxas/moved_address.h"
#include "emulator/ptxas/nan_product.h"
#include "emulator/ptxas/narrow_load.h"
#include "emulator/ptxas/negative_constant.h"
#include "emulator/ptxas/packed_pair.h"
#include "emulator/ptxas/packed_sum.h"
#include "emulator/ptxas/peephole.h"
#include "emulator/ptxas/relu.h"
#include "emulator/ptxas/repeated_wgmma.h"
#include "emulator/ptxas/rotated_loop.h"
#include "emulator/ptxas/routine.h"
#include "emulator/ptxas/scaled_product.h"
#include "emulator/ptxas/several_loops.h"
#include "emulator/ptxas/signs.h"
#include "emulator/ptxas/split_branch.h"
#include "emulator/ptxas/swapped_half.h"
#include "emulator/ptxas/uniform_shuffle.h"
#include "emulator/ptxas/unread_store.h"
#include "emulator/ptxas/unroll.h"
#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

namespace {

constexpr size_t kMostInstructions = 1u << 18;  // beyond: as written
class Optimiser {
 public:
  // `orders`: operands of f64.
  Optimiser(Rewriter& w, bool orders) : w_(w), f_(w.f), orders_(orders) {}

  // `called`: the same with unwanted routines. `straight`: without idle loops.
  // `are_renamed`: see ValueOrder. `looks_again`: once extremes have become copies, by another call; true if
  // there are any.
  bool run(const Dataflow& flow, const Dataflow& called, const Dataflow& straight, const Known& known,
           const std::vector<const Token*>& nounroll, bool are_renamed, bool looks_again) {
    ValueOrder order(f_, called, known, nounroll, are_renamed);
    if (looks_again && fold_extremes(flow, order)) return true;
    std::optional<Known> folded;
    while (fold_approximate(w_, flow, folded ? *folded : known))
      folded.emplace(w_, flow);  // one feeds the next
    const Known& constants = folded ? *folded : known;
    Contraction contraction(w_, straight, constants, order.sunk_readings());
    Signs signs(w_, flow, known);
    for (const Dataflow::Block& b : flow.blocks())
      for (uint32_t pc = b.begin; pc < b.end; ++pc) {
        if (flow.is_dead(pc)) continue;
        const auto of_nan = nan_product(constants, f_.code[pc], f_.source[pc], pc);
        if (!of_nan && !contraction.is_taken(pc)) move_sign_to_nan(pc, constants);
        if (!of_nan)
          simplify(pc, order, contraction);
        else if (!contraction.is_taken(pc))
          w_.replace(pc, {"mov", "b64"}, {w_.constant(of_nan->alone(), Type::b64)});
        signs.fold(pc);
        const std::string_view name = f_.source[pc].tokens[0];
        if (name == "atom" || name == "red") order_atomic_sum(pc, flow, order);
      }
    signs.apply();
    contraction.apply();
    w_.rebuild();
    return false;
  }

 private:
  // --- extremes of a value and itself

  // Before anything is ordered or contracted those of a value and its copies; and of f32, which nobody
  // orders, those of equal values and selections between them, so that they take no sign (signs.h).
  bool fold_extremes(const Dataflow& flow, const ValueOrder& order) {
    bool any = false;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      const bool is_extreme = is_plain_extreme(f_.code[pc], f_.source[pc]);
      if (flow.is_dead(pc) || !(is_extreme || is_selection_of_f32(pc))) continue;
      const bool is_of_one =
          f_.source[pc].type() == Type::f32 ? order.same(pc, 1, 2) : order.are_copies_of_one(pc, 1, 2);
      if (!is_of_one) continue;
      become_copy(pc);
      any = true;
    }
    if (any) w_.rebuild();
    return any;
  }

  void become_copy(uint32_t pc) {
    const Instr& i = f_.code[pc];
    const Type type = f_.source[pc].type();
    w_.replace(pc,
               {"mov", type == Type::f32   ? (i.guard >= 0 ? "f32" : "b32")  // see Pass::become_copy
                       : type == Type::f64 ? "b64"
                                           : "b16"},
               {i.op[1]});
  }

  // --- single instructions

  void simplify(uint32_t pc, ValueOrder& order, const Contraction& contraction) {
    // Not of f16 values that turn out to be equal only here: of these a NaN becomes canonical.
    if (f_.source[pc].type() != Type::f16 && is_plain_extreme(f_.code[pc], f_.source[pc]) &&
        order.same(pc, 1, 2)) {
      order.became_copy(pc, 1);
      return become_copy(pc);
    }
    if (orders_ && f_.source[pc].type() == Type::f64 && !contraction.takes_product(pc))
      order_operands(pc, order);
  }

  bool is_selection_of_f32(uint32_t pc) const {
    const std::string_view name = f_.source[pc].tokens[0];
    return (name == "selp" || name == "slct") && f_.source[pc].type() == Type::f32;
  }

  void move_sign_to_nan(uint32_t pc, const Known& known) {
    if (const auto factor = negated_nan_factor(known, f_.source[pc], pc, f_))
      f_.code[pc].op[factor->first] = w_.constant(factor->second, Type::f64);
  }

  // A sum in shared memory: see optimised_add_f64. Of what comes behind its loop's load it is as it is
  // without optimisation.
  void order_atomic_sum(uint32_t pc, const Dataflow& flow, const ValueOrder& order) {
    const Source& s = f_.source[pc];
    if (!s.has("add") || s.type() != Type::f64) return;
    const unsigned added = s.tokens[0] == "atom" ? 2 : 1;
    if (flow.number_of(f_.code[pc].op[added]) != Dataflow::kNone && !order.comes_behind_memory(pc, added))
      f_.code[pc].body = optimised_add_f64();
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
  const bool orders_;
};

// Integer kernels without any of these are as they were written.
bool is_worth_it(const Function& f) {
  return std::any_of(f.source.begin(), f.source.end(), [](const Source& s) {
    static const std::unordered_set<std::string_view> kNames = {
        "abs",  "add", "and", "atom", "red",  "bfe",  "bfi", "cnot", "cos",  "cvt", "div", "ex2",
        "fma",  "fns", "lg2", "mad",  "max",  "min",  "mul", "neg",  "or",   "rcp", "rem", "rsqrt",
        "setp", "shl", "shr", "sin",  "slct", "sqrt", "st",  "sub",  "selp", "xor"};
    return kNames.contains(s.tokens[0]);
  });
}

// Where .reqntid says that a block is one thread high or deep, %tid.y or %tid.z is a constant.
void know_single_threads(Image& image, const Function& f) {
  if (!f.req_ntid[0]) return;
  for (Row& row : image.constants) {
    if (row.what != Row::What::special || FixedSpecial(row.bits) > FixedSpecial::tid_z) continue;
    if (f.req_ntid[row.bits] <= 1) row = {row.offset, Row::What::bits32, 0};
  }
}

bool has_unwanted_routine(const Function& f, const Dataflow& flow, unsigned least_bits = 0) {
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    const Source& s = f.source[pc];
    const bool is_routine = is_float_routine(s) || is_integer_routine(s);
    if (is_routine && flow.is_dead(pc) && bits_of(s.type()) >= least_bits) return true;
  }
  return false;
}

}  // namespace

void optimise(Image& image, Function& f, std::vector<const Entry*> rows,
              const std::vector<const Token*>& nounroll) {
  if (f.code.size() > kMostInstructions || !is_worth_it(f)) return;
  know_single_threads(image, f);
  Rewriter w(image, f, std::move(rows));
  const auto literals = may_shuffle_constants(f) ? std::optional<Literals>(f) : std::nullopt;
  remove_unreachable(w);
  // Each step sees what the ones before it made.
  const auto step = [&](auto what) {
    const ConstantRows constants = constant_rows(image);
    const Dataflow flow(image.out, f, w.rows, constants);
    if (flow.is_too_big()) return;
    what(flow);
  };
  if (may_stand_in_any_order(f)) step([&](const Dataflow& flow) { order_blocks(w, flow); });
  if (may_move_addresses(f)) step([&](const Dataflow& flow) { name_moved_addresses(w, flow); });
  if (may_copy_predicates(f)) step([&](const Dataflow& flow) { mistake_copied_predicates(f, flow); });
  constexpr int kMostJoined = 4;  // what one makes may be another's
  bool joins = may_join_constants(f);
  for (int round = 0; round < kMostJoined && std::exchange(joins, false); ++round)
    step([&](const Dataflow& flow) { joins = join_constants(w, flow, Known(w, flow)); });
  constexpr int kMostNested = 4;
  // Calls what() with `flow` as it is without idle loops, and with calls that nobody wants if `calls` says
  // so.
  const auto as_compiled = [&](const Dataflow& flow, Dataflow::Calls calls, auto what) {
    const ConstantRows constants = constant_rows(image);
    std::vector<uint32_t> idle = has_loops(w) ? idle_branches(w, flow) : std::vector<uint32_t>{};
    std::vector<uint32_t> outer = idle;
    for (int depth = 1; depth < kMostNested && !outer.empty(); ++depth) {
      outer = idle_branches(w, Dataflow(image.out, f, w.rows, constants, idle));
      idle.insert(idle.end(), outer.begin(), outer.end());
    }
    if (idle.empty() && !has_unwanted_routine(f, flow)) return what(flow);
    what(Dataflow(image.out, f, w.rows, constants, idle, calls));
  };
  bool are_renamed = false;
  bool is_late = false;  // branches that are decided late are, now
  const auto afresh = [&](auto what) {
    step([&](const Dataflow& flow) {
      as_compiled(flow, Dataflow::Calls::always, [&](const Dataflow& blocks) {
        Known known(w, flow, blocks);
        what(flow, known);
      });
    });
  };
  constexpr int kMostExtremes = 8;  // the copy that one becomes may be another's operand
  const auto compute = [&](const auto& again, const Dataflow& flow, const Known& known, int rounds) -> void {
    // Unwanted routines of 64 bits are called still, where operands are ordered.
    const ConstantRows constants = constant_rows(image);
    std::optional<Dataflow> called;
    if (sums_f64(f) && has_unwanted_routine(f, flow, 64))
      called.emplace(image.out, f, w.rows, constants, std::span<const uint32_t>(), Dataflow::Calls::always);
    bool any_copies = false;
    const auto run = [&](const Dataflow& compiled) {
      any_copies =
          Optimiser(w, !is_late)
              .run(flow, called ? *called : flow, compiled, known, nounroll, are_renamed, rounds > 0);
    };
    if (has_products(f))
      as_compiled(flow, Dataflow::Calls::when_wanted, run);
    else
      run(flow);
    if (any_copies)
      afresh([&](const Dataflow& flow, const Known& known) { again(again, flow, known, rounds - 1); });
    else if (may_scale_products(w))
      step([&](const Dataflow& after) { scale_products(w, after); });
  };
  const auto arithmetic = [&](const Dataflow& flow, const Known& known) {
    compute(compute, flow, known, kMostExtremes);
  };
  const auto single = [&](const Dataflow& flow, Known& known) {
    fold_single(w, flow, known) ? afresh(arithmetic) : arithmetic(flow, known);
  };
  constexpr int kMostGuards = 4;  // what a guard leaves may be a constant, which decides another
  const bool loops_matter = sums_f64(f) || has_products(f) || has_pairs(f) || may_take_truths(f);
  bool unrolls = loops_matter || has_signs(f) || has_tables(f) || gives_back_operands(f) ||
                 has_saturated_sums(f) || may_repeat_wgmma(f) || may_mistake_atomic_words(f);
  const bool loses_signs = has_loops(w) && may_lose_signs(f);
  // What early constants decide is no way out of a loop.
  bool decides = (unrolls || loses_signs) && has_loops(w);
  for (int round = 0; round < kMostGuards && std::exchange(decides, false); ++round)
    afresh([&](const Dataflow&, const Known& known) { decides = fold_guards(w, known, false); });
  for (int depth = 0; depth < kMostNested && std::exchange(unrolls, false); ++depth)
    step([&](const Dataflow& flow) {
      const Unrolled loops = unroll(w, flow, nounroll);
      unrolls = loops.any;
      are_renamed |= loops.with_branches;
    });
  if (may_mistake_branches(f)) step([&](const Dataflow& flow) { fold_known_branches(w, flow, nounroll); });
  if (loses_signs) step([&](const Dataflow& flow) { rotate_counted_loops(w, flow, nounroll); });
  // The last round of a loop that is several is one of many: nobody knows what sign it leaves.
  if (loops_matter || has_signs(f) || loses_signs)
    step([&](const Dataflow& flow) { make_several_loops(w, flow, nounroll); });
  if (loops_matter) step([&](const Dataflow& flow) { rotate_loops(w, flow, nounroll); });
  if (may_ask_equal(f))
    afresh([&](const Dataflow& flow, const Known& known) { mistake_asked_constants(w, flow, known); });
  const auto guards = [&](const auto& again, int rounds, bool late) -> void {
    afresh([&](const Dataflow& flow, Known& known) {
      if (rounds > 0 && (fold_guards(w, known, late) || fold_absorbed(w, flow, known)))
        return again(again, rounds - 1, late);
      if (late || !has_late_branches(f, known)) return single(flow, known);
      // All arithmetic is done before such branches are decided; products meet sums once more behind that.
      single(flow, known);
      is_late = true;
      again(again, kMostGuards, true);
    });
  };
  if (has_products(f) && may_have_unread_stores(f))
    step([&](const Dataflow& flow) { remove_unread_stores(w, flow); });
  if (may_shuffle_extremes(f))
    afresh([&](const Dataflow& flow, const Known& known) { copy_uniform_shuffles(w, flow, known); });
  guards(guards, kMostGuards, !has_products(f) && !sums_f64(f));
  if (literals)
    afresh([&](const Dataflow&, const Known& known) { move_shuffled_constants(w, known, *literals); });
  if (may_shuffle_uniform(f))
    afresh([&](const Dataflow& flow, const Known& known) { move_uniform_shuffles(w, flow, known); });
  if (may_mistake_constants(f))
    afresh([&](const Dataflow&, const Known& known) { mistake_negative_constants(w, known); });
  if (may_mistake_atomic_words(f))
    afresh([&](const Dataflow& flow, const Known& known) { mistake_atomic_words(w, flow, known); });
  if (may_repeat_wgmma(f))
    afresh([&](const Dataflow& flow, const Known& known) { forget_repeated_wgmma(w, flow, known); });
  if (may_rectify(f)) afresh([&](const Dataflow& flow, const Known& known) { rectify(w, flow, known); });
  if (has_packed_sums(f)) step([&](const Dataflow& flow) { mistake_packed_sums(w, flow); });
  if (may_mistake_bank_halves(f)) step([&](const Dataflow& flow) { mistake_bank_halves(w, flow); });
  if (has_narrow_loads(f)) step([&](const Dataflow& flow) { mistake_narrow_loads(w, flow); });
  if (may_lose_masks(f))
    afresh([&](const Dataflow& flow, const Known& known) { lose_masks(w, flow, known); });
  if (has_pairs_of_bytes(f))
    afresh([&](const Dataflow& flow, const Known& known) { mistake_packed_halves(w, flow, known); });
  if (may_swap_halves(f))
    afresh([&](const Dataflow&, const Known& known) { mistake_swapped_halves(w, known); });
  if (may_join_predicates(f))
    afresh([&](const Dataflow& flow, const Known& known) { join_predicates(w, flow, known); });
  if (may_split_branches(f)) step([&](const Dataflow& flow) { split_branches(w, flow); });
  if (may_alternate_signs(f)) step([&](const Dataflow& flow) { alternate_signs(w, flow, nounroll); });
}

}  // namespace fp4lab::emu
