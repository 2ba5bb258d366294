// Conditional nodes, with the conditions that kernels set; attributes of kernel nodes; a graph as text.
// nvcc: -rdc=true
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "check.h"

__global__ void add(int* p, int n) { atomicAdd(p, n); }
__global__ void set(cudaGraphConditionalHandle condition, unsigned value) {
  cudaGraphSetConditional(condition, value);
}
__global__ void count_down(int* left, cudaGraphConditionalHandle condition) {
  cudaGraphSetConditional(condition, --*left > 0);
}
__global__ void cluster_size(int* p) {
  unsigned n;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  if (threadIdx.x == 0) atomicMax(p, int(n));
}

template <class... Arguments>
cudaGraphNode_t kernel(cudaGraph_t graph, cudaGraphNode_t behind, void* function, unsigned blocks,
                       Arguments... given) {
  void* pointers[] = {&given...};
  cudaGraphNodeParams p = {cudaGraphNodeTypeKernel};
  p.kernel.func = function;
  p.kernel.gridDim = blocks;
  p.kernel.blockDim = 1;
  p.kernel.kernelParams = pointers;
  cudaGraphNode_t node;
  CUDA(cudaGraphAddNode(&node, graph, behind ? &behind : nullptr, nullptr, behind ? 1 : 0, &p));
  return node;
}

// The node's bodies; `condition` is its graph's.
cudaGraph_t* choose(cudaGraph_t graph, cudaGraphNode_t behind, cudaGraphConditionalHandle condition,
                    cudaGraphConditionalNodeType type, unsigned bodies) {
  cudaGraphNodeParams p = {cudaGraphNodeTypeConditional};
  p.conditional.handle = condition;
  p.conditional.type = type;
  p.conditional.size = bodies;
  cudaGraphNode_t node;
  CUDA(cudaGraphAddNode(&node, graph, behind ? &behind : nullptr, nullptr, behind ? 1 : 0, &p));
  return p.conditional.phGraph_out;
}

void run(cudaGraph_t graph, int times = 1) {
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < times; ++i) CUDA(cudaGraphLaunch(exec, nullptr));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaGraphExecDestroy(exec));
}

// A loop whose body is captured; the default starts it at each launch.
void loops(int* p) {
  cudaGraph_t graph, clone;
  cudaGraphConditionalHandle condition;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphConditionalHandleCreate(&condition, graph, 1, cudaGraphCondAssignDefault));
  const cudaGraph_t body =
      choose(graph, kernel(graph, nullptr, (void*)add, 1, p, 5), condition, cudaGraphCondTypeWhile, 1)[0];
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
  add<<<1, 1, 0, stream>>>(p + 1, 1);
  count_down<<<1, 1, 0, stream>>>(p, condition);
  CUDA(cudaStreamEndCapture(stream, nullptr));
  run(graph, 2);
  EXPECT(p[0] == 0 && p[1] == 10);

  FAILS(cudaErrorNotSupported, cudaGraphClone(&clone, graph));
  FAILS(cudaErrorInvalidValue, cudaGraphDestroy(body));
  const std::string path = "/tmp/fp4lab-conditional-" + std::to_string(getpid());
  CUDA(cudaGraphDebugDotPrint(graph, path.c_str(), cudaGraphDebugDotFlagsVerbose));
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  unlink(path.c_str());
  EXPECT(text.rfind("digraph dot {", 0) == 0);
  EXPECT(text.find("\"graph_1_node_0\" -> \"graph_1_node_1\"") != text.npos);
  EXPECT(text.find("CONDITIONAL") != text.npos && text.find("cluster_2") != text.npos);
  EXPECT(text.find("count_down") != text.npos);
  CUDA(cudaGraphDestroy(graph));
}

void branches(int* p, cudaGraphConditionalNodeType type, unsigned bodies, unsigned value) {
  cudaGraph_t graph;
  cudaGraphConditionalHandle condition;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphConditionalHandleCreate(&condition, graph));
  const cudaGraph_t* body =
      choose(graph, kernel(graph, nullptr, (void*)set, 1, condition, value), condition, type, bodies);
  for (unsigned i = 0; i < bodies; ++i) kernel(body[i], nullptr, (void*)add, 1, p + i, 1);
  run(graph);
  CUDA(cudaGraphDestroy(graph));
}

// A node keeps its attributes when its parameters change.
void attributes(int* p) {
  cudaGraph_t graph;
  CUDA(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t node = kernel(graph, nullptr, (void*)cluster_size, 4, p);
  cudaLaunchAttributeValue value = {};
  value.clusterDim = {2, 1, 1};
  CUDA(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value));
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  cudaKernelNodeParams shape;
  CUDA(cudaGraphKernelNodeGetParams(node, &shape));
  EXPECT(shape.func == (void*)cluster_size && shape.gridDim.x == 4);
  shape.gridDim = 8;
  CUDA(cudaGraphExecKernelNodeSetParams(exec, node, &shape));
  CUDA(cudaGraphLaunch(exec, nullptr));
  CUDA(cudaDeviceSynchronize());
  EXPECT(*p == 2);
  value = {};
  CUDA(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeClusterDimension, &value));
  EXPECT(value.clusterDim.x == 2);
  unsigned long long flags = 9;
  CUDA(cudaGraphExecGetFlags(exec, &flags));
  EXPECT(flags == 0);
}

int main() {
  int* p;
  CUDA(cudaMallocManaged(&p, 64));
  for (int i = 0; i < 16; ++i) p[i] = 0;
  loops(p);
  for (unsigned value = 0; value < 4; ++value) {
    branches(p + 4, cudaGraphCondTypeIf, 2, value);
    branches(p + 8, cudaGraphCondTypeSwitch, 3, value);
  }
  EXPECT(p[4] == 3 && p[5] == 1);
  EXPECT(p[8] == 1 && p[9] == 1 && p[10] == 1 && p[11] == 0);
  attributes(p + 12);
  std::puts("ok");
}
