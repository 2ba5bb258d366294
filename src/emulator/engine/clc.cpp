// Cluster launch control (PTX ISA 9.7.13.17, 9.7.13.18): a running cluster takes over one that has not
// started.
#include <cstring>

#include "emulator/core/poison.h"
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

namespace {

// The 16-byte response is opaque in the manual; this is how ptxas 13.0 takes it apart: the low word holds the
// CTA index, x in bits 31:0, y in 47:32, z in 63:48; bit 0 of the high word is the answer. The mark above it
// is ours.
constexpr uint64_t kMark = 0xc1c5'0000'0000'0000;
constexpr uint64_t kCanceled = 1;

struct TryCancel final : AsyncOp {
  uint32_t response = 0, barrier = 0;  // offsets, the same in every target
  std::vector<Cta*> targets;

  const char* name() const override { return "clusterlaunchcontrol.try_cancel"; }
  bool serial() const override { return true; }
  bool lost_at_exit() const override { return cta->state->launch_control_over; }  // it would fail
  bool run(Cluster& cluster) override {
    Dim3 first{0, 0, 0};
    const bool ok = !cta->state->launch_control_over && cluster.grid.steal_cluster(first);
    const uint64_t index = uint64_t(first.z) << 48 | uint64_t(first.y) << 32 | first.x;
    const uint64_t words[2] = {ok ? index : kPoison64, kMark | (ok ? kCanceled : 0)};
    for (Cta* to : targets) {
      if (to->exited)
        fault(FaultKind::peer_exited, lane, "{} answers to CTA rank {}, which has exited", name(), to->rank);
      std::byte* out = to->window(response, 16, name());
      to->state->check_payload(response, 16, name());
      std::memcpy(out, words, 16);
      to->define(response, 16);
      watch_access(cluster, AccessKind::write, Space::shared, response, 16, to, *this);
      to->state->engine_complete_tx(barrier, 16, *this);
    }
    return true;
  }
};

struct Mods {
  Space space;
  bool multicast;
};

// op 0 [response], op 1 [mbarrier]. A request after one that failed is undefined by the manual. GOUTHAM1926's
// batched GEMM keeps two on their way; where that is tolerated the second fails as well, with a note.
void try_cancel(Warp& w, const Instr& in) {
  constexpr const char* what = "clusterlaunchcontrol.try_cancel";
  const Mods m = unpack_aux<Mods>(in);
  Cluster& cluster = w.cta.cluster;
  for_lanes(w.active, [&](unsigned lane) {
    if (w.cta.state->launch_control_over)
      cluster.note_or_throw(
          Fault(FaultKind::launch_control, lane,
                fmt::format("{} after this CTA saw that an earlier request had failed", what)),
          w);
    auto op = std::make_unique<TryCancel>();
    const SharedRef response = shared_ref(w, m.space, in.op[0], lane, what);
    const SharedRef barrier = shared_ref(w, m.space, in.op[1], lane, what);
    if (response.cta != &w.cta || barrier.cta != &w.cta)
      fault(FaultKind::illegal_address, lane, "{}: response and mbarrier must be the executing CTA's", what);
    if (response.offset % 16)
      fault(FaultKind::misaligned_address, lane,
            "{}: the response at shared {:#x} is not aligned to 16 bytes", what, response.offset);
    op->response = response.offset;
    op->barrier = barrier.offset;
    if (m.multicast)
      for (auto& cta : cluster.ctas) op->targets.push_back(cta.get());
    else
      op->targets.push_back(&w.cta);
    for (Cta* to : op->targets) to->state->mbarrier(op->barrier, what);
    cluster.submit(std::move(op), w, in, lane);
  });
}

// Both words of a response, checked.
template <class F>
void responses(Warp& w, const Operand& o, F&& f) {
  const uint64_t* words = w.source<uint64_t>(o);
  for_lanes(w.active, [&](unsigned lane) {
    const uint64_t low = words[lane], high = words[kLanes + lane];
    if ((high & ~kCanceled) != kMark)
      fault(FaultKind::launch_control, lane,
            "clusterlaunchcontrol.query_cancel of {:#018x}{:016x}, which no clusterlaunchcontrol.try_cancel "
            "answered",
            high, low);
    f(lane, low, high);
  });
}

void is_canceled(Warp& w, const Instr& in) {
  uint32_t yes = 0;
  responses(w, in.op[1],
            [&](unsigned lane, uint64_t, uint64_t high) { yes |= (high & kCanceled ? 1u : 0u) << lane; });
  if (yes != w.active) w.cta.state->launch_control_over = true;
  w.set_mask(in.op[0], yes);
}

// aux: 3 for .v4, else the component. Of a request that failed there is none: undefined by the manual. CuTe
// DSL asks for it first and for is_canceled then, so where that is tolerated it is a note.
void first_ctaid(Warp& w, const Instr& in) {
  uint32_t index[3][kLanes];
  responses(w, in.op[1], [&](unsigned lane, uint64_t low, uint64_t high) {
    if (!(high & kCanceled)) {
      const Fault failed(FaultKind::launch_control, lane,
                         "clusterlaunchcontrol.query_cancel.get_first_ctaid of a request that failed");
      w.cta.cluster.note_or_throw(failed, w);
    }
    index[0][lane] = static_cast<uint32_t>(low), index[1][lane] = static_cast<uint16_t>(low >> 32);
    index[2][lane] = static_cast<uint16_t>(low >> 48);
  });
  auto put = [&](const Operand& o, const uint32_t* values) {
    if (o.kind != Operand::Kind::value) return;
    uint32_t* d = w.target<uint32_t>(o);
    for_lanes(w.active, [&](unsigned lane) { d[lane] = values ? values[lane] : kPoison32; });
  };
  if (in.aux < 3) return put(in.op[0], index[in.aux]);
  for (unsigned i = 0; i < 4; ++i)
    put(w.element(in.op[0], i), i < 3 ? index[i] : nullptr);  // the 4th is unspecified
}

}  // namespace

Body bind_clc_try_cancel(Instr& in, const Source& s) {
  in.aux = pack_aux(Mods{shared_space(s), s.has("multicast::cluster::all")});
  return try_cancel;
}
Body bind_clc_is_canceled(Instr&, const Source&) { return is_canceled; }
Body bind_clc_first_ctaid(Instr& in, const Source& s) {
  in.aux = s.has("get_first_ctaid::x") ? 0 : s.has("get_first_ctaid::y") ? 1 : 2;
  return first_ctaid;
}
Body bind_clc_first_ctaid_v4(Instr& in, const Source&) {
  if (in.op[0].count != 4) fault(FaultKind::launch_control, 0, "get_first_ctaid.v4 needs a vector of 4");
  in.aux = 3;
  return first_ctaid;
}

}  // namespace fp4lab::emu
