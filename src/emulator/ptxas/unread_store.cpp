#include "emulator/ptxas/unread_store.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/memory_states.h"

namespace fp4lab::emu {

namespace {

bool is_local(const Source& s, std::string_view name) { return s.tokens[0] == name && s.has("local"); }

// Which bytes that stores at fixed addresses put there are read behind a place.
class UnreadBytes {
 public:
  UnreadBytes(const Function& f, const Dataflow& flow) : f_(f), flow_(flow) {
    for (uint32_t pc = 0; pc < f.code.size(); ++pc)
      if (is_local(f.source[pc], "st") && !f.code[pc].op[0].has_base)
        for (const int64_t byte : bytes(f.source[pc], f.code[pc].op[0], f.code[pc].op[1]))
          number_.try_emplace(byte, number_.size());
    read_.assign(flow.blocks().size(), std::vector<char>(number_.size(), 0));
    for (bool changes = true; std::exchange(changes, false);)
      for (size_t b = flow.blocks().size(); b-- > 0;) {
        std::vector<char> read = behind(b);
        for (uint32_t pc = flow.blocks()[b].end; pc-- > flow.blocks()[b].begin;) pass(pc, read);
        changes |= read != read_[b];
        read_[b] = std::move(read);
      }
  }

  std::vector<uint32_t> stores() const {
    std::vector<uint32_t> unread;
    for (size_t b = 0; b < read_.size(); ++b) {
      std::vector<char> read = behind(b);
      for (uint32_t pc = flow_.blocks()[b].end; pc-- > flow_.blocks()[b].begin;)
        if (pass(pc, read)) unread.push_back(pc);
    }
    return unread;
  }

 private:
  static std::vector<int64_t> bytes(const Source& s, const Operand& at, const Operand& data) {
    const unsigned words = is_vector(data) ? data.count : 1;
    std::vector<int64_t> all(size_t(words) * bits_of(s.type()) / 8);
    std::iota(all.begin(), all.end(), at.displacement);
    return all;
  }

  std::vector<char> behind(size_t block) const {
    std::vector<char> read(number_.size(), 0);
    for (const uint32_t next : flow_.blocks()[block].successors)
      for (size_t n = 0; n < read.size(); ++n) read[n] |= read_[next][n];
    return read;
  }

  // Backwards over one instruction; whether it is a store of what nobody reads.
  bool pass(uint32_t pc, std::vector<char>& read) const {
    const Source& s = f_.source[pc];
    const Instr& i = f_.code[pc];
    const bool loads = is_local(s, "ld");
    if (may_be_generic(s) || (loads && i.op[1].has_base)) {
      std::ranges::fill(read, 1);
    } else if (loads) {
      if (flow_.is_dead(pc)) return false;
      for (const int64_t byte : bytes(s, i.op[1], i.op[0]))
        if (const auto n = number_.find(byte); n != number_.end()) read[n->second] = 1;
    } else if (is_local(s, "st") && !i.op[0].has_base) {
      bool is_read = false;
      for (const int64_t byte : bytes(s, i.op[0], i.op[1])) {
        char& wanted = read[number_.at(byte)];
        is_read |= wanted != 0;
        if (i.guard < 0) wanted = 0;
      }
      return !is_read;
    }
    return false;
  }

  const Function& f_;
  const Dataflow& flow_;
  std::map<int64_t, size_t> number_;     // of a byte
  std::vector<std::vector<char>> read_;  // by block, before it: whether a byte is read
};

}  // namespace

bool may_have_unread_stores(const Function& f) {
  return any_instruction(
      f, [](const Instr& i, const Source& s) { return is_local(s, "st") && !i.op[0].has_base; });
}

void remove_unread_stores(Rewriter& w, const Dataflow& flow) {
  for (const uint32_t pc : UnreadBytes(w.f, flow).stores()) w.remove(pc);
  w.rebuild();
}

}  // namespace fp4lab::emu
