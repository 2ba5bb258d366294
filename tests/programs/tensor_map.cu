// A tile by TMA: cuTensorMapEncodeTiled through cudaGetDriverEntryPointByVersion, the map as a
// __grid_constant__ parameter, cuda::barrier and cuda::ptx in the kernel.
#include <cuda.h>

#include <cuda/barrier>
#include <cuda/ptx>
#include <vector>

#include "check.h"

constexpr int kRows = 48, kColumns = 80, kTile = 16;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;

__global__ void transpose(const __grid_constant__ CUtensorMap map, float* out) {
  __shared__ alignas(128) float tile[kTile][kTile];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    const int corner[] = {int(blockIdx.x * kTile), int(blockIdx.y * kTile)};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &map, corner,
                              cuda::device::barrier_native_handle(barrier));
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof tile);
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  out[(blockIdx.x * kTile + y) * kRows + blockIdx.y * kTile + x] = tile[x][y];
}

int main() {
  std::vector<float> host(kRows * kColumns), got(kRows * kColumns);
  for (size_t i = 0; i < host.size(); ++i) host[i] = float(i);
  float *in, *out;
  CUDA(cudaMalloc(&in, host.size() * 4));
  CUDA(cudaMalloc(&out, host.size() * 4));
  CUDA(cudaMemcpy(in, host.data(), host.size() * 4, cudaMemcpyHostToDevice));
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
  EXPECT(found == cudaDriverEntryPointSuccess);
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  CUtensorMap map;
  const cuuint64_t dims[] = {kColumns, kRows}, strides[] = {kColumns * 4};
  const cuuint32_t box[] = {kTile, kTile}, steps[] = {1, 1};
  EXPECT(encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, in, dims, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
  transpose<<<dim3(kColumns / kTile, kRows / kTile), kTile * kTile>>>(map, out);
  CUDA(cudaMemcpy(got.data(), out, got.size() * 4, cudaMemcpyDeviceToHost));
  for (int y = 0; y < kRows; ++y)
    for (int x = 0; x < kColumns; ++x) EXPECT(got[x * kRows + y] == host[y * kColumns + x]);
  std::puts("ok");
}
