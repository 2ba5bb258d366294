// Blackwell's fifth-generation tensor core and its tensor memory (PTX ISA 9.7.16), target sm_100a.
// TMEM: 128 lanes x 512 columns of 32 bits; an address is lane << 16 | column.
// alloc, dealloc, relinquish, ld and wait are warp-collective; cp, mma and commit are issued by one thread,
// and it must be the same one: commit tracks only what its own thread issued. One kernel uses one cta_group
// throughout.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// tcgen05.alloc.cta_group::G.sync.aligned.shared::cta.b32 [dst], columns;  (PTX 8.6; 9.7.16.7.1)
// `columns` a power of two 32..512; blocks until they are free; writes the TMEM address to shared memory.
template <int cta_group>
__device__ __forceinline__ void tcgen05_alloc(u32 dst, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(dst), "r"(columns),
               "n"(cta_group)
               : "memory");
}

// tcgen05.dealloc.cta_group::G.sync.aligned.b32 taddr, columns;  (PTX 8.6; 9.7.16.7.1)
template <int cta_group>
__device__ __forceinline__ void tcgen05_dealloc(u32 taddr, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(taddr), "r"(columns),
               "n"(cta_group)
               : "memory");
}

// tcgen05.relinquish_alloc_permit.cta_group::G.sync.aligned;  (PTX 8.6; 9.7.16.7.1)
// Lets another CTA of the SM allocate; this CTA may not allocate again.
template <int cta_group>
__device__ __forceinline__ void tcgen05_relinquish_alloc_permit() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(cta_group) : "memory");
}

// tcgen05.cp.cta_group::G.32x128b.warpx4 [taddr], sdesc;  (PTX 8.6; 9.7.16.9.2)
// 32 rows x 16 bytes of shared memory to 4 columns, repeated in each of the four 32-lane quarters: one
// 512-byte atom of the 128x4 scale layout is exactly this. With cta_group::2 each CTA copies from its own
// shared memory.
template <int cta_group>
__device__ __forceinline__ void tcgen05_cp_32x128b_warpx4(u32 taddr, u64 sdesc) {
  asm volatile("tcgen05.cp.cta_group::%2.32x128b.warpx4 [%0], %1;" ::"r"(taddr), "l"(sdesc), "n"(cta_group)
               : "memory");
}

// The tensor core's buffer for A (9.7.16.10): discard what it read (the default), fill the buffer for the
// next mma, or use what the last fill left there for the last time. kLastUse is a demand, not a hint: the
// fill must be the same A and still valid, so no mma of this thread with another A may stand between the two.
// Shared memory must stay as it is until both are complete.
enum class Collector { kDiscard, kFill, kLastUse };

// tcgen05.mma.cta_group::G.kind::mxf4nvf4.block_scale.block16{.collector::a::fill,.collector::a::lastuse}
//   [d], a, b, idesc, [sfa], [sfb], p;  (PTX 8.7/8.8; 9.7.16.10.9.1)
// D = A*B (+ D when `accumulate`), K = 64, one ue4m3 scale per 16 values of K.
template <int cta_group, Collector collector = Collector::kDiscard>
__device__ __forceinline__ void tcgen05_mma_mxf4nvf4_block16(u32 d, u64 a, u64 b, u32 idesc, u32 sfa, u32 sfb,
                                                             bool accumulate) {
#define FP4LAB_MMA(hint)                                                                                \
  asm volatile(                                                                                         \
      "{\n\t.reg .pred p;\n\t"                                                                          \
      "setp.ne.u32 p, %6, 0;\n\t"                                                                       \
      "tcgen05.mma.cta_group::%7.kind::mxf4nvf4.block_scale.block16" hint                               \
      " [%0], %1, %2, %3, [%4], [%5], p;\n\t}" ::"r"(d),                                                \
      "l"(a), "l"(b), "r"(idesc), "r"(sfa), "r"(sfb), "r"(static_cast<u32>(accumulate)), "n"(cta_group) \
      : "memory")
  if constexpr (collector == Collector::kFill)
    FP4LAB_MMA(".collector::a::fill");
  else if constexpr (collector == Collector::kLastUse)
    FP4LAB_MMA(".collector::a::lastuse");
  else
    FP4LAB_MMA("");
#undef FP4LAB_MMA
}

// tcgen05.commit.cta_group::G.mbarrier::arrive::one.shared::cluster.b64 [bar];  (PTX 8.6; 9.7.16.12.1)
// One arrival on `bar` when all earlier mma and cp of this thread are complete; implies
// fence::before_thread_sync.
template <int cta_group>
__device__ __forceinline__ void tcgen05_commit(u32 bar) {
  asm volatile("tcgen05.commit.cta_group::%1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar),
               "n"(cta_group)
               : "memory");
}

// tcgen05.commit.cta_group::G.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], mask;
//   (PTX 8.6; 9.7.16.12.1): one arrival at bar's offset in each CTA of `mask`.
template <int cta_group>
__device__ __forceinline__ void tcgen05_commit_multicast(u32 bar, u16 mask) {
  asm volatile(
      "tcgen05.commit.cta_group::%2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::
          "r"(bar),
      "h"(mask), "n"(cta_group)
      : "memory");
}

// tcgen05.fence::before_thread_sync;  (PTX 8.6; 9.7.16.11.1): before handing TMEM to other threads by a
// barrier.
__device__ __forceinline__ void tcgen05_fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

// tcgen05.fence::after_thread_sync;  (PTX 8.6; 9.7.16.11.1): after a wait, before tcgen05 work that depends
// on it.
__device__ __forceinline__ void tcgen05_fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// tcgen05.ld.sync.aligned.32x32b.xN.b32 {r0..}, [taddr];  (PTX 8.6; 9.7.16.8.3)
// Lane t of warp w gets columns c..c+N-1 of TMEM lane 32*(w % 4) + t. The values exist only after
// tcgen05_wait_ld(r).
__device__ __forceinline__ void tcgen05_ld_32x32b(u32 taddr, u32 (&r)[8]) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                 "=r"(r[7])
               : "r"(taddr)
               : "memory");
}
__device__ __forceinline__ void tcgen05_ld_32x32b(u32 taddr, u32 (&r)[16]) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]),
        "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15])
      : "r"(taddr)
      : "memory");
}

// tcgen05.ld.sync.aligned.16x256b.x2.b32 {r0..r7}, [taddr];  (PTX 8.6; 9.7.16.8.3)
// 16 TMEM lanes x 16 columns as 8x8 matrices of the mma family: r[0], r[1] of lane t hold columns 2 (t % 4)
// and
// + 1 of TMEM lane t / 4; r[2], r[3] those of 8 lanes further on; r[4..7] those of 8 columns further on.
__device__ __forceinline__ void tcgen05_ld_16x256b(u32 taddr, u32 (&r)[8]) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x2.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                 "=r"(r[7])
               : "r"(taddr)
               : "memory");
}

// tcgen05.wait::ld.sync.aligned;  (PTX 8.6; 9.7.16.8.5): all earlier tcgen05.ld of this thread are complete.
// The "+r" operands tie the loaded registers to the wait: without them the compiler may use a register before
// it.
template <int n>
__device__ __forceinline__ void tcgen05_wait_ld(u32 (&r)[n]) {
  static_assert(n == 8 || n == 16);
  if constexpr (n == 8) {
    asm volatile("tcgen05.wait::ld.sync.aligned;"
                 : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), "+r"(r[4]), "+r"(r[5]), "+r"(r[6]),
                   "+r"(r[7])
                 :
                 : "memory");
  } else {
    asm volatile("tcgen05.wait::ld.sync.aligned;"
                 : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), "+r"(r[4]), "+r"(r[5]), "+r"(r[6]),
                   "+r"(r[7]), "+r"(r[8]), "+r"(r[9]), "+r"(r[10]), "+r"(r[11]), "+r"(r[12]), "+r"(r[13]),
                   "+r"(r[14]), "+r"(r[15])
                 :
                 : "memory");
  }
}
// One wait for two loads.
template <int n>
__device__ __forceinline__ void tcgen05_wait_ld(u32 (&a)[n], u32 (&b)[n]) {
  tcgen05_wait_ld(a);
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+r"(b[i]));  // used after the wait above
}

}  // namespace fp4lab::isa
