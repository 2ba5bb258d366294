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

}  // namespace fp4lab::isa
