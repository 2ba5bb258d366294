// clusterlaunchcontrol: a running cluster takes over one that was not launched yet (PTX
// ISA 9.7.13.17, 9.7.13.18).
#pragma once
#include "types.cuh"

namespace fp4lab::isa {

// clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128
//   [response], [bar];  (PTX 8.6, sm_100a; 9.7.13.17)
// 16 bytes at `response`'s offset and 16 bytes counted on `bar`'s offset in every CTA of the cluster.
// Undefined once this CTA has seen a request fail.
__device__ __forceinline__ void clusterlaunchcontrol_try_cancel_multicast(u32 response, u32 bar) {
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::"
      "all.b128 "
      "[%0], [%1];" ::"r"(response),
      "r"(bar)
      : "memory");
}

// ld.shared.b128 q, [response]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q;
// @p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 x, q;  (PTX 8.6, sm_100; 9.7.13.18)
// The x index of the stolen cluster's first CTA, -1 when there was none left. One asm, because C++ has no
// 16-byte register; b128 must be loaded by ld.
__device__ __forceinline__ int clusterlaunchcontrol_query_cancel(u32 response) {
  int x;
  asm volatile(
      "{\n\t.reg .b128 q;\n\t.reg .pred p;\n\t"
      "ld.shared.b128 q, [%1];\n\t"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q;\n\t"
      "mov.b32 %0, -1;\n\t"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, q;\n\t}"
      : "=r"(x)
      : "r"(response)
      : "memory");
  return x;
}

}  // namespace fp4lab::isa
