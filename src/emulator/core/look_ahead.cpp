// A read of shared memory that nobody has written yet: who writes it after all is whom the reader should have
// waited for. Notes go on and are told of it; behind a fault the cluster goes on for a while, without the
// reader, only to find out.
#include <algorithm>

#include "emulator/core/failure.h"
#include "emulator/core/hooks.h"
#include "emulator/core/machine.h"
#include "emulator/core/place.h"

namespace fp4lab::emu {

namespace {
constexpr uint64_t kFarAhead = 20'000;  // turns
}

void Cluster::ask(const Fault& fault, const Warp* w, const AsyncOp* op, Tolerated* note) {
  std::erase_if(questions_, [&](const Question& q) { return q.until < turns_; });
  if (!fault.unwritten_in || questions_.size() >= kQuestions) return;
  const Warp* reader = op ? op->cta->warps[op->warp].get() : w;
  if (reader) questions_.push_back({fault.unwritten_in, fault.unwritten, reader, note, turns_ + kFarAhead});
}

void Cluster::answer(const AsyncOp::Counted& counted, const Instr* at, uint32_t function, const Cta& by,
                     unsigned warp, bool async) {
  std::erase_if(questions_, [&](const Question& q) {
    if (q.cta->exited || q.until < turns_) return true;
    if (!q.cta->is_defined(q.offset, 1)) return false;
    // What a warp did in a turn of many instructions is known to the instruction behind a fault alone.
    const bool known = async || failure_;
    std::lock_guard lock(grid.notes_mutex);
    if (q.note && q.note->cluster != id) return true;  // it is told of another cluster by now
    (q.note ? q.note->report : failure_->report) +=
        hooks::late_writer(*q.reader, *q.cta, q.offset, counted, known ? at : nullptr, function, by, warp);
    return true;
  });
}

void Cluster::look_ahead(const Warp& without) {
  // A check goes on too: what the others still do may be why the fault came.
  const bool watched = watcher && grid.schedule.checked;
  if (questions_.empty() && !watched) return;
  if (!watched) watcher = nullptr;
  std::erase(runnable_, &without);
  for (const auto& g : without.groups())
    g->wait = {Wait::Kind::async_ops, 0, 0, [](Warp&, const LaneGroup&) { return false; }};
  std::erase_if(ops_, [&](const auto& op) {
    const bool its = op->cta == &without.cta && op->warp == without.id && !op->counted().cta;
    if (its) std::erase(serial_ops_, op.get());
    return its;
  });
  policy_ = {Policy::Warps::uniform, Policy::Ops::uniform, 1, ~0u, 0};
  try {
    uint64_t left = ~uint64_t(0);
    for (uint64_t k = 0; k < kFarAhead && (watched || !questions_.empty()); ++k) {
      if (changed_) poll();
      if (!turn(left)) break;
    }
  } catch (...) {  // whatever goes wrong by now is no news
  }
  running_ = nullptr;
  running_op_ = nullptr;
  for (const Question& q : questions_)
    if (!q.note)
      failure_->report += hooks::late_writer(*q.reader, *q.cta, q.offset, {}, nullptr, 0, q.reader->cta, ~0u);
  questions_.clear();
}

}  // namespace fp4lab::emu
