// What a read that came too early should have waited for, in words.
#include "emulator/core/hooks.h"
#include "emulator/core/place.h"
#include "emulator/engine/describe.h"

namespace fp4lab::emu {

namespace {

std::string mbarrier_name(const Cta& cta, uint32_t offset) {
  return fmt::format("the mbarrier at {:#x}{}", cta.address_of(offset), symbol_of(cta, offset));
}

std::string who(const Warp& w) {
  return fmt::format("warp {}{}", w.id, w.cta.cluster.ctas.size() > 1 ? " of " + w.cta.name() : "");
}

// A wait that saw no more than the phase before `phase` end.
bool too_early(const PassedWait& p, uint32_t phase) { return p.phase == kNoPhase || p.phase < phase; }

std::string early_wait(const Warp& w, const PassedWait& p, uint32_t phase) {
  const std::string before = p.phase == kNoPhase ? "the one before the first, which counts as over"
                                                 : fmt::format("phase {}, which was over", p.phase);
  return fmt::format(
      "\n    wrong parity: {} waited for it with parity {} and got {}{}: phase {} has parity {}\n      {}",
      who(w), p.parity, before, p.at_once ? ": it passed at once" : "", phase, phase & 1,
      line_of(w.cta, p.function, p.at));
}

// What the warps of the reader's CTA have waited for in place of this phase: the reader's own waits first.
std::string instead_of(const Warp& reader, const AsyncOp::Counted& counted) {
  const Cta& cta = reader.cta;
  const auto on_it = [&](const Warp& w) {
    std::string text;
    if (&cta != counted.cta || cta.state->warps.empty()) return text;
    cta.state->warps[w.id].newest_pass_first([&](const PassedWait& p) {
      if (p.offset != counted.mbarrier) return false;
      text = too_early(p, counted.phase)
                 ? early_wait(w, p, counted.phase)
                 : fmt::format(
                       "\n    {} waited for phase {} of it, which ended without these bytes: too few were "
                       "announced (mbarrier.expect_tx)\n      {}",
                       who(w), p.phase, line_of(cta, p.function, p.at));
      return true;
    });
    return text;
  };
  if (std::string own = on_it(reader); !own.empty()) return own;
  for (const auto& w : cta.warps)
    if (std::string other = on_it(*w); !other.empty()) return other;
  return fmt::format(
      "\n    {} has not waited for that mbarrier: a wait for its phase {} (parity {}) is missing",
      who(reader), counted.phase, counted.phase & 1);
}

}  // namespace

std::string hooks::late_writer(const Warp& reader, const Cta&, uint32_t, const AsyncOp::Counted& counted,
                               const Instr* at, uint32_t function, const Cta& by, unsigned warp) {
  if (warp == ~0u) {
    std::string text;
    if (by.state->warps.empty()) return text;
    by.state->warps[reader.id].newest_pass_first([&](const PassedWait& p) {
      if (p.phase == kNoPhase)
        text = fmt::format(
            "\n    {} had waited for {} with parity {}, and passed at once: the phase before the first "
            "counts as over\n      {}",
            who(reader), mbarrier_name(by, p.offset), p.parity, line_of(by, p.function, p.at));
      return true;
    });
    return text;
  }
  const std::string writer = who(*by.warps[warp]);
  const std::string line = at ? "\n      " + line_of(by, function, at) : "";
  const bool copies = at && by.cluster.grid.module.functions[function].source[at->pc].tokens[0] == "cp";
  if (!counted.cta && copies)
    return fmt::format(
        "\n    filled later by a copy that {} issued: a wait for that copy (cp.async.wait_group) is missing, "
        "and after it the arrival or barrier that the reader waits for{}",
        writer, line);
  if (!counted.cta)
    return fmt::format("\n    written later by {}: a wait or a barrier is missing between the two{}", writer,
                       line);
  std::string text =
      fmt::format("\n    filled later by a copy that {} issued; its bytes count on {}{}{}", writer,
                  mbarrier_name(*counted.cta, counted.mbarrier),
                  counted.phase == kNoPhase ? "" : fmt::format(" in phase {}", counted.phase), line);
  if (counted.phase != kNoPhase) text += instead_of(reader, counted);
  return text;
}

}  // namespace fp4lab::emu
