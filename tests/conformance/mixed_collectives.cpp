// Collective operations of mixed kernels: of the lanes of a mask, a CTA, a cluster.
#include "fp4lab/error.h"
#include "mixed_access.h"
#include "mixed_parts.h"

namespace fp4lab::conformance {

void MixedParts::collective() {
  const std::string d = reg("b32"), p = reg("pred"), m = mask();
  switch (r_.below(9)) {
    case 0: {  // from the nth lane of the mask
      line(fmt::format("  popc.b32 %t, {}; rem.u32 %u, {}, %t; add.u32 %u, %u, 1;", m, reg("b32")));
      line(fmt::format("  fns.b32 %u, {}, 0, %u;", m));
      line(fmt::format("  shfl.sync.idx.b32 {}|{}, {}, %u, 0x1f, {};", d, p, reg("b32"), m));
      log("b32", d);
      return log("pred", p);
    }
    case 1:
    case 2: {  // from a lane that may be inactive: the result is used only if it is active
      static constexpr const char* kModes[] = {"up", "down", "bfly"};
      const unsigned mode = r_.below(3), by = r_.below(32);
      static constexpr const char* kLane[] = {"sub.u32", "add.u32", "xor.b32"};
      line(fmt::format("  mov.u32 %u, %laneid; {} %u, %u, {}; shr.u32 %t, {}, %u; and.b32 %t, %t, 1;",
                       kLane[mode], by, m));
      line(fmt::format("  shfl.sync.{}.b32 %v|{}, {}, {}, {}, {};", kModes[mode], p, reg("b32"), by,
                       mode == 0 ? 0 : 0x1f, m));
      line("  setp.ne.u32 %q, %t, 0;");
      line(fmt::format("  setp.gt.and.u32 %q, 32, %u, %q; mov.b32 {0}, 0; @%q mov.b32 {0}, %v;", d));
      log("b32", d);
      return log("pred", p);
    }
    case 3: {
      static constexpr const char* kModes[] = {"all", "any", "uni"};
      line(fmt::format("  vote.sync.{}.pred {}, {}{}, {};", r_.pick(kModes), p, r_.one_in(2) ? "!" : "",
                       reg("pred"), m));
      return log("pred", p);
    }
    case 4:
      line(fmt::format("  vote.sync.ballot.b32 {}, {}{}, {};", d, r_.one_in(2) ? "!" : "", reg("pred"), m));
      return log("b32", d);
    case 5: {
      const bool wide = r_.one_in(2);
      const std::string type = wide ? "b64" : "b32", a = reg(type);
      line(fmt::format("  and.{0} {1}, {1}, 3;", type, a));
      if (r_.one_in(2)) {
        line(fmt::format("  match.any.sync.{} {}, {}, {};", type, d, a, m));
      } else {
        line(fmt::format("  match.all.sync.{} {}|{}, {}, {};", type, d, p, a, m));
        log("pred", p);
      }
      return log("b32", d);
    }
    case 6:
      line(fmt::format("  elect.sync {}|{}, {};", d, p, m));
      log("b32", d);
      return log("pred", p);
    default: {
      static constexpr const char* kOps[] = {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32",
                                             "max.s32", "and.b32", "or.b32",  "xor.b32"};
      line(fmt::format("  redux.sync.{} {}, {}, {};", r_.pick(kOps), d, reg("b32"), m));
      return log("b32", d);
    }
  }
}

void MixedParts::barrier() {
  static constexpr const char* kForms[] = {"bar.sync 0;", "barrier.sync.aligned 1;", "barrier.cta.sync 2;",
                                           "bar.cta.sync 15;"};
  line(std::string("  ") + r_.pick(kForms));
}
void MixedParts::meet_cluster() {
  line("  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;");
}

void MixedParts::neighbour() {
  const bool far = cluster_ && r_.one_in(2);
  const Access& a = r_.pick(kAccesses);
  far ? meet_cluster() : barrier();
  line(fmt::format("  add.u32 %t, %me, {0}; rem.u32 %t, %t, {1}; mov.u32 %u, sh; mad.lo.u32 %t, %t, {2}, %u;",
                   1 + r_.below(threads_), threads_, kRegion));
  const std::string d = reg(a.reg);
  const unsigned at = r_.below(kRegion / a.bytes) * a.bytes;
  if (far) {
    line("  mov.u32 %u, %cluster_ctarank; xor.b32 %u, %u, 1; mapa.shared::cluster.u32 %t, %t, %u;");
    line(fmt::format("  ld.shared::cluster.{} {}, [%t+{}];", a.type, d, at));
  } else {
    line(fmt::format("  ld.shared.{} {}, [%t+{}];", a.type, d, at));
  }
  log(a.reg, d);
  far ? meet_cluster() : barrier();
}

void MixedParts::vote() {
  const std::string n = reg("b32"), p = reg("pred");
  line(fmt::format("  bar.red.popc.u32 {}, 0, {}{};", n, r_.one_in(2) ? "!" : "", reg("pred")));
  log("b32", n);
  line(fmt::format("  barrier.cta.red.{}.aligned.pred {}, 3, {};", r_.one_in(2) ? "and" : "or", p,
                   reg("pred")));
  log("pred", p);
}

}  // namespace fp4lab::conformance
