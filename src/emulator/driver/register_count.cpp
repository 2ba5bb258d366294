#include "emulator/driver/register_count.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

namespace fp4lab::emu {

namespace {

constexpr uint32_t kRegisters = 65536, kUnit = 8, kMost = 255;  // per SM; allocation unit; most per thread

struct Range {
  uint32_t first, last, words;
};

// The registers, loops and calls in a function's code.
struct Survey {
  std::unordered_map<uint32_t, Range> ranges;        // by row
  std::vector<std::pair<uint32_t, uint32_t>> loops;  // first and last line
  std::set<uint32_t> callees;
};

void look_at(const Operand& o, uint32_t pc, Survey& s) {
  const bool names_row =
      o.kind == Operand::Kind::value ? !o.immediate : o.kind == Operand::Kind::address && o.has_base;
  if (names_row && bits_of(o.type) >= 8) {
    auto [it, fresh] = s.ranges.try_emplace(o.offset, Range{pc, pc, (bits_of(o.type) + 31) / 32});
    it->second.last = pc;
  }
  if (o.kind == Operand::Kind::label && o.index <= pc) s.loops.emplace_back(o.index, pc);
  if (o.kind == Operand::Kind::function) s.callees.insert(o.index);
}

Survey survey(const Function& f) {
  Survey s;
  for (const Instr& in : f.code)
    for (const Operand& o : in.op) {
      look_at(o, in.pc, s);
      if (o.kind == Operand::Kind::vector)
        for (uint32_t i = 0; i < o.count; ++i) look_at(f.vectors[o.index + i], in.pc, s);
    }
  return s;
}

uint32_t pressure(const Function& f, Survey s) {
  std::ranges::sort(s.loops, {}, &std::pair<uint32_t, uint32_t>::second);  // inner loops first
  std::vector<int64_t> change(f.code.size() + 1);
  for (auto& [row, r] : s.ranges) {
    for (const auto& [begin, end] : s.loops)
      if (r.first < begin && r.last >= begin && r.last < end) r.last = end;
    change[r.first] += r.words, change[r.last + 1] -= r.words;
  }
  int64_t now = 0, most = 0;
  for (int64_t c : change) most = std::max(most, now += c);
  return static_cast<uint32_t>(most);
}

// `counted`: functions counted before; a recursive call counts as none.
uint32_t with_callees(const Module& m, const Function& f, std::map<const Function*, uint32_t>& counted) {
  if (auto [known, fresh] = counted.try_emplace(&f, 0); !fresh) return known->second;
  Survey s = survey(f);
  uint32_t deepest = 0;
  for (uint32_t callee : s.callees)
    deepest = std::max(deepest, with_callees(m, m.functions[callee], counted));
  return counted[&f] = pressure(f, std::move(s)) + deepest;
}

}  // namespace

uint32_t max_threads(const Function& f) {
  const auto volume = [](const uint32_t(&n)[3]) { return n[0] * std::max(1u, n[1]) * std::max(1u, n[2]); };
  return f.req_ntid[0] ? volume(f.req_ntid) : f.max_ntid[0] ? volume(f.max_ntid) : 1024;
}

uint32_t register_count(const Module& m, const Function& f) {
  std::map<const Function*, uint32_t> counted;
  const uint32_t threads = (max_threads(f) + kLanes - 1) / kLanes * kLanes * std::max(1u, f.min_ctapersm),
                 room = std::max(kRegisters / threads / kUnit * kUnit, kUnit),
                 limit = std::min({f.max_nreg ? f.max_nreg : kMost, room, kMost});
  return std::min((with_callees(m, f, counted) + kUnit) / kUnit * kUnit, limit);
}

}  // namespace fp4lab::emu
