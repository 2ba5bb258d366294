#include "emulator/watch/trace.h"

#include <cerrno>
#include <cstring>

#include "emulator/core/machine.h"
#include "emulator/core/place.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

// Lines of a CTA below its warps.
constexpr uint64_t kOperations = 1000, kBarriers = 2000;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out + "\"";
}

const char* text_of(BarrierEvent::What w) {
  switch (w) {
    case BarrierEvent::What::init:
      return "init";
    case BarrierEvent::What::inval:
      return "inval";
    case BarrierEvent::What::arrive:
      return "arrive";
    case BarrierEvent::What::expect_tx:
      return "expect_tx";
    case BarrierEvent::What::complete_tx:
      return "complete_tx";
    case BarrierEvent::What::phase:
      return "phase complete";
    case BarrierEvent::What::wait_done:
      return "wait done";
    case BarrierEvent::What::bar_arrive:
      return "bar arrive";
    case BarrierEvent::What::bar_done:
      return "bar done";
    case BarrierEvent::What::cluster_arrive:
      return "cluster arrive";
    case BarrierEvent::What::cluster_done:
      return "cluster done";
    default:
      break;
  }
  return "barrier";
}

}  // namespace

Trace::Trace(const std::string& path, uint64_t max_ctas)
    : path_(path), file_(std::fopen(path.c_str(), "w")), max_ctas_(max_ctas) {
  if (!file_) fail("cannot write the trace {}: {}", path, std::strerror(errno));
  put("[");
}

Trace::~Trace() { std::fclose(file_); }

// A full disk ends the trace, not the run.
void Trace::put(const std::string& text) {
  if (!trouble_.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size())
    trouble_ = fmt::format("trace {}: {}; it is incomplete", path_, std::strerror(errno));
}

void Trace::event(const std::string& json) {
  put(fmt::format("{}\n{}", first_ ? "" : ",", json));
  first_ = false;
}

void Trace::name(uint64_t process, uint64_t thread, const std::string& text) {
  event(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", process,
                    thread, quoted(text)));
}

uint64_t Trace::process(const Cta& cta) const { return cta.cluster.id * cta.cluster.ctas.size() + cta.rank; }
bool Trace::shown(const Cta& cta) const {
  return cta.cluster.id * cta.cluster.grid.config.cluster.count() + cta.rank < max_ctas_;
}
uint64_t Trace::time(const Cta& cta) const { return offset_ + cta.cluster.clock(); }

void Trace::launch_begin(const Grid&) { offset_ = latest_; }

void Trace::launch_end(const Grid&) {
  issued_.clear();
  warps_.clear();
  lines_.clear();
  // The file is complete after every launch; the next one goes on before the bracket.
  const long end = std::ftell(file_);
  put("\n]\n");
  if (std::fflush(file_) && trouble_.empty())
    trouble_ = fmt::format("trace {}: {}; it is incomplete", path_, std::strerror(errno));
  std::fseek(file_, end, SEEK_SET);
}

void Trace::cta_start(Cta& cta) {
  if (!shown(cta)) return;
  const uint64_t id = cta.cluster.id * cta.cluster.grid.config.cluster.count() + cta.rank;
  event(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", id,
                    quoted(fmt::format("{} {} on SM {}", kernel_name(cta.cluster.grid.function.name),
                                       cta.name(), cta.sm.id))));
  for (const auto& w : cta.warps) name(id, w->id, fmt::format("warp {}", w->id));
  name(id, kOperations + Queue::unordered, "TMA and bulk copies");
  name(id, kOperations + Queue::tensor_pipe, "tensor core: mma, cp, commit");
  name(id, kOperations + Queue::tmem_load, "tcgen05.ld and st");
  name(id, kOperations + Queue::wgmma, "tensor core: wgmma");
  name(id, kOperations + Queue::cp_async, "cp.async");
}

// Now it is known what its warps were for.
void Trace::cta_exit(Cta& cta) {
  if (const auto it = lines_.find(&cta); it != lines_.end()) {
    for (const auto& [warp, role] : it->second.roles)
      if (const std::string what = role.name(); !what.empty())
        name(process(cta), warp, fmt::format("warp {}: {}", warp, what));
    for (const auto& [line, what] : it->second.barriers) name(process(cta), line, what);
    lines_.erase(it);
  }
  for (const auto& w : cta.warps) {
    if (const auto it = warps_.find(w.get()); it != warps_.end())
      event(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"runs"}})", process(cta),
                        w->id, it->second.begin, it->second.end - it->second.begin));
    warps_.erase(w.get());
  }
}

// An instruction that executes again, or much later than the one before it, has waited.
void Trace::step(Warp& w, const Instr& i, uint32_t) {
  if (!shown(w.cta)) return;
  const uint64_t now = time(w.cta);
  latest_ = std::max(latest_, now);
  WarpState& s = warps_.try_emplace(&w, WarpState{nullptr, now, now}).first->second;
  if (s.last == &i && now > s.end + 1)
    event(fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"args":{{"at":{}}}}})", process(w.cta),
        w.id, s.end, now - s.end,
        quoted("wait: " + std::string(w.source_of(i).tokens.empty() ? "" : w.source_of(i).tokens[0])),
        quoted(one_line(w.cta.cluster.grid.module, w.source_of(i)))));
  s.last = &i;
  s.end = now;
}

void Trace::barrier(const BarrierEvent& e) {
  if (!e.cta || !shown(*e.cta) || e.what > BarrierEvent::What::cluster_done) return;
  const bool named = e.what == BarrierEvent::What::bar_arrive || e.what == BarrierEvent::What::bar_done;
  const bool cluster =
      e.what == BarrierEvent::What::cluster_arrive || e.what == BarrierEvent::What::cluster_done;
  lines_[e.cta].barriers.try_emplace(kBarriers + e.address, named ? fmt::format("barrier {}", e.address)
                                                            : cluster
                                                                ? "cluster barrier"
                                                                : fmt::format("mbarrier {:#x}", e.address));
  event(fmt::format(
      R"({{"ph":"i","s":"t","pid":{},"tid":{},"ts":{},"name":{},"args":{{"address":"{:#x}","amount":{},"phase":{},"by":{}}}}})",
      process(*e.cta), kBarriers + e.address, time(*e.cta),
      quoted(fmt::format("{} {}{:#x}", text_of(e.what), named ? "barrier " : "", e.address)), e.address,
      e.amount, e.phase,
      quoted(e.warp ? fmt::format("warp {}, {}", e.warp->id, lane_list(e.lanes))
             : e.op ? e.op->name()
                    : "")));
}

void Trace::issue(Warp& w, const AsyncOp& op) {
  if (!shown(w.cta)) return;
  issued_[&op] = time(w.cta);
  lines_[&w.cta].roles[w.id].issued(op, w.source_of(*op.origin));
}

void Trace::complete(const AsyncOp& op) {
  auto it = issued_.find(&op);
  if (it == issued_.end()) return;
  const Module& m = op.cta->cluster.grid.module;
  const uint64_t pid = process(*op.cta), now = time(*op.cta);
  latest_ = std::max(latest_, now);
  const std::string at = op.origin ? one_line(m, m.functions[op.function].source[op.origin->pc]) : "";
  const std::string common = fmt::format(R"("cat":"async","id":{},"pid":{},"tid":{},"name":{})", op.sequence,
                                         pid, kOperations + op.queue.kind, quoted(op.name()));
  event(fmt::format(R"({{"ph":"b",{},"ts":{},"args":{{"issued by":{}}}}})", common, it->second,
                    quoted(fmt::format("warp {}, lane {}: {}", op.warp, op.lane, at))));
  event(fmt::format(R"({{"ph":"e",{},"ts":{}}})", common, now));
  issued_.erase(it);
}

}  // namespace fp4lab::emu
