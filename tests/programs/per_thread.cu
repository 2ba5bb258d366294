// nvcc: --default-stream per-thread
// Stream 0 is the thread's own: every call goes by its other name (_ptsz, _ptds), and stream 0 can be
// captured.
#include <thread>

#include "check.h"

__constant__ int term = 1;
__global__ void step(int* p) { *p += term; }

int work() {
  int *p, value = -1, two = 2;
  CUDA(cudaMallocAsync(&p, 4, 0));
  CUDA(cudaMemset(p, 0, 4));
  CUDA(cudaMemcpyToSymbol(term, &two, 4));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamBeginCapture(0, cudaStreamCaptureModeThreadLocal));
  step<<<1, 1>>>(p);
  step<<<1, 1>>>(p);
  CUDA(cudaStreamEndCapture(0, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphLaunch(exec, 0));
  step<<<1, 1>>>(p);
  CUDA(cudaMemcpyAsync(&value, p, 4, cudaMemcpyDeviceToHost, 0));
  CUDA(cudaStreamSynchronize(0));
  CUDA(cudaFreeAsync(p, 0));
  return value;
}

int main() {
  EXPECT(work() == 6);
  int other = 0;
  std::thread([&] { other = work(); }).join();
  EXPECT(other == 6);
  std::puts("ok");
}
