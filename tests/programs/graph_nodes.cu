// Graphs made node by node: every kind of node, asked, changed before and after instantiation; memory of a
// graph's own; user objects.
#include <cstring>
#include <vector>

#include "check.h"

__global__ void scale(int* p, int by) { p[threadIdx.x] *= by; }
__global__ void sum(const int* p, int n, int* out) {
  int s = 0;
  for (int i = 0; i < n; ++i) s += p[i];
  *out += s;
}

constexpr int kCount = 32;
__device__ int table[kCount];

template <class... Arguments>
cudaKernelNodeParams kernel(void* function, unsigned threads, Arguments*... arguments) {
  static void* pointers[8][sizeof...(Arguments)];
  static int next = 0;
  void** mine = pointers[next++ % 8];
  int i = 0;
  ((mine[i++] = arguments), ...);
  return {function, dim3(1), dim3(threads), 0, mine, nullptr};
}

int run(cudaGraphExec_t exec, int* out) {
  CUDA(cudaMemset(out, 0, 4));
  CUDA(cudaGraphLaunch(exec, nullptr));
  int got = 0;
  CUDA(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost));
  return got;
}

// host -> variable -> memory of the graph -> scaled -> summed; a host function beside it.
void nodes() {
  std::vector<int> from(kCount, 1), other(kCount, 2);
  int* out;
  CUDA(cudaMalloc(&out, 4));
  cudaGraph_t graph;
  CUDA(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t allocate, upload, fetch, times, add, free, call;
  cudaMemAllocNodeParams memory{};
  memory.poolProps.allocType = cudaMemAllocationTypePinned;
  memory.poolProps.location = {cudaMemLocationTypeDevice, 0};
  memory.bytesize = kCount * sizeof(int);
  CUDA(cudaGraphAddMemAllocNode(&allocate, graph, nullptr, 0, &memory));
  int* p = static_cast<int*>(memory.dptr);
  EXPECT(p);
  CUDA(cudaGraphAddMemcpyNodeToSymbol(&upload, graph, nullptr, 0, table, from.data(), sizeof table, 0,
                                      cudaMemcpyHostToDevice));
  const cudaGraphNode_t both[] = {allocate, upload};
  CUDA(cudaGraphAddMemcpyNodeFromSymbol(&fetch, graph, both, 2, p, table, sizeof table, 0,
                                        cudaMemcpyDeviceToDevice));
  int by = 3, n = kCount;
  cudaKernelNodeParams k = kernel(reinterpret_cast<void*>(scale), kCount, &p, &by);
  CUDA(cudaGraphAddKernelNode(&times, graph, &fetch, 1, &k));
  cudaKernelNodeParams s = kernel(reinterpret_cast<void*>(sum), 1, &p, &n, &out);
  CUDA(cudaGraphAddKernelNode(&add, graph, &times, 1, &s));
  CUDA(cudaGraphAddMemFreeNode(&free, graph, &add, 1, p));
  int calls = 0;
  cudaHostNodeParams host{[](void* c) { ++*static_cast<int*>(c); }, &calls};
  CUDA(cudaGraphAddHostNode(&call, graph, &add, 1, &host));

  size_t count = 0;
  CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 7);
  CUDA(cudaGraphGetRootNodes(graph, nullptr, &count));
  EXPECT(count == 2);
  CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  EXPECT(count == 6);
  cudaGraphNode_t behind[2];
  count = 2;
  CUDA(cudaGraphNodeGetDependentNodes(add, behind, nullptr, &count));
  EXPECT(count == 2 && behind[0] == free && behind[1] == call);
  cudaKernelNodeParams asked;
  CUDA(cudaGraphKernelNodeGetParams(times, &asked));
  EXPECT(asked.func == reinterpret_cast<void*>(scale) && asked.blockDim.x == kCount);
  EXPECT(*static_cast<int*>(asked.kernelParams[1]) == 3);

  cudaGraphExec_t exec, changed;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT(run(exec, out) == 3 * kCount && run(exec, out) == 3 * kCount && calls == 2);
  // Of what is instantiated: other data, another factor; a node that is switched off.
  CUDA(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, upload, table, other.data(), sizeof table, 0,
                                                cudaMemcpyHostToDevice));
  by = 5;
  CUDA(cudaGraphExecKernelNodeSetParams(exec, times, &k));
  EXPECT(run(exec, out) == 2 * 5 * kCount);
  CUDA(cudaGraphNodeSetEnabled(exec, times, 0));
  EXPECT(run(exec, out) == 2 * kCount);
  // Of the graph: seen by what is instantiated from now on.
  by = 7;
  CUDA(cudaGraphKernelNodeSetParams(times, &k));
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphInstantiate(&changed, graph, 0));
  EXPECT(run(changed, out) == 7 * kCount);
  CUDA(cudaGraphExecDestroy(changed));
  CUDA(cudaGraphDestroy(graph));
}

void clones() {
  int *p, by = 7;
  CUDA(cudaMalloc(&p, kCount * sizeof(int)));
  cudaGraph_t graph, clone;
  cudaGraphNode_t times, empty, twin;
  cudaKernelNodeParams k = kernel(reinterpret_cast<void*>(scale), kCount, &p, &by), asked;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphAddKernelNode(&times, graph, nullptr, 0, &k));
  CUDA(cudaGraphAddEmptyNode(&empty, graph, &times, 1));
  CUDA(cudaGraphClone(&clone, graph));
  CUDA(cudaGraphNodeFindInClone(&twin, times, clone));
  CUDA(cudaGraphKernelNodeGetParams(twin, &asked));
  EXPECT(*static_cast<int*>(asked.kernelParams[1]) == 7);
  CUDA(cudaGraphDestroyNode(empty));
  size_t count = 0, of_clone = 0;
  CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  CUDA(cudaGraphGetNodes(clone, nullptr, &of_clone));
  EXPECT(count == 1 && of_clone == 2);
  for (cudaGraph_t g : {graph, clone}) CUDA(cudaGraphDestroy(g));
}

// A child graph is the parent's own copy; events are recorded by a node; cudaGraphAddNode makes any kind.
void children() {
  int* p;
  CUDA(cudaMalloc(&p, kCount * sizeof(int)));
  cudaGraph_t child, parent, own;
  CUDA(cudaGraphCreate(&child, 0));
  CUDA(cudaGraphCreate(&parent, 0));
  cudaGraphNode_t fill, inner, record;
  cudaGraphNodeParams f{};
  f.type = cudaGraphNodeTypeMemset;
  f.memset.dst = p, f.memset.value = 4, f.memset.elementSize = 4, f.memset.width = kCount,
  f.memset.height = 1;
  CUDA(cudaGraphAddNode(&fill, child, nullptr, nullptr, 0, &f));
  CUDA(cudaGraphAddChildGraphNode(&inner, parent, nullptr, 0, child));
  CUDA(cudaGraphDestroy(child));
  CUDA(cudaGraphChildGraphNodeGetGraph(inner, &own));
  size_t count = 1;
  CUDA(cudaGraphGetNodes(own, &fill, &count));
  cudaMemsetParams m;
  CUDA(cudaGraphMemsetNodeGetParams(fill, &m));
  EXPECT(m.value == 4 && m.width == kCount);
  m.value = 6;
  CUDA(cudaGraphMemsetNodeSetParams(fill, &m));
  cudaEvent_t event, asked;
  CUDA(cudaEventCreate(&event));
  CUDA(cudaGraphAddEventRecordNode(&record, parent, &inner, 1, event));
  CUDA(cudaGraphEventRecordNodeGetEvent(record, &asked));
  EXPECT(asked == event);
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, parent, 0));
  CUDA(cudaGraphLaunch(exec, nullptr));
  CUDA(cudaEventSynchronize(event));
  int got[kCount];
  CUDA(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
  for (int x : got) EXPECT(x == 6);
}

// Memory that a captured stream allocates and frees belongs to the graph, which may be launched again.
void captured_memory() {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  int *out, *p, n = 16;
  CUDA(cudaMalloc(&out, 4));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA(cudaMallocAsync(&p, n * sizeof(int), stream));
  CUDA(cudaMemsetAsync(p, 0, n * sizeof(int), stream));
  sum<<<1, 1, 0, stream>>>(p, n, out);
  CUDA(cudaFreeAsync(p, stream));
  cudaGraph_t graph;
  CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphDestroy(graph));
  EXPECT(run(exec, out) == 0 && run(exec, out) == 0);
  CUDA(cudaGraphExecDestroy(exec));
}

void objects() {
  int destroyed = 0;
  cudaUserObject_t object;
  CUDA(cudaUserObjectCreate(
      &object, &destroyed, [](void* p) { ++*static_cast<int*>(p); }, 1, cudaUserObjectNoDestructorSync));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphDestroy(graph));
  EXPECT(destroyed == 0);
  CUDA(cudaGraphExecDestroy(exec));
  EXPECT(destroyed == 1);
}

// Programmatic dependent launch is an edge's data; who leaves no room for it hears so.
void edges() {
  int* p;
  cudaGraph_t graph;
  CUDA(cudaMalloc(&p, kCount * sizeof(int)));
  CUDA(cudaGraphCreate(&graph, 0));
  int by = 5;
  void* arguments[] = {&p, &by};
  cudaGraphNodeParams kernel{};
  kernel.type = cudaGraphNodeTypeKernel;
  kernel.kernel.func = reinterpret_cast<void*>(scale);
  kernel.kernel.gridDim = 1, kernel.kernel.blockDim = kCount, kernel.kernel.kernelParams = arguments;
  cudaGraphEdgeData early{}, data[2];
  early.type = cudaGraphDependencyTypeProgrammatic, early.from_port = cudaGraphKernelNodePortProgrammatic;
  cudaGraphNode_t node[3], from[2], to[2];
  CUDA(cudaGraphAddNode(&node[0], graph, nullptr, nullptr, 0, &kernel));
  CUDA(cudaGraphAddNode(&node[1], graph, &node[0], &early, 1, &kernel));
  size_t count = 2;
  CUDA(cudaGraphGetEdges(graph, from, to, data, &count));
  EXPECT(count == 1 && from[0] == node[0] && to[0] == node[1]);
  EXPECT(data[0].type == cudaGraphDependencyTypeProgrammatic &&
         data[0].from_port == cudaGraphKernelNodePortProgrammatic);
  FAILS(cudaErrorLossyQuery, cudaGraphGetEdges(graph, from, to, nullptr, &count));
  CUDA(cudaGraphAddNode(&node[2], graph, &node[1], nullptr, 1, &kernel));
  std::memset(data, 0xff, sizeof data);
  CUDA(cudaGraphNodeGetDependencies(node[2], from, data, &count));
  EXPECT(count == 1 && from[0] == node[1] && data[0].type == cudaGraphDependencyTypeDefault &&
         !data[0].from_port && !data[0].to_port);
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaFree(p));
}

// A captured launch that may begin early has such an edge from the kernel before it.
void captured_edges() {
  int *p, by = 3;
  cudaStream_t stream;
  cudaGraph_t graph;
  CUDA(cudaMalloc(&p, kCount * sizeof(int)));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 1, config.blockDim = kCount, config.stream = stream;
  config.attrs = &attribute, config.numAttrs = 1;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA(cudaMemsetAsync(p, 0, kCount * sizeof(int), stream));
  for (int k = 0; k < 2; ++k) CUDA(cudaLaunchKernelEx(&config, scale, p, by));
  scale<<<1, kCount, 0, stream>>>(p, by);
  CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t from[3], to[3];
  cudaGraphEdgeData data[3];
  size_t count = 3;
  CUDA(cudaGraphGetEdges(graph, from, to, data, &count));
  EXPECT(count == 3);
  for (int k = 0; k < 3; ++k) {  // behind the fill, and behind each of the two that may begin early
    cudaGraphNodeType type;
    size_t ahead = 0;
    CUDA(cudaGraphNodeGetType(from[k], &type));
    CUDA(cudaGraphNodeGetDependentNodes(to[k], nullptr, nullptr, &ahead));
    const bool early = type == cudaGraphNodeTypeKernel && ahead;
    EXPECT(data[k].type == (early ? cudaGraphDependencyTypeProgrammatic : cudaGraphDependencyTypeDefault));
    EXPECT(data[k].from_port == (early ? cudaGraphKernelNodePortProgrammatic : 0));
  }
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaStreamDestroy(stream));
  CUDA(cudaFree(p));
}

int main() {
  nodes();
  clones();
  children();
  captured_memory();
  objects();
  edges();
  captured_edges();
  std::puts("ok");
}
