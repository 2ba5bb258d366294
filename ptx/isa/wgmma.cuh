// Hopper's warpgroup matrix product (PTX ISA 9.7.15), target sm_90a. All four warps of a warpgroup execute
// each instruction, converged. A comes from registers here (64 rows x 16 of K), B from shared memory by
// descriptor. Registers of A and D may not be touched between the product and the wait_group that covers its
// group.
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// wgmma.fence.sync.aligned;  (PTX 8.0, sm_90a; 9.7.15.7.1): before the first product, and after any other
// access to the registers that one uses.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// wgmma.commit_group.sync.aligned;  (PTX 8.0, sm_90a; 9.7.15.7.2)
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// wgmma.wait_group.sync.aligned n;  (PTX 8.0, sm_90a; 9.7.15.7.3): at most n groups of this warp in flight.
template <int n>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}

// An empty statement that reads and writes a register: the compiler may not move an access to `r` across it.
__device__ __forceinline__ void keep(float& r) { asm volatile("" : "+f"(r)::"memory"); }
__device__ __forceinline__ void keep(u32& r) { asm volatile("" : "+r"(r)::"memory"); }
__device__ __forceinline__ void keep(u64& r) { asm volatile("" : "+l"(r)::"memory"); }
template <class T>
__device__ __forceinline__ void keep(T*& p) {
  asm volatile("" : "+l"(p)::"memory");
}

// Shared-memory matrix descriptor (9.7.15.5.1) of a K-major tile, 128-byte swizzle, 64 values of K per row:
// bits 13:0 address / 16, 29:16 leading offset (unused with a swizzle), 45:32 stride between groups of 8 rows
// (1024 bytes), 63:62 swizzle (1 = 128 bytes). The tile is 1024-byte aligned; 16 values of K further is + 2.
__device__ __forceinline__ u64 wgmma_descriptor_k_major_128b(u32 address) {
  return (u64{1} << 62) | (u64{1024 >> 4} << 32) | (u64{1} << 16) | ((address & 0x3ffff) >> 4);
}

// wgmma.mma_async.sync.aligned.m64nNk16.f32.f16.f16 {d}, {a}, b, p, 1, 1, 0;  (PTX 8.0, sm_90a; 9.7.15.5.2)
// D[64xN] = A[64x16] * B[Nx16]^T (+ D when `accumulate`). Warp w, lane 4q + i (PTX ISA 9.7.15.5.1):
//   a[0], a[2]: row 16w + q,     k = 2i, 2i + 1 and 2i + 8, 2i + 9;   a[1], a[3]: row 16w + q + 8
//   d[4b + 0, 1]: row 16w + q,   columns 8b + 2i, 8b + 2i + 1;        d[4b + 2, 3]: row 16w + q + 8
template <int n>
__device__ __forceinline__ void wgmma_f32_f16(float (&d)[n / 2], const u32 (&a)[4], u64 b, bool accumulate);

// The register list grows by 4 with each step of 8 in N; Sn is its text, On the operands.
// clang-format off
#define FP4LAB_S8 "%0,%1,%2,%3"
#define FP4LAB_O8 "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3])
#define FP4LAB_S16 FP4LAB_S8 ",%4,%5,%6,%7"
#define FP4LAB_O16 FP4LAB_O8, "+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7])
#define FP4LAB_S24 FP4LAB_S16 ",%8,%9,%10,%11"
#define FP4LAB_O24 FP4LAB_O16, "+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11])
#define FP4LAB_S32 FP4LAB_S24 ",%12,%13,%14,%15"
#define FP4LAB_O32 FP4LAB_O24, "+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15])
#define FP4LAB_S40 FP4LAB_S32 ",%16,%17,%18,%19"
#define FP4LAB_O40 FP4LAB_O32, "+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19])
#define FP4LAB_S48 FP4LAB_S40 ",%20,%21,%22,%23"
#define FP4LAB_O48 FP4LAB_O40, "+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23])
#define FP4LAB_S56 FP4LAB_S48 ",%24,%25,%26,%27"
#define FP4LAB_O56 FP4LAB_O48, "+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27])
#define FP4LAB_S64 FP4LAB_S56 ",%28,%29,%30,%31"
#define FP4LAB_O64 FP4LAB_O56, "+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31])
#define FP4LAB_S72 FP4LAB_S64 ",%32,%33,%34,%35"
#define FP4LAB_O72 FP4LAB_O64, "+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35])
#define FP4LAB_S80 FP4LAB_S72 ",%36,%37,%38,%39"
#define FP4LAB_O80 FP4LAB_O72, "+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39])
#define FP4LAB_S88 FP4LAB_S80 ",%40,%41,%42,%43"
#define FP4LAB_O88 FP4LAB_O80, "+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43])
#define FP4LAB_S96 FP4LAB_S88 ",%44,%45,%46,%47"
#define FP4LAB_O96 FP4LAB_O88, "+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47])
#define FP4LAB_S104 FP4LAB_S96 ",%48,%49,%50,%51"
#define FP4LAB_O104 FP4LAB_O96, "+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51])
#define FP4LAB_S112 FP4LAB_S104 ",%52,%53,%54,%55"
#define FP4LAB_O112 FP4LAB_O104, "+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55])
#define FP4LAB_S120 FP4LAB_S112 ",%56,%57,%58,%59"
#define FP4LAB_O120 FP4LAB_O112, "+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59])
#define FP4LAB_S128 FP4LAB_S120 ",%60,%61,%62,%63"
#define FP4LAB_O128 FP4LAB_O120, "+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63])
#define FP4LAB_S136 FP4LAB_S128 ",%64,%65,%66,%67"
#define FP4LAB_O136 FP4LAB_O128, "+f"(d[64]),"+f"(d[65]),"+f"(d[66]),"+f"(d[67])
#define FP4LAB_S144 FP4LAB_S136 ",%68,%69,%70,%71"
#define FP4LAB_O144 FP4LAB_O136, "+f"(d[68]),"+f"(d[69]),"+f"(d[70]),"+f"(d[71])
#define FP4LAB_S152 FP4LAB_S144 ",%72,%73,%74,%75"
#define FP4LAB_O152 FP4LAB_O144, "+f"(d[72]),"+f"(d[73]),"+f"(d[74]),"+f"(d[75])
#define FP4LAB_S160 FP4LAB_S152 ",%76,%77,%78,%79"
#define FP4LAB_O160 FP4LAB_O152, "+f"(d[76]),"+f"(d[77]),"+f"(d[78]),"+f"(d[79])
#define FP4LAB_S168 FP4LAB_S160 ",%80,%81,%82,%83"
#define FP4LAB_O168 FP4LAB_O160, "+f"(d[80]),"+f"(d[81]),"+f"(d[82]),"+f"(d[83])
#define FP4LAB_S176 FP4LAB_S168 ",%84,%85,%86,%87"
#define FP4LAB_O176 FP4LAB_O168, "+f"(d[84]),"+f"(d[85]),"+f"(d[86]),"+f"(d[87])
#define FP4LAB_S184 FP4LAB_S176 ",%88,%89,%90,%91"
#define FP4LAB_O184 FP4LAB_O176, "+f"(d[88]),"+f"(d[89]),"+f"(d[90]),"+f"(d[91])
#define FP4LAB_S192 FP4LAB_S184 ",%92,%93,%94,%95"
#define FP4LAB_O192 FP4LAB_O184, "+f"(d[92]),"+f"(d[93]),"+f"(d[94]),"+f"(d[95])
#define FP4LAB_S200 FP4LAB_S192 ",%96,%97,%98,%99"
#define FP4LAB_O200 FP4LAB_O192, "+f"(d[96]),"+f"(d[97]),"+f"(d[98]),"+f"(d[99])
#define FP4LAB_S208 FP4LAB_S200 ",%100,%101,%102,%103"
#define FP4LAB_O208 FP4LAB_O200, "+f"(d[100]),"+f"(d[101]),"+f"(d[102]),"+f"(d[103])
#define FP4LAB_S216 FP4LAB_S208 ",%104,%105,%106,%107"
#define FP4LAB_O216 FP4LAB_O208, "+f"(d[104]),"+f"(d[105]),"+f"(d[106]),"+f"(d[107])
#define FP4LAB_S224 FP4LAB_S216 ",%108,%109,%110,%111"
#define FP4LAB_O224 FP4LAB_O216, "+f"(d[108]),"+f"(d[109]),"+f"(d[110]),"+f"(d[111])
#define FP4LAB_S232 FP4LAB_S224 ",%112,%113,%114,%115"
#define FP4LAB_O232 FP4LAB_O224, "+f"(d[112]),"+f"(d[113]),"+f"(d[114]),"+f"(d[115])
#define FP4LAB_S240 FP4LAB_S232 ",%116,%117,%118,%119"
#define FP4LAB_O240 FP4LAB_O232, "+f"(d[116]),"+f"(d[117]),"+f"(d[118]),"+f"(d[119])
#define FP4LAB_S248 FP4LAB_S240 ",%120,%121,%122,%123"
#define FP4LAB_O248 FP4LAB_O240, "+f"(d[120]),"+f"(d[121]),"+f"(d[122]),"+f"(d[123])
#define FP4LAB_S256 FP4LAB_S248 ",%124,%125,%126,%127"
#define FP4LAB_O256 FP4LAB_O248, "+f"(d[124]),"+f"(d[125]),"+f"(d[126]),"+f"(d[127])
#define FP4LAB_WGMMA(n, a0, a1, a2, a3, b0, p0)                                                              \
  template <>                                                                                                \
  __device__ __forceinline__ void wgmma_f32_f16<n>(float (&d)[n / 2], const u32 (&a)[4], u64 b,             \
                                                   bool accumulate) {                                        \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %" #p0 ", 0;\n\t"                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" FP4LAB_S##n "}, "                \
                 "{%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #b0 ", p, 1, 1, 0;\n\t}"                        \
                 : FP4LAB_O##n                                                                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<u32>(accumulate))     \
                 : "memory");                                                                                \
  }
FP4LAB_WGMMA(8, 4, 5, 6, 7, 8, 9)
FP4LAB_WGMMA(16, 8, 9, 10, 11, 12, 13)
FP4LAB_WGMMA(24, 12, 13, 14, 15, 16, 17)
FP4LAB_WGMMA(32, 16, 17, 18, 19, 20, 21)
FP4LAB_WGMMA(40, 20, 21, 22, 23, 24, 25)
FP4LAB_WGMMA(48, 24, 25, 26, 27, 28, 29)
FP4LAB_WGMMA(56, 28, 29, 30, 31, 32, 33)
FP4LAB_WGMMA(64, 32, 33, 34, 35, 36, 37)
FP4LAB_WGMMA(72, 36, 37, 38, 39, 40, 41)
FP4LAB_WGMMA(80, 40, 41, 42, 43, 44, 45)
FP4LAB_WGMMA(88, 44, 45, 46, 47, 48, 49)
FP4LAB_WGMMA(96, 48, 49, 50, 51, 52, 53)
FP4LAB_WGMMA(104, 52, 53, 54, 55, 56, 57)
FP4LAB_WGMMA(112, 56, 57, 58, 59, 60, 61)
FP4LAB_WGMMA(120, 60, 61, 62, 63, 64, 65)
FP4LAB_WGMMA(128, 64, 65, 66, 67, 68, 69)
FP4LAB_WGMMA(136, 68, 69, 70, 71, 72, 73)
FP4LAB_WGMMA(144, 72, 73, 74, 75, 76, 77)
FP4LAB_WGMMA(152, 76, 77, 78, 79, 80, 81)
FP4LAB_WGMMA(160, 80, 81, 82, 83, 84, 85)
FP4LAB_WGMMA(168, 84, 85, 86, 87, 88, 89)
FP4LAB_WGMMA(176, 88, 89, 90, 91, 92, 93)
FP4LAB_WGMMA(184, 92, 93, 94, 95, 96, 97)
FP4LAB_WGMMA(192, 96, 97, 98, 99, 100, 101)
FP4LAB_WGMMA(200, 100, 101, 102, 103, 104, 105)
FP4LAB_WGMMA(208, 104, 105, 106, 107, 108, 109)
FP4LAB_WGMMA(216, 108, 109, 110, 111, 112, 113)
FP4LAB_WGMMA(224, 112, 113, 114, 115, 116, 117)
FP4LAB_WGMMA(232, 116, 117, 118, 119, 120, 121)
FP4LAB_WGMMA(240, 120, 121, 122, 123, 124, 125)
FP4LAB_WGMMA(248, 124, 125, 126, 127, 128, 129)
FP4LAB_WGMMA(256, 128, 129, 130, 131, 132, 133)
// clang-format on
#undef FP4LAB_WGMMA
#undef FP4LAB_S8
#undef FP4LAB_O8
#undef FP4LAB_S16
#undef FP4LAB_O16
#undef FP4LAB_S24
#undef FP4LAB_O24
#undef FP4LAB_S32
#undef FP4LAB_O32
#undef FP4LAB_S40
#undef FP4LAB_O40
#undef FP4LAB_S48
#undef FP4LAB_O48
#undef FP4LAB_S56
#undef FP4LAB_O56
#undef FP4LAB_S64
#undef FP4LAB_O64
#undef FP4LAB_S72
#undef FP4LAB_O72
#undef FP4LAB_S80
#undef FP4LAB_O80
#undef FP4LAB_S88
#undef FP4LAB_O88
#undef FP4LAB_S96
#undef FP4LAB_O96
#undef FP4LAB_S104
#undef FP4LAB_O104
#undef FP4LAB_S112
#undef FP4LAB_O112
#undef FP4LAB_S120
#undef FP4LAB_O120
#undef FP4LAB_S128
#undef FP4LAB_O128
#undef FP4LAB_S136
#undef FP4LAB_O136
#undef FP4LAB_S144
#undef FP4LAB_O144
#undef FP4LAB_S152
#undef FP4LAB_O152
#undef FP4LAB_S160
#undef FP4LAB_O160
#undef FP4LAB_S168
#undef FP4LAB_O168
#undef FP4LAB_S176
#undef FP4LAB_O176
#undef FP4LAB_S184
#undef FP4LAB_O184
#undef FP4LAB_S192
#undef FP4LAB_O192
#undef FP4LAB_S200
#undef FP4LAB_O200
#undef FP4LAB_S208
#undef FP4LAB_O208
#undef FP4LAB_S216
#undef FP4LAB_O216
#undef FP4LAB_S224
#undef FP4LAB_O224
#undef FP4LAB_S232
#undef FP4LAB_O232
#undef FP4LAB_S240
#undef FP4LAB_O240
#undef FP4LAB_S248
#undef FP4LAB_O248
#undef FP4LAB_S256
#undef FP4LAB_O256

}  // namespace fp4lab::isa
