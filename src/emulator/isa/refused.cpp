// Instructions of the manual that have no row in the table, for messages and the support page. A test proves
// that every instruction of the manual has a row or is listed here, and never both.
#include "emulator/isa/table.h"

namespace fp4lab::emu {

namespace {

constexpr Refusal kRefused[] = {
    {"vote.all.pred", "9.7.13.8", "without .sync it does not exist on sm_70 and later"},
    {"shfl.idx.b32", "9.7.9.5", "without .sync it does not exist on sm_70 and later"},
    {"multimem.cp.async.bulk.global.shared::cta.bulk_group", "9.7.9.26",
     "multicast objects span several GPUs"},
    {"cvt.rn.satfinite.s2f6x2.f32", "9.7.9.21",
     "fixed-point formats of PTX ISA 9.1, for no target of CUDA 13.0"},
    {"cvta.to.global.u32", "9.7.9.20", "addresses have 64 bits"},
    {"cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes", "9.7.9.27.1.2",
     "the manual gives its pixels and halos in figures only"},
    {"cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w::128.mbarrier::complete_tx::bytes",
     "9.7.9.27.1.2", "the manual gives its pixels and halos in figures only"},
    {"tex.1d.v4.f32.s32", "9.7.10.3", "textures"},
    {"tld4.r.2d.v4.f32.f32", "9.7.10.4", "textures"},
    {"txq.width.b32", "9.7.10.5", "textures"},
    {"istypep.texref", "9.7.10.6", "textures"},
    {"suld.b.1d.b32.trap", "9.7.11.1", "surfaces"},
    {"sust.b.1d.b32.trap", "9.7.11.2", "surfaces"},
    {"sured.b.add.1d.u32.trap", "9.7.11.3", "surfaces"},
    {"suq.width.b32", "9.7.11.4", "surfaces"},
    {"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "9.7.14.5.14", "sm_120a only"},
    {"mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
     "9.7.14.5.14", "sm_120a only"},
    {"mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "9.7.14.6.3",
     "sm_120a only"},
    {"tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32", "9.7.16.8.3", "sm_103a only"},
    {"tcgen05.mma.cta_group::1.kind::f16.ashift", "9.7.16.10.9.1",
     "how rows are shifted at the borders of TMEM's quarters is not publicly known"},
};

}  // namespace

std::span<const Refusal> refusals() { return kRefused; }

std::string_view reason_of(std::string_view mnemonic) {
  for (const Refusal& r : kRefused)
    if (r.example.substr(0, r.example.find('.')) == mnemonic) return r.why;
  return {};
}

}  // namespace fp4lab::emu
