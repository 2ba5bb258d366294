// tcgen05.shift (PTX ISA 9.7.16.9.3): each of a quarter's 32 lanes but the last takes the 32 bytes of the
// lane behind it; the last keeps what it has. The manual says "downwards across all the rows, except the
// last" and no direction. That it is this one is read from what the instruction is for, a convolution whose
// next tap needs row i + 1 where row i was: CUTLASS 4.x says of tcgen05.cp.4x256b, the one copy that stays
// behind a shift, that it refreshes the last lane of each quarter (cute/atom/copy_traits_sm100.hpp); the
// zero-column mask of tcgen05.mma.ws shifts the columns of B that way, and so shfl.down the lanes of a warp.
// No hardware was asked.
#include "emulator/engine/tcgen05.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kColumns = 8, kRows = 32;

struct Shift final : AsyncOp {
  uint8_t group = 1;
  uint32_t address = 0;

  const char* name() const override { return "tcgen05.shift"; }
  bool held(const Cluster& cluster) const override { return cluster.at_once(*this); }

  void check(Cta& to) const {
    const TmemAddress a{address};
    if (a.lane() % kRows || a.lane() >= kTmemLanes)
      fault(FaultKind::tmem_address, lane,
            "tcgen05.shift of TMEM address {:#010x}: its lane is {}, must be 0, 32, "
            "64 or 96",
            address, a.lane());
    tensor_memory(to).check(to, a.column(), kColumns, "tcgen05.shift", this);
  }

  void move(Cluster& cluster, Cta& to) const {
    check(to);
    TensorMemory& tmem = tensor_memory(to);
    const TmemAddress a{address};
    watch_tmem(cluster, false, &to, a.lane(), kRows, a.column(), kColumns, *this);
    for (unsigned c = a.column(); c < a.column() + kColumns; ++c)
      for (unsigned l = a.lane(); l + 1 < a.lane() + kRows; ++l) {
        tmem.column(c)[l] = tmem.column(c)[l + 1];
        if (tmem.is_defined(c, l + 1, 1))
          tmem.define(to, c, l, 1);
        else
          tmem.undefine(c, l, 1);
      }
    watch_tmem(cluster, true, &to, a.lane(), kRows - 1, a.column(), kColumns, *this);
  }

  bool run(Cluster& cluster) override {
    move(cluster, *cta);
    if (group == 2) move(cluster, pair_of(*cta, name()));
    return true;
  }
};

// op 0 [taddr]
void shift(Warp& w, const Instr& in) {
  const auto group = static_cast<uint8_t>(in.aux);
  use_group(w.cta, group);
  for_lanes(w.active, [&](unsigned lane) {
    auto op = std::make_unique<Shift>();
    op->lane = lane;
    op->group = group;
    op->address = static_cast<uint32_t>(w.address(in.op[0], lane));
    op->check(w.cta);
    if (group == 2) op->check(pair_of(w.cta, "tcgen05.shift"));
    op->queue = pipe_of(w, lane);
    w.cta.cluster.submit(std::move(op), w, in, lane);
  });
}

}  // namespace

Body bind_tcgen05_shift(Instr& in, const Source& s) {
  in.aux = cta_group(s);
  return shift;
}

}  // namespace fp4lab::emu
