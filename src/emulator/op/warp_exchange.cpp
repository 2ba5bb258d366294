// Instructions that exchange values between lanes of a warp: shfl, vote, match, redux, elect, bar.warp,
// activemask (PTX ISA 9.7.9.6, 9.7.13.2, 9.7.13.9 to 9.7.13.12, 9.7.13.14).
#include <algorithm>
#include <limits>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/isa/opcode.h"
#include "emulator/op/float_order.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

// The participating lanes: those that execute this instruction, and those that wait at others of its kind,
// each with operands of its own.
class Members {
 public:
  Members(Warp& w, const Instr& i, uint32_t lanes, const std::vector<Warp::Party>& elsewhere)
      : w_(w), i_(i), here_(lanes), elsewhere_(elsewhere) {
    for (const auto& p : elsewhere) lanes_ |= p.lanes;
  }
  uint32_t lanes() const { return lanes_; }

  // A source operand, by slot: each lane's value.
  template <class T>
  const LaneOf<T>* row(unsigned slot) {
    const auto* own = w_.source<T>(i_.op[slot]);
    if (elsewhere_.empty()) [[likely]]
      return own;
    auto* all = reinterpret_cast<LaneOf<T>*>(rows_[slot]);
    std::copy_n(own, kLanes, all);
    each_elsewhere([&](const Warp::Party& p) {
      const auto* theirs = w_.source<T>(p.instr->op[slot]);
      for_lanes(p.lanes, [&](unsigned l) { all[l] = theirs[l]; });
    });
    return all;
  }
  uint32_t mask(unsigned slot) {
    uint32_t all = w_.mask(i_.op[slot]) & here_;
    each_elsewhere([&](const Warp::Party& p) { all |= w_.mask(p.instr->op[slot]) & p.lanes; });
    return all;
  }

  template <class T>
  void give(unsigned slot, const LaneOf<T>* values) {
    const auto to = [&](const Instr& i, uint32_t lanes) {
      auto* d = w_.target<T>(i.op[slot]);
      for_lanes(lanes, [&](unsigned l) { d[l] = values[l]; });
    };
    to(i_, here_);
    each_elsewhere([&](const Warp::Party& p) { to(*p.instr, p.lanes); });
  }
  template <class T>
  void give_all(unsigned slot, LaneOf<T> value) {
    LaneOf<T> values[kLanes];
    std::fill_n(values, kLanes, value);
    give<T>(slot, values);
  }
  void give_mask(unsigned slot, uint32_t value) {
    w_.set_mask(i_.op[slot], value);
    each_elsewhere([&](const Warp::Party& p) { w_.set_mask(p.instr->op[slot], value); });
  }
  void leave_undefined(unsigned slot, uint32_t lanes) {
    const auto in = [&](const Operand& o, uint32_t which) {
      if (which && o.kind == Operand::Kind::value) w_.leave_undefined(o, which);
    };
    in(i_.op[slot], lanes & here_);
    for (const auto& p : elsewhere_) in(p.instr->op[slot], lanes & p.lanes);
  }

 private:
  template <class F>
  void each_elsewhere(F f) {
    for (const auto& p : elsewhere_) w_.in_place_of(p, [&] { f(p); });
  }

  Warp& w_;
  const Instr& i_;
  const uint32_t here_;
  const std::vector<Warp::Party>& elsewhere_;
  uint32_t lanes_ = here_;
  // Of operands that come from several instructions.
  alignas(64) std::byte rows_[kMaxOperands][kLanes * sizeof(uint64_t)];
};

// Lanes that execute the instruction but are not named in its mask: a fault; or members with a note, if the
// schedule is tolerant and `welcome` is set.
struct Meeting {
  BarrierEvent::What what = BarrierEvent::What::warp_sync;
  bool strangers_welcome = false;
};

// Runs body(members) once the live lanes of the member mask have arrived. Lanes that execute together may
// have different masks (two halves of a warp, each with its own): each set then synchronises by itself, which
// requires that all of its lanes are here already.
//
// Watchers take the members to be synchronised then. The manual says so of bar.warp.sync only. But on every
// machine a lane that continues because of another lane's value is ordered after what that lane did before,
// and cooperative_groups relies on it (details/sync.h, sync_warps_last_releases). elect transfers no value
// and is excluded.
template <class F>
void with_members(Warp& w, const Instr& i, const Operand& mask_operand, F body, Meeting how = {}) {
  std::vector<Warp::Party> elsewhere;
  const auto meet = [&](uint32_t here) {
    Members members(w, i, here, elsewhere);
    if (w.cta.cluster.watcher) [[unlikely]]
      w.cta.cluster.watcher->barrier({how.what, &w.cta, 0, 0, 0, &w, members.lanes(), nullptr});
    body(members);
  };
  const auto* masks = w.source<uint32_t>(mask_operand);
  const uint32_t all = w.active;
  uint32_t first = masks[std::countr_zero(all)];
  uint32_t same = 0;
  for_lanes(all, [&](unsigned l) { same |= uint32_t(masks[l] == first) << l; });
  if (same == all) {
    Cluster& cluster = w.cta.cluster;
    if ((all & ~first) && how.strangers_welcome && cluster.grid.schedule.tolerant) [[unlikely]] {
      cluster.tolerated(w.not_named(first), w);
      first |= all;
    }
    if (!w.converge(i, first, &elsewhere)) return;
    meet(w.active & first);
    if (!elsewhere.empty()) w.let_go(elsewhere);
    return;
  }
  uint32_t left = all;
  while (left) {
    const unsigned lane = unsigned(std::countr_zero(left));
    const uint32_t members = masks[lane];
    uint32_t set = 0;
    for_lanes(left, [&](unsigned l) { set |= uint32_t(masks[l] == members) << l; });
    const uint32_t live = members & w.lanes & ~w.exited;
    if (set != live)
      fault(FaultKind::collective, lane,
            "lanes that execute together name different member masks, and of those in 0x{:08x} only 0x{:08x} "
            "have arrived",
            members, set);
    w.active = set;
    meet(set);
    left &= ~set;
  }
  w.active = all;
}

enum class Shuffle : uint8_t { up, down, bfly, idx };

template <Shuffle kMode>
void shfl(Warp& w, const Instr& i) {
  // The machine's SHFL has no member mask and reads any lane that is there: a mask of 0xffff in both halves
  // of a warp (a gemv of the NVFP4 contest) works as intended.
  with_members(
      w, i, i.op[5],
      [&](Members& members) {
        const auto* a = members.row<uint32_t>(2);
        const auto* b = members.row<uint32_t>(3);
        const auto* c = members.row<uint32_t>(4);
        uint32_t result[kLanes] = {};
        uint32_t in_range = 0, unknown = 0;
        for_lanes(members.lanes(), [&](unsigned lane) {
          const int segments = int(c[lane] >> 8 & 31), clamp = int(c[lane] & 31), offset = int(b[lane] & 31);
          const int l = int(lane), last = (l & segments) | (clamp & ~segments & 31), first = l & segments;
          int j;
          bool ok;
          switch (kMode) {
            case Shuffle::up:
              j = l - offset, ok = j >= last;
              break;
            case Shuffle::down:
              j = l + offset, ok = j <= last;
              break;
            case Shuffle::bfly:
              j = l ^ offset, ok = j <= last;
              break;
            case Shuffle::idx:
              j = first | (offset & ~segments & 31), ok = j <= last;
              break;
          }
          if (!ok) j = l;
          in_range |= uint32_t(ok) << lane;
          result[lane] = a[j];
          if (!(members.lanes() >> j & 1))
            unknown |= 1u << lane;  // the value of an inactive lane is undefined
        });
        members.give<uint32_t>(0, result);
        members.leave_undefined(0, unknown);
        members.give_mask(1, in_range);
      },
      {.strangers_welcome = true});
}

enum class Vote : uint8_t { all, any, uni, ballot };

template <Vote kMode>
void vote(Warp& w, const Instr& i) {
  with_members(w, i, i.op[2], [&](Members& members) {
    const uint32_t all = members.lanes(), yes = members.mask(1);
    if constexpr (kMode == Vote::ballot) {
      members.give_all<uint32_t>(0, yes);
    } else {
      const bool holds = kMode == Vote::all   ? yes == all
                         : kMode == Vote::any ? yes != 0
                                              : yes == all || yes == 0;
      members.give_mask(0, holds ? 0xffffffff : 0);
    }
  });
}

template <class T>
void match_any(Warp& w, const Instr& i) {
  with_members(w, i, i.op[2], [&](Members& members) {
    const auto* a = members.row<T>(1);
    uint32_t result[kLanes] = {};
    for_lanes(members.lanes(), [&](unsigned l) {
      uint32_t equal = 0;
      for_lanes(members.lanes(), [&](unsigned k) { equal |= uint32_t(a[k] == a[l]) << k; });
      result[l] = equal;
    });
    members.give<uint32_t>(0, result);
  });
}

template <class T>
void match_all(Warp& w, const Instr& i) {
  with_members(w, i, i.op[3], [&](Members& members) {
    const auto* a = members.row<T>(2);
    const auto first = a[std::countr_zero(members.lanes())];
    bool same = true;
    for_lanes(members.lanes(), [&](unsigned l) { same = same && a[l] == first; });
    members.give_all<uint32_t>(0, same ? members.lanes() : 0);
    members.give_mask(1, same ? 0xffffffff : 0);
  });
}

// redux: one value from all members' values.
template <class T, class F>
Body redux(F) {
  return [](Warp& w, const Instr& i) {
    with_members(w, i, i.op[2], [&](Members& members) {
      const auto* a = members.row<T>(1);
      const uint32_t all = members.lanes();
      T sum = from_row<T>(a[std::countr_zero(all)]);
      for_lanes(all & (all - 1), [&](unsigned l) { sum = F{}(sum, from_row<T>(a[l])); });
      members.give_all<T>(0, to_row<T>(sum));
    });
  };
}

template <bool kMax>
Body redux_f32(const Source& s) {
  const auto with = [](auto nan, auto abs) {
    using X = Extreme<kMax, false, decltype(nan)::value, decltype(abs)::value, false>;
    // A single member's value is compared with itself: |a| for .abs, canonical for NaN.
    return [](Warp& w, const Instr& i) {
      with_members(w, i, i.op[2], [&](Members& members) {
        const auto* a = members.row<uint32_t>(1);
        uint32_t best = a[std::countr_zero(members.lanes())];
        for_lanes(members.lanes(), [&](unsigned l) { best = X::template two<F32Bits>(best, a[l]); });
        members.give_all<uint32_t>(0, best);
      });
    };
  };
  const bool nan = s.has("NaN"), abs = s.has("abs");
  if (nan && abs) return with(std::true_type{}, std::true_type{});
  if (nan) return with(std::true_type{}, std::false_type{});
  if (abs) return with(std::false_type{}, std::true_type{});
  return with(std::false_type{}, std::false_type{});
}

}  // namespace

Body bind_shfl(Instr&, const Source& s) {
  if (s.has("up")) return shfl<Shuffle::up>;
  if (s.has("down")) return shfl<Shuffle::down>;
  if (s.has("bfly")) return shfl<Shuffle::bfly>;
  return shfl<Shuffle::idx>;
}

Body bind_vote_pred(Instr&, const Source& s) {
  return s.has("all") ? vote<Vote::all> : s.has("any") ? vote<Vote::any> : vote<Vote::uni>;
}
Body bind_vote_ballot(Instr&, const Source&) { return vote<Vote::ballot>; }

Body bind_match_any(Instr&, const Source& s) {
  return bits_of(s.type()) == 64 ? match_any<uint64_t> : match_any<uint32_t>;
}
Body bind_match_all(Instr&, const Source& s) {
  return bits_of(s.type()) == 64 ? match_all<uint64_t> : match_all<uint32_t>;
}

Body bind_redux(Instr&, const Source& s) {
  if (s.has("and")) return redux<uint32_t>([](uint32_t a, uint32_t b) { return a & b; });
  if (s.has("or")) return redux<uint32_t>([](uint32_t a, uint32_t b) { return a | b; });
  if (s.has("xor")) return redux<uint32_t>([](uint32_t a, uint32_t b) { return a ^ b; });
  if (s.has("add")) return redux<uint32_t>([](uint32_t a, uint32_t b) { return a + b; });
  const bool is_signed = s.type() == Type::s32;
  if (s.has("min"))
    return is_signed ? redux<int32_t>([](int32_t a, int32_t b) { return a < b ? a : b; })
                     : redux<uint32_t>([](uint32_t a, uint32_t b) { return a < b ? a : b; });
  return is_signed ? redux<int32_t>([](int32_t a, int32_t b) { return a > b ? a : b; })
                   : redux<uint32_t>([](uint32_t a, uint32_t b) { return a > b ? a : b; });
}
Body bind_redux_float(Instr&, const Source& s) {
  return s.has("max") ? redux_f32<true>(s) : redux_f32<false>(s);
}

// The elected lane is the lowest member (seen on an H200 for a full warp; the manual leaves it open).
Body bind_elect(Instr&, const Source&) {
  return [](Warp& w, const Instr& i) {
    const auto choose = [&](Members& members) {
      const uint32_t leader = uint32_t(std::countr_zero(members.lanes()));
      members.give_all<uint32_t>(0, leader);
      members.give_mask(1, 1u << leader);
    };
    with_members(w, i, i.op[2], choose, {.what = BarrierEvent::What::elected});
  };
}

Body bind_bar_warp(Instr&, const Source&) {
  return [](Warp& w, const Instr& i) { with_members(w, i, i.op[0], [](Members&) {}); };
}

Body bind_activemask(Instr&, const Source&) {
  return [](Warp& w, const Instr& i) {
    auto* d = w.target<uint32_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) { d[l] = w.active; });
  };
}

}  // namespace fp4lab::emu
