#include "emulator/watch/wgmma_fence.h"

#include <map>
#include <string_view>

#include "emulator/isa/opcode.h"

namespace fp4lab::emu {

namespace {

// Registers (rows) that a product takes with no fence before, and its pc.
using Exposed = std::map<uint32_t, uint32_t>;

bool is_product(const Instr& i) {
  return i.opcode->name.starts_with("wgmma_") && i.opcode->operands.starts_with("{d}");
}

// f(row) for each register of an operand.
template <class F>
void each_register(const Function& f, const Operand& o, F&& visit) {
  if (o.kind == Operand::Kind::vector) {
    for (uint32_t n = 0; n < o.count; ++n) each_register(f, f.vectors[o.index + n], visit);
  } else if (o.kind == Operand::Kind::value && !o.immediate) {
    visit(o.offset);
  }
}

class Search {
 public:
  explicit Search(const Function& f) : f_(f) {}

  // From the end to the beginning, again as long as loops bring something new to a label.
  std::map<uint32_t, uint32_t> run() {
    for (const Instr& i : f_.code)
      for (const Operand& o : i.op) each_target(o, [&](uint32_t pc) { labels_[pc]; });
    constexpr int kRounds = 8;  // nested loops need one more than they are deep
    for (int round = 0; round < kRounds && changed_; ++round) {
      changed_ = false;
      Exposed here;
      for (size_t pc = f_.code.size(); pc-- > 0;) {
        step(f_.code[pc], here);
        if (const auto label = labels_.find(static_cast<uint32_t>(pc)); label != labels_.end())
          for (const auto& [row, product] : here) changed_ |= label->second.emplace(row, product).second;
      }
    }
    return std::move(found_);
  }

 private:
  template <class F>
  void each_target(const Operand& o, F&& visit) const {
    if (o.kind == Operand::Kind::label) visit(o.index);
    if (o.kind == Operand::Kind::vector)
      for (uint32_t n = 0; n < o.count; ++n) each_target(f_.vectors[o.index + n], visit);
  }

  void step(const Instr& i, Exposed& here) {
    const std::string_view name = i.opcode->name;
    if (name == "ret" || name == "exit" || name == "bra" || name == "brx") {
      if (i.guard < 0) here.clear();
      for (const Operand& o : i.op)
        each_target(o, [&](uint32_t pc) { here.insert(labels_[pc].begin(), labels_[pc].end()); });
    } else if (name == "wgmma_fence") {
      here.clear();
    } else if (is_product(i)) {
      each_register(f_, i.op[0], [&](uint32_t row) { here[row] = i.pc; });
      each_register(f_, i.op[1], [&](uint32_t row) {
        if (i.op[1].kind == Operand::Kind::vector) here.emplace(row, i.pc);
      });
    } else if (i.opcode->operands.starts_with("d") || i.opcode->operands.starts_with("{d}")) {
      if (!here.empty()) writes(i, here);
    }
  }

  void writes(const Instr& i, Exposed& here) {
    each_register(f_, i.op[0], [&](uint32_t row) {
      const auto it = here.find(row);
      if (it == here.end()) return;
      const uint32_t product = it->second;
      if (i.guard < 0) here.erase(it);
      if (i.opcode->name == "mov")
        each_register(f_, i.op[1], [&](uint32_t from) { here.emplace(from, product); });
      else
        tell(product, i.pc);
    });
  }

  // Of several writers the nearest one is the likeliest.
  void tell(uint32_t product, uint32_t writer) {
    const auto distance = [&](uint32_t pc) { return pc < product ? product - pc : pc - product; };
    uint32_t& known = found_.emplace(product, writer).first->second;
    if (distance(writer) < distance(known)) known = writer;
  }

  const Function& f_;
  std::map<uint32_t, Exposed> labels_;  // at branch targets
  std::map<uint32_t, uint32_t> found_;  // by product
  bool changed_ = true;
};

}  // namespace

std::vector<UnfencedRegister> unfenced_registers(const Function& f) {
  std::vector<UnfencedRegister> all;
  for (const Instr& i : f.code)
    if (is_product(i)) {
      for (const auto& [product, writer] : Search(f).run()) all.push_back({writer, product});
      break;
    }
  return all;
}

}  // namespace fp4lab::emu
