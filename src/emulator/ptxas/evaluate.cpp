#include "emulator/ptxas/evaluate.h"

#include <exception>

#include "emulator/core/machine.h"
#include "emulator/core/memory.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kMostRegisterBytes = 4u << 20;  // of a warp

// One warp of one lane with the function's registers.
class Lane {
 public:
  explicit Lane(const Rewriter& w) : module_(module_like(w)), warp_(*cta_.warps[0]) { warp_.active = 1; }

  void execute(const Instr& i) { i.body(warp_, i); }
  uint64_t bits(const Operand& op) {
    if (op.kind == Operand::Kind::predicate) return warp_.mask(op) & 1;
    return bits_of(op.type) == 64 ? *warp_.source<uint64_t>(op) : *warp_.source<uint32_t>(op);
  }
  void set(const Operand& op, uint64_t bits) {
    if (op.kind == Operand::Kind::predicate)
      warp_.set_mask(op, static_cast<uint32_t>(bits));
    else if (bits_of(op.type) == 64)
      *warp_.target<uint64_t>(op) = bits;
    else
      *warp_.target<uint32_t>(op) = static_cast<uint32_t>(bits);
  }

 private:
  static Module module_like(const Rewriter& w) {
    Module m;
    Function& f = m.functions.emplace_back();
    f.vectors = w.f.vectors;
    f.register_bytes = w.image.register_bytes;
    f.predicate_count = w.image.predicate_count;
    f.constants = w.image.constants;
    return m;
  }

  Module module_;
  GlobalMemory memory_{4096};
  LaunchConfig config_{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 0, {}, false};
  Grid grid_{module_, module_.functions[0], config_, *device_model("h200"), memory_, Schedule{}, nullptr};
  Sm sm_;
  Sm* sms_[1] = {&sm_};
  Cluster cluster_{grid_, 0, {0, 0, 0}, sms_};
  Cta cta_{cluster_, 0, {0, 0, 0}, sm_};
  Warp& warp_;
};

// The compiler changes that bit, also of a NaN, whose sign the instruction would keep and make it quiet.
uint64_t with_changed_sign(const Source& s, uint64_t bits) {
  constexpr uint64_t kSign = uint64_t(1) << 63;
  return s.tokens[0] == "abs" ? bits & ~kSign : bits ^ kSign;
}

}  // namespace

bool is_sign_of_f64(const Source& s) {
  return (s.tokens[0] == "abs" || s.tokens[0] == "neg") && s.type() == Type::f64;
}

uint64_t key_of(const Operand& op) {
  return op.kind == Operand::Kind::predicate ? uint64_t(op.index) << 32 | 0xffffffffu : op.offset;
}

Values evaluate(const Rewriter& w, const std::vector<Step>& steps) {
  if (steps.empty() || w.image.register_bytes > kMostRegisterBytes) return {};
  Values values;
  try {
    Lane lane(w);
    for (const Step& step : steps) {
      for (const auto& [op, maker] : step.overwritten) lane.set(op, values.at({maker, key_of(op)}));
      const Instr& i = w.f.code[step.pc];
      const Source& s = w.f.source[step.pc];
      if (step.value) {
        lane.set(i.op[0], *step.value);
        if (const Operand& second = second_predicate(i, s)) lane.set(second, !*step.value);
      } else if (is_sign_of_f64(s)) {
        lane.set(i.op[0], with_changed_sign(s, lane.bits(i.op[1])));
      } else {
        lane.execute(i);
      }
      for_each_target(w.f, i, s, [&](const Operand& op) { values[{step.pc, key_of(op)}] = lane.bits(op); });
    }
  } catch (const std::exception&) {
    return {};
  }
  return values;
}

}  // namespace fp4lab::emu
