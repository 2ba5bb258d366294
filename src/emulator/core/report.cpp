// The reports of launches that fail.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "emulator/core/failure.h"
#include "emulator/core/hooks.h"
#include "emulator/core/opcode.h"
#include "emulator/core/place.h"
#include "emulator/core/scheduler.h"

namespace fp4lab::emu {

namespace {

constexpr size_t kShownCtas = 8;  // distinct CTAs in a deadlock report

std::string thread_text(const Grid& grid, const Warp& w, unsigned lane) {
  const Dim3 b = grid.config.block;
  const uint32_t t = w.id * kLanes + lane;
  return fmt::format("thread ({},{},{})", t % b.x, t / b.x % b.y, t / b.x / b.y);
}

std::string place_text(const Grid& grid, const Function& f, const Instr& i) {
  const Source& s = f.source[i.pc];
  const std::string cuda = cuda_position(grid.module, s);
  std::string text =
      fmt::format("  {}{}", ptx_position(grid.module, s), cuda.empty() ? "" : " (" + cuda + ")");
  if (i.opcode && !i.opcode->section.empty()) text += fmt::format(", PTX ISA {}", i.opcode->section);
  return text + "\n" + ptx_excerpt(grid.module, s);
}

std::string core_wait_text(const Wait& w) {
  switch (w.kind) {
    case Wait::Kind::none:
      return "runs";
    case Wait::Kind::mbarrier:
      return fmt::format("waits for the mbarrier at {:#x}", w.address);
    case Wait::Kind::named_barrier:
      return fmt::format("waits at barrier {}", w.address);
    case Wait::Kind::cluster_barrier:
      return "waits at the cluster barrier";
    case Wait::Kind::warp_sync:
      return fmt::format("{} wait for the other lanes of member mask {:#010x}",
                         lane_list(static_cast<uint32_t>(w.value)), w.address);
    case Wait::Kind::reconverge:
      return "waits for the other lanes of a divergent branch";
    case Wait::Kind::async_ops:
      return "waits for its own asynchronous operations";
    case Wait::Kind::tmem_alloc:
      return "waits for columns of tensor memory";
    case Wait::Kind::serial:
      return "accesses global memory";
    case Wait::Kind::sleep:
      return "sleeps";
  }
  return "waits";
}

// The warp's last synchronisations and issued operations, the oldest first.
std::string last_events(const Grid& grid, const Warp& w) {
  std::string text;
  w.for_noted([&](const Warp::Noted& n) {
    const Source& s = grid.module.functions[n.function].source[n.at->pc];
    std::string name;
    for (size_t k = 0; k < s.tokens.size() && k < 3; ++k)
      name += fmt::format("{}{}", k ? "." : "", s.tokens[k]);
    text += fmt::format("{}{} {}{}", text.empty() ? "      last: " : "; ", s.line, name,
                        n.times > 1 ? fmt::format(" x{}", n.times) : "");
  });
  return text.empty() ? text : text + "\n";
}

// The same, appended to a report that does not end its line.
std::string last_line(const Grid& grid, const Warp& w) {
  std::string last = last_events(grid, w);
  if (last.empty()) return last;
  last.pop_back();
  return "\n" + last;
}

// "the 4 bytes at global address 0x..., which hold 0x0"; empty if the group has not read global memory
// lately.
std::string polled_text(const Grid& grid, const Warp& w, const LaneGroup& g) {
  constexpr uint64_t kLately = 256;  // instructions
  const Look& look = g.polled.look;
  if (!look.length || w.instructions - g.polled.instructions > kLately) return {};
  std::string text = fmt::format("the {} bytes at global address {:#x}", look.length, look.low);
  uint64_t value = 0;
  if (look.length > sizeof value || !grid.memory.find(look.low, look.length).end) return text;
  std::memcpy(&value, grid.memory.host(look.low), look.length);
  return text + fmt::format(", which hold {:#x}", value);
}

// The lines of one CTA; consecutive warps that say the same are folded.
// `going`: of a group that waits for nothing, "polls" or "runs".
std::string cta_text(const Grid& grid, const Cta& cta, const char* going) {
  std::vector<std::pair<std::string, std::pair<unsigned, unsigned>>> lines;
  for (const auto& w : cta.warps) {
    if (w->live() == 0) continue;
    std::string text;
    for (const auto& g : w->groups()) {
      const Function& f = grid.module.functions[g->function];
      const uint32_t pc = std::min<uint32_t>(g->pc, static_cast<uint32_t>(f.source.size()) - 1);
      std::string wait = g->wait.kind == Wait::Kind::none ? "" : hooks::describe_wait(*w, g->wait);
      if (wait.empty()) wait = core_wait_text(g->wait);
      if (g->wait.kind == Wait::Kind::none) wait = going;
      if (g->wait.kind == Wait::Kind::none || g->wait.kind == Wait::Kind::serial)
        if (const std::string polled = polled_text(grid, *w, *g); !polled.empty()) wait = "polls " + polled;
      text +=
          fmt::format("{}: {}\n      {}\n", lane_list(g->mask), wait, one_line(grid.module, f.source[pc]));
      const std::string story = hooks::describe_missing(*w, g->wait);
      for (size_t at = 0, end; at < story.size(); at = end + 1) {
        end = story.find('\n', at);
        text += "        " + story.substr(at, end - at) + "\n";
      }
      for (const Frame& frame : g->frames)
        text += fmt::format(
            "      called from {}\n",
            one_line(grid.module, grid.module.functions[frame.function].source[frame.return_pc - 1]));
    }
    text += last_events(grid, *w);
    if (!lines.empty() && lines.back().first == text && lines.back().second.second + 1 == w->id)
      lines.back().second.second = w->id;
    else
      lines.push_back({text, {w->id, w->id}});
  }
  std::string all;
  for (const auto& [text, warps] : lines) {
    const std::string who = warps.first == warps.second
                                ? fmt::format("warp {}", warps.first)
                                : fmt::format("warps {}-{}", warps.first, warps.second);
    size_t at = 0;
    while (at < text.size()) {  // one entry per lane group
      size_t end = at;
      do end = text.find('\n', end) + 1;
      while (end < text.size() && text[end] == ' ');
      all += "    " + who + ", " + text.substr(at, end - at);
      at = end;
    }
  }
  return all;
}

// The wait to look at first: one that nothing else explains, or the one on which most others depend, directly
// or through others: a ring's consumer starves because its producer does.
std::string look_first(const std::vector<Cluster*>& clusters) {
  struct Candidate {
    const Warp* warp;
    uint32_t lanes;
    Blame blame;
  };
  for (const auto& c : clusters) {
    std::vector<Candidate> all;
    for (const auto& cta : c->ctas)
      for (const auto& w : cta->warps)
        for (const auto& g : w->groups())
          if (Blame b = hooks::blame_of(*w, g->wait); !b.cause.empty())
            all.push_back({w.get(), g->mask, std::move(b)});
    const auto waits_for = [](const Candidate& other, const Candidate& one) {
      return std::ranges::find(other.blame.others, std::pair(one.warp->cta.rank, one.warp->id)) !=
             other.blame.others.end();
    };
    const Candidate* best = nullptr;
    int best_score = 0;
    for (const Candidate& one : all) {
      std::vector<const Candidate*> reached{&one};  // those that depend on it, behind itself
      for (size_t i = 0; i < reached.size(); ++i)
        for (const Candidate& other : all)
          if (waits_for(other, *reached[i]) && std::ranges::find(reached, &other) == reached.end())
            reached.push_back(&other);
      const int score = one.blame.weight + (one.blame.others.empty() ? 1 : 0) + 2 * int(reached.size() - 1);
      if (score > best_score) best = &one, best_score = score;
    }
    if (best) {
      std::string text = fmt::format("  look first at warp {}, {} of {}: {}\n", best->warp->id,
                                     lane_list(best->lanes), best->warp->cta.name(), best->blame.cause);
      for (const std::string& line : best->blame.lines) text += "      " + line + "\n";
      return text;
    }
  }
  return {};
}

// The same if all live warps poll: a warp that reads global memory.
std::string look_first_at_poll(const Grid& grid, const std::vector<Cluster*>& clusters) {
  for (const auto& c : clusters)
    for (const auto& cta : c->ctas)
      for (const auto& w : cta->warps)
        for (const auto& g : w->groups()) {
          const std::string polled = polled_text(grid, *w, *g);
          if (polled.empty()) continue;
          return fmt::format(
              "  look first at warp {}, {} of {}: it polls {}, which no thread of this launch changes.\n"
              "      A launch runs to its end before the host's next call begins: what the host, a copy or "
              "another kernel\n      should write there meanwhile never arrives\n",
              w->id, lane_list(g->mask), cta->name(), polled);
        }
  return {};
}

}  // namespace

const char* kind_text(FaultKind k) {
  switch (k) {
#define FAULT(kind, name, result, what) \
  case FaultKind::kind:                 \
    return name;
#include "emulator/core/faults.def"
#undef FAULT
  }
  return "fault";
}

static const Source* fault_at(const Grid& grid, const Warp* w, const AsyncOp* op) {
  if (op) return op->origin ? &grid.module.functions[op->function].source[op->origin->pc] : nullptr;
  const Instr* i = w ? w->current() : nullptr;
  for (const Function& f : grid.module.functions)
    if (i && !f.code.empty() && i >= f.code.data() && i < f.code.data() + f.code.size())
      return &f.source[i->pc];
  return nullptr;
}

uint32_t fault_line(const Grid& grid, const Warp* w, const AsyncOp* op) {
  const Source* s = fault_at(grid, w, op);
  return s ? s->line : 0;
}

std::string fault_source(const Grid& grid, const Warp* w, const AsyncOp* op) {
  const Source* s = fault_at(grid, w, op);
  return s ? cuda_position(grid.module, *s) : "";
}

namespace {

// "mbarrier.init: line 12", "tensormap.replace: lines 12, 14, 16": the instructions of a function that begin
// with these two words; empty if there are none.
std::string lines_with(const Function& f, std::string_view first, std::string_view second) {
  constexpr size_t kShown = 8;
  std::vector<uint32_t> lines;
  for (const Source& s : f.source)
    if (s.tokens.size() > 1 && s.tokens[0] == first && s.tokens[1] == second) lines.push_back(s.line);
  if (lines.empty()) return {};
  const size_t count = lines.size();
  lines.resize(std::min(count, kShown));
  return fmt::format("; {}.{} line {}{}", first, second, fmt::join(lines, ", line "),
                     count > kShown ? ", ..." : "");
}

// The last instruction before `pc` (or of the whole function, for its end) that begins with these two words,
// or null.
const Source* before(const Function& f, size_t pc, std::string_view first, std::string_view second) {
  while (pc-- > 0)
    if (const Source& s = f.source[pc]; s.tokens.size() > 1 && s.tokens[0] == first && s.tokens[1] == second)
      return &s;
  return nullptr;
}

// For an object or a value that does not exist (yet): the lines that create it, and the lines between which a
// wait for it may be missing. Without a newline at the end.
std::string there(const Fault& e, const Function& f, uint32_t pc) {
  const std::string_view what = e.what();
  const auto wait = [&] {
    return fmt::format("a wait or a barrier between lines {} and {}", line_of_wait_before(f, pc),
                       f.source[pc].line);
  };
  constexpr const char* kThere = "\n    missing: ";
  if (e.kind == FaultKind::mbarrier_absent) return kThere + wait() + lines_with(f, "mbarrier", "init");
  if (e.kind == FaultKind::tmem_address && what.find("not allocated") != what.npos)
    return kThere + wait() + lines_with(f, "tcgen05", "alloc");
  if (const Source* freed = before(f, f.source.size(), "tcgen05", "dealloc");
      freed && e.kind == FaultKind::tmem_address && what.find("is freed") != what.npos)
    return fmt::format("{}a barrier between lines {} and {}, in front of tcgen05.dealloc", kThere,
                       line_of_wait_before(f, static_cast<size_t>(freed - f.source.data())), freed->line);
  if (const Source* other = before(f, pc, "barrier", "cluster");
      other && e.kind == FaultKind::cluster_barrier)
    return fmt::format("{}barrier.cluster.{} between lines {} and {}", kThere,
                       f.source[pc].has("wait") ? "arrive" : "wait", other->line, f.source[pc].line);
  if (e.kind == FaultKind::uninitialized && !what.starts_with("register")) return kThere + wait();
  const bool by_map = f.source[pc].has("tensor") && f.source[pc].tokens[0] == "cp";
  if (by_map && (e.kind == FaultKind::tensor_map || e.kind == FaultKind::illegal_address))
    if (const std::string edits =
            lines_with(f, "tensormap", "replace") + lines_with(f, "tensormap", "cp_fenceproxy");
        !edits.empty())
      return fmt::format("\n    the map{}", edits);
  return {};
}

}  // namespace

std::string fault_report(const Fault& e, const Grid& grid, const Warp* w, const AsyncOp* op) {
  std::string text =
      fmt::format("{}: {}\n  kernel {}", kind_text(e.kind), e.what(), kernel_name(grid.function.name));
  if (op) {
    text += fmt::format(", {}, in {}", op->cta->name(), op->name());
    if (op->origin) {
      const Function& f = grid.module.functions[op->function];
      text += fmt::format(" issued by warp {}, lane {}, {}, at\n", op->warp, op->lane,
                          thread_text(grid, *op->cta->warps[op->warp], op->lane));
      text += place_text(grid, f, *op->origin) + there(e, f, op->origin->pc);
    }
    return text + last_line(grid, *op->cta->warps[op->warp]);
  }
  if (!w) return text;
  text += fmt::format(", {}, warp {}", w->cta.name(), w->id);
  if (e.lane < kLanes) text += fmt::format(", lane {}, {}", e.lane, thread_text(grid, *w, e.lane));
  if (const Instr* i = w->current()) {
    // The group may be gone, or in another function already; the instruction knows its place.
    for (const Function& f : grid.module.functions)
      if (!f.code.empty() && i >= f.code.data() && i < f.code.data() + f.code.size())
        text += "\n" + place_text(grid, f, *i) + there(e, f, i->pc);
  }
  return text + last_line(grid, *w);
}

std::string notes_text(const std::vector<Tolerated>& all, bool errors) {
  std::string text;
  std::map<FaultKind, size_t> more;
  std::vector<const Tolerated*> first;
  for (const Tolerated& t : all)
    if (t.error == errors && more[t.kind]++ == 0) first.push_back(&t);
  for (const Tolerated* t : first) {
    text += fmt::format("{}{}\n", text.empty() ? "" : errors ? "\n" : "\nnote: ", t->report);
    if (const size_t n = more[t->kind] - 1)
      text += fmt::format("  (and the same at {} more instructions)\n", n);
  }
  return text;
}

static std::string where_all_stand(const Grid& grid, const std::vector<Cluster*>& clusters,
                                   const char* going) {
  std::string text;
  std::vector<std::pair<std::string, std::vector<const Cta*>>> kinds;
  std::map<std::string, size_t> known;
  for (const auto& c : clusters)
    for (const auto& cta : c->ctas) {
      if (cta->exited) continue;
      auto [it, fresh] = known.emplace(cta_text(grid, *cta, going), kinds.size());
      if (fresh) kinds.push_back({it->first, {}});
      kinds[it->second].second.push_back(cta.get());
    }
  for (size_t k = 0; k < kinds.size() && k < kShownCtas; ++k) {
    const auto& [body, ctas] = kinds[k];
    text += "  " + ctas[0]->name();
    if (ctas.size() > 1)
      text += fmt::format(" and {} more like it (up to {})", ctas.size() - 1, ctas.back()->name());
    text += ":\n" + body;
  }
  if (kinds.size() > kShownCtas) {
    size_t rest = 0;
    for (size_t k = kShownCtas; k < kinds.size(); ++k) rest += kinds[k].second.size();
    text += fmt::format("  and {} more CTAs that wait in {} other ways\n", rest, kinds.size() - kShownCtas);
  }
  std::map<std::string, size_t> ops;
  for (const auto& c : clusters)
    c->pending([&](const AsyncOp& op) {
      ++ops[fmt::format("{}, issued by {}", op.name(),
                        one_line(grid.module, grid.module.functions[op.function].source[op.origin->pc]))];
      return true;
    });
  for (const auto& [what, n] : ops) text += fmt::format("  pending: {} x {}\n", n, what);
  return text;
}

std::string stuck_report(const Grid& grid, const std::vector<Cluster*>& clusters, bool polling) {
  std::string text = fmt::format("deadlock: kernel {}: ", kernel_name(grid.function.name));
  text += polling ? "all live threads only poll, and nothing they poll changes any more\n"
                  : "all live threads are blocked, and no asynchronous operation is pending\n";
  const std::string first = look_first(clusters);
  text += first.empty() && polling ? look_first_at_poll(grid, clusters) : first;
  return text + where_all_stand(grid, clusters, "polls");
}

std::string stopped_report(const Grid& grid, const std::vector<Cluster*>& clusters, const std::string& why) {
  return fmt::format("stopped: kernel {}: {}; where its warps are:\n", kernel_name(grid.function.name), why) +
         where_all_stand(grid, clusters, "runs");
}

}  // namespace fp4lab::emu
