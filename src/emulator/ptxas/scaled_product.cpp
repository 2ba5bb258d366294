#include "emulator/ptxas/scaled_product.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/ptxas/approximate.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/summed_product.h"

namespace fp4lab::emu {

namespace {

bool is_scale(uint64_t bits) {
  static constexpr float kScales[] = {2, 4, 8, .5f, .25f, .125f};
  return std::any_of(std::begin(kScales), std::end(kScales),
                     [&](float s) { return bits == std::bit_cast<uint32_t>(s); });
}

class ScaledProducts {
 public:
  ScaledProducts(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow), known_(w, flow) {}

  bool run() {
    bool any = false;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc) || !is_second(pc)) continue;
      const unsigned slot = scale_slot(pc);
      const uint32_t product = slot ? product_in(pc, 3 - slot) : Dataflow::kNone;
      if (product == Dataflow::kNone) continue;
      make_one(pc, slot, product);
      any = true;
    }
    if (any) w_.rebuild();
    return any;
  }

 private:
  bool is_second(uint32_t pc) const {
    const Source& s = f_.source[pc];
    return s.tokens[0] == "mul" && s.type() == Type::f32 && !s.has("rz") && !s.has("rm") && !s.has("rp");
  }

  // Which factor is the scale; 0: none.
  unsigned scale_slot(uint32_t pc) const {
    for (const unsigned slot : {1u, 2u})
      if (const auto bits = known_.bits(pc, slot); bits && is_scale(*bits)) return slot;
    return 0;
  }

  // The product that nothing else reads, if it may read that one's factors.
  uint32_t product_in(uint32_t pc, unsigned slot) const {
    const uint32_t reader = pc;
    for (;;) {
      const uint32_t from = known_.maker(pc, slot);
      if (from == Dataflow::kNone || from >= pc || known_.uses(from) != 1) return Dataflow::kNone;
      const Shape shape = shape_of(f_.code[from], f_.source[from]);
      if (shape == Shape::product)
        return f_.source[from].type() == Type::f32 && known_.may_read_for(reader, from) ? from
                                                                                        : Dataflow::kNone;
      if (shape != Shape::copy) return Dataflow::kNone;
      pc = from, slot = 1;
    }
  }

  // In f64, which holds the product exactly: one rounding, in the conversion. Behind it a product by 1 makes
  // the NaN that a product makes.
  void make_one(uint32_t pc, unsigned slot, uint32_t product) {
    const Source& s = f_.source[pc];
    const Instr& first = f_.code[product];
    const auto [a, b] = ends_in_product(f_.source[product]) ? expand_quotient(w_, product)
                                                            : std::pair(first.op[1], first.op[2]);
    Rewriter::Tokens widen{"cvt"}, narrow{"cvt", "rn"};
    for (const std::string_view modifier : {"ftz", "sat"})
      if (s.has(modifier)) narrow.push_back(modifier);
    if (s.has("ftz")) widen.push_back("ftz");
    widen.insert(widen.end(), {"f64", "f32"});
    narrow.insert(narrow.end(), {"f32", "f64"});
    const auto made = [&](Rewriter::Tokens tokens, std::vector<Operand> sources) {
      const Operand d = w_.fresh(tokens == narrow ? Type::b32 : Type::b64);
      sources.insert(sources.begin(), d);
      w_.insert(product, std::move(tokens), std::move(sources));
      return d;
    };
    const Operand exact = made({"mul", "rn", "f64"}, {made(widen, {a}), made(widen, {b})});
    const double scale = std::bit_cast<float>(static_cast<uint32_t>(*known_.bits(pc, slot)));
    const Operand scaled =
        made({"mul", "rn", "f64"}, {exact, w_.constant(std::bit_cast<uint64_t>(scale), Type::b64)});
    w_.replace(pc, {"mul", "rn", "f32"},
               {made(narrow, {scaled}), w_.constant(std::bit_cast<uint32_t>(1.0f))});
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known known_;
};

}  // namespace

bool may_scale_products(const Rewriter& w) {
  return std::any_of(w.image.constants.begin(), w.image.constants.end(),
                     [](const Row& row) { return row.what == Row::What::bits32 && is_scale(row.bits); });
}

bool scale_products(Rewriter& w, const Dataflow& flow) { return ScaledProducts(w, flow).run(); }

}  // namespace fp4lab::emu
