// Loads, stores and atomics with more than C++ can say.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// st.global.L1::no_allocate.v4.b32 [p], {..};  (PTX 7.4, sm_70; 9.7.9.11): 16 bytes, 16-byte aligned.
__device__ __forceinline__ void st_global_no_allocate_v4(void* p, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.global.L1::no_allocate.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}

// st.global.L1::no_allocate.v8.b32 [p], {..};  (PTX 8.8, sm_100; 9.7.9.11): one 32-byte sector, 32-byte
// aligned.
__device__ __forceinline__ void st_global_no_allocate_v8(void* p, const u32 (&v)[8]) {
  asm volatile("st.global.L1::no_allocate.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(p), "r"(v[0]),
               "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]), "r"(v[7])
               : "memory");
}

// st.global.L1::no_allocate.b16 [p], v;  (PTX 7.4, sm_70; 9.7.9.11)
__device__ __forceinline__ void st_global_no_allocate_b16(void* p, u16 v) {
  asm volatile("st.global.L1::no_allocate.b16 [%0], %1;" ::"l"(p), "h"(v) : "memory");
}

// st.global.v8.b32 [p], {..};  (PTX 8.8, sm_100; 9.7.9.11): 32 bytes, 32-byte aligned.
__device__ __forceinline__ void st_global_v8(void* p, const u32 (&v)[8]) {
  asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(p), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]), "r"(v[7])
               : "memory");
}

// ld.global.v8.b32 {..}, [p];  (PTX 8.8, sm_100; 9.7.9.8): 32 bytes, 32-byte aligned.
__device__ __forceinline__ void ld_global_v8(const void* p, u32 (&v)[8]) {
  asm volatile("ld.global.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),
                 "=r"(v[7])
               : "l"(p)
               : "memory");
}

// ld.global.v4.b32 {..}, [p];  (9.7.9.8): 16 bytes, aligned to them
__device__ __forceinline__ void ld_global_v4(const void* p, u32 (&v)[4]) {
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "l"(p)
               : "memory");
}

// st.shared.b32 [address], v;  (9.7.9.11)
__device__ __forceinline__ void st_shared_b32(u32 address, u32 v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

// st.shared.b16 [address], v;  (9.7.9.11)
__device__ __forceinline__ void st_shared_b16(u32 address, u16 v) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(v) : "memory");
}

// st.shared.v4.b32 [address], {..};  (9.7.9.11)
__device__ __forceinline__ void st_shared_v4(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// ld.shared.v4.b32 {..}, [address];  (9.7.9.8)
__device__ __forceinline__ void ld_shared_v4(u32 address, u32 (&v)[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}

// ld.shared.b32 d, [address];  (9.7.9.8)
__device__ __forceinline__ u32 ld_shared_b32(u32 address) {
  u32 d;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(d) : "r"(address) : "memory");
  return d;
}

// atom.acq_rel.gpu.global.add.u32 old, [p], v;  (PTX 6.0, sm_70; 9.7.13.5)
__device__ __forceinline__ u32 atom_add_acq_rel_gpu(u32* p, u32 v) {
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
  return old;
}

// ld.acquire.gpu.global.b32 d, [p];  (PTX 6.0, sm_70; 9.7.9.8)
__device__ __forceinline__ u32 ld_acquire_gpu(const u32* p) {
  u32 d;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(d) : "l"(p) : "memory");
  return d;
}

// red.release.gpu.global.add.u32 [p], v;  (PTX 6.0, sm_70; 9.7.13.7)
__device__ __forceinline__ void red_add_release_gpu(u32* p, u32 v) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// ld.global.b32 d, [p];  (9.7.9.8) and narrower and wider ones
__device__ __forceinline__ u32 ld_global_b32(const void* p) {
  u32 d;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(d) : "l"(p) : "memory");
  return d;
}
__device__ __forceinline__ u32 ld_global_u8(const void* p) {
  u32 d;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(d) : "l"(p) : "memory");
  return d;
}
__device__ __forceinline__ void ld_global_v2(const void* p, u32 (&v)[2]) {
  asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "l"(p) : "memory");
}

// prefetch.global.L2 [p];  (PTX 2.0; 9.7.9.15): a hint; the cache line of p.
__device__ __forceinline__ void prefetch_global_l2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

// st.release.gpu.global.b32 [p], v;  (PTX 6.0, sm_70; 9.7.9.11)
__device__ __forceinline__ void st_release_gpu(u32* p, u32 v) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [address], {..};  (PTX 7.8, sm_90; 9.7.14.5.16): four 8x8
// matrices, lane t giving the address of row t % 8 of matrix t / 8 and holding of each matrix row t / 4,
// columns 2 (t % 4) and + 1; with .trans columns become the stored rows.
__device__ __forceinline__ void stmatrix_x4_trans(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// ld.shared.v2.b32 {..}, [address];  (9.7.9.8)
__device__ __forceinline__ void ld_shared_v2(u32 address, u32 (&v)[2]) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(address) : "memory");
}

// ld.shared.u8 d, [address];
__device__ __forceinline__ u32 ld_shared_u8(u32 address) {
  u32 d;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(d) : "r"(address) : "memory");
  return d;
}

}  // namespace fp4lab::isa
