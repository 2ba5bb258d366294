// Clusters: distributed shared memory, sizes up to 16, launches by attribute and by __cluster_dims__,
// occupancy.
#include <cooperative_groups.h>

#include <vector>

#include "check.h"

namespace cg = cooperative_groups;

// Every block adds its values into the histogram slice that another block of the cluster holds.
__global__ void histogram(const int* x, int n, int bins, int* out) {
  extern __shared__ int slice[];
  const cg::cluster_group cluster = cg::this_cluster();
  const int mine = bins / cluster.num_blocks();
  for (int i = threadIdx.x; i < mine; i += blockDim.x) slice[i] = 0;
  cluster.sync();
  const int id = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = id; i < n; i += gridDim.x * blockDim.x) {
    const int bin = x[i] % bins;
    int* home = cluster.map_shared_rank(slice, bin / mine);
    atomicAdd(&home[bin % mine], 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < mine; i += blockDim.x)
    atomicAdd(&out[cluster.block_rank() * mine + i], slice[i]);
}

__global__ void __cluster_dims__(2, 2, 1) neighbours(int* out) {
  __shared__ int id;
  const cg::cluster_group cluster = cg::this_cluster();
  const int block = blockIdx.y * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0) id = block;
  cluster.sync();
  const int other = *cluster.map_shared_rank(&id, cluster.block_rank() ^ 3);
  cluster.barrier_wait(cluster.barrier_arrive());
  if (threadIdx.x == 0) out[block] = other;
}

int main() {
  const int n = 5000, bins = 256;
  std::vector<int> x(n), want(bins), got(bins);
  for (int i = 0; i < n; ++i) x[i] = (i * 7919) % 1009, ++want[x[i] % bins];
  int *dx, *out;
  CUDA(cudaMalloc(&dx, n * 4));
  CUDA(cudaMalloc(&out, bins * 4));
  CUDA(cudaMemcpy(dx, x.data(), n * 4, cudaMemcpyHostToDevice));
  for (const unsigned size : {1u, 2u, 4u, 8u, 16u}) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {size, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = 32, config.blockDim = 64, config.dynamicSmemBytes = bins / size * 4;
    config.attrs = &attribute, config.numAttrs = 1;
    if (size == 16) {
      FAILS(cudaErrorInvalidClusterSize,
            cudaLaunchKernelEx(&config, histogram, (const int*)dx, n, bins, out));
      CUDA(cudaFuncSetAttribute(histogram, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    }
    int clusters = 0;
    CUDA(cudaOccupancyMaxActiveClusters(&clusters, histogram, &config));
    EXPECT(clusters > 0);
    CUDA(cudaMemset(out, 0, bins * 4));
    CUDA(cudaLaunchKernelEx(&config, histogram, (const int*)dx, n, bins, out));
    CUDA(cudaMemcpy(got.data(), out, bins * 4, cudaMemcpyDeviceToHost));
    EXPECT(got == want);
    config.gridDim = 31;
    if (size > 1) EXPECT(cudaLaunchKernelEx(&config, histogram, (const int*)dx, n, bins, out) != cudaSuccess);
    cudaGetLastError();
  }
  int most = 0;
  cudaLaunchConfig_t config{};
  config.gridDim = 32, config.blockDim = 64;
  CUDA(cudaOccupancyMaxPotentialClusterSize(&most, histogram, &config));
  EXPECT(most == 16);

  neighbours<<<dim3(4, 4), 32>>>(out);
  CUDA(cudaMemcpy(got.data(), out, 16 * 4, cudaMemcpyDeviceToHost));
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 4; ++x) EXPECT(got[y * 4 + x] == (y ^ 1) * 4 + (x ^ 1));
  cudaFuncAttributes attributes;
  CUDA(cudaFuncGetAttributes(&attributes, neighbours));
  EXPECT(attributes.requiredClusterWidth == 2 && attributes.requiredClusterHeight == 2);
  std::puts("ok");
}
