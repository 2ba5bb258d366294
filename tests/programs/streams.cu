// Streams, events, host functions, and graphs: captured with a fork and a join, built node by node, updated,
// cloned.
#include <vector>

#include "check.h"

__global__ void step(int* p, int factor, int term) { *p = *p * factor + term; }
__global__ void add(int* to, const int* from) { *to += *from; }

int read(const int* p) {
  int value;
  CUDA(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
  return value;
}

void capture_fork_and_join(int* a, int* b) {
  cudaStream_t main, side;
  cudaEvent_t fork, join;
  CUDA(cudaStreamCreate(&main));
  CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  const auto record = [&](int term, cudaGraph_t* graph) {
    CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(main, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    CUDA(cudaMemsetAsync(a, 0, 4, main));
    CUDA(cudaEventRecord(fork, main));
    CUDA(cudaStreamWaitEvent(side, fork, 0));
    step<<<1, 1, 0, main>>>(a, 1, term);
    step<<<1, 1, 0, side>>>(b, 2, 1);
    CUDA(cudaEventRecord(join, side));
    CUDA(cudaStreamWaitEvent(main, join, 0));
    add<<<1, 1, 0, main>>>(a, b);
    CUDA(cudaStreamEndCapture(main, graph));
  };
  CUDA(cudaMemset(b, 0, 4));
  cudaGraph_t graph, again;
  cudaGraphExec_t exec;
  record(5, &graph);
  EXPECT(read(b) == 0);  // nothing has run
  size_t nodes = 0;
  CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 4);
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0, want = 0; i < 3; ++i) {
    CUDA(cudaGraphLaunch(exec, main));
    CUDA(cudaStreamSynchronize(main));
    want = want * 2 + 1;
    EXPECT(read(a) == want + 5 && read(b) == want);
  }
  record(100, &again);
  cudaGraphExecUpdateResultInfo info;
  CUDA(cudaGraphExecUpdate(exec, again, &info));
  EXPECT(info.result == cudaGraphExecUpdateSuccess);
  CUDA(cudaGraphLaunch(exec, main));
  EXPECT(read(a) == 15 + 100);

  // A fork that never joins, and ends by another stream, are errors.
  CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
  CUDA(cudaEventRecord(fork, main));
  CUDA(cudaStreamWaitEvent(side, fork, 0));
  step<<<1, 1, 0, side>>>(b, 2, 1);
  cudaGraph_t broken;
  FAILS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(main, &broken));
  CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
  CUDA(cudaEventRecord(fork, main));
  CUDA(cudaStreamWaitEvent(side, fork, 0));
  FAILS(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(side, &broken));
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(main, &broken));
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaGraphDestroy(again));
  CUDA(cudaStreamDestroy(main));
  CUDA(cudaStreamDestroy(side));
}

void CUDART_CB count(void* p) { ++*static_cast<int*>(p); }

void node_by_node(int* a, int* b) {
  int calls = 0, result = -1;
  cudaGraph_t graph;
  CUDA(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t set, kernel, host, copy;
  cudaMemsetParams memset{};
  memset.dst = a, memset.value = 7, memset.elementSize = 4, memset.width = 1, memset.height = 1;
  CUDA(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &memset));
  int factor = 3, term = 4;
  void* arguments[] = {&a, &factor, &term};
  cudaKernelNodeParams params{};
  params.func = (void*)step, params.gridDim = 1, params.blockDim = 1, params.kernelParams = arguments;
  CUDA(cudaGraphAddKernelNode(&kernel, graph, &set, 1, &params));
  cudaHostNodeParams function{count, &calls};
  CUDA(cudaGraphAddHostNode(&host, graph, &kernel, 1, &function));
  CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, &host, 1, &result, a, 4, cudaMemcpyDeviceToHost));
  cudaGraphNodeType type;
  CUDA(cudaGraphNodeGetType(kernel, &type));
  EXPECT(type == cudaGraphNodeTypeKernel);
  cudaGraph_t clone;
  CUDA(cudaGraphClone(&clone, graph));
  cudaGraphExec_t exec, cloned;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphInstantiate(&cloned, clone, 0));
  CUDA(cudaGraphLaunch(exec, nullptr));
  CUDA(cudaDeviceSynchronize());
  EXPECT(result == 25 && calls == 1);
  term = 5;
  CUDA(cudaGraphExecKernelNodeSetParams(exec, kernel, &params));
  CUDA(cudaGraphLaunch(exec, nullptr));
  CUDA(cudaDeviceSynchronize());
  EXPECT(result == 26 && calls == 2);
  CUDA(cudaGraphLaunch(cloned, nullptr));
  CUDA(cudaDeviceSynchronize());
  EXPECT(result == 25 && calls == 3);
  (void)b;
}

// Capture goes on in a graph that has a node; a call that cannot be captured ends it for good.
void capture_to_graph(int* a) {
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  cudaGraph_t graph, got;
  cudaGraphNode_t first;
  size_t nodes = 0;
  CUDA(cudaGraphCreate(&graph, 0));
  cudaMemsetParams clear{};
  clear.dst = a, clear.elementSize = 4, clear.width = clear.height = 1;
  CUDA(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &clear));
  CUDA(cudaStreamBeginCaptureToGraph(s, graph, &first, nullptr, 1, cudaStreamCaptureModeGlobal));
  step<<<1, 1, 0, s>>>(a, 1, 5);
  CUDA(cudaStreamEndCapture(s, &got));
  CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &nodes));
  EXPECT(got == graph && nodes == 1);
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph));
  CUDA(cudaGraphLaunch(exec, s));
  CUDA(cudaGraphLaunch(exec, s));
  int value = 0;
  CUDA(cudaMemcpy(&value, a, 4, cudaMemcpyDeviceToHost));
  EXPECT(value == 5);
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(s));
  step<<<1, 1, 0, s>>>(a, 1, 5);
  EXPECT(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &got));
  EXPECT(!got);
  CUDA(cudaStreamSynchronize(s));
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaStreamDestroy(s));
}

// An event that a launch records, behind itself.
void event_of_launch(int* a) {
  cudaEvent_t event;
  CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = dim3(1);
  cudaLaunchAttribute attribute{};
  config.attrs = &attribute;
  config.numAttrs = 1;
  CUDA(cudaMemset(a, 0, 4));
  attribute.id = cudaLaunchAttributeLaunchCompletionEvent;
  attribute.val.launchCompletionEvent.event = event;
  CUDA(cudaLaunchKernelEx(&config, step, a, 1, 20));
  CUDA(cudaEventSynchronize(event));
  attribute.id = cudaLaunchAttributeProgrammaticEvent;
  attribute.val.programmaticEvent.event = event;
  CUDA(cudaLaunchKernelEx(&config, step, a, 1, 22));
  CUDA(cudaEventSynchronize(event));
  int value = 0;
  CUDA(cudaMemcpy(&value, a, 4, cudaMemcpyDeviceToHost));
  EXPECT(value == 42);
  CUDA(cudaEventDestroy(event));
}

int main() {
  int *a, *b;
  CUDA(cudaMalloc(&a, 4));
  CUDA(cudaMalloc(&b, 4));
  int least, greatest;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT(greatest < least);
  cudaStream_t high;
  CUDA(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
  int priority = 1;
  unsigned flags = 0;
  CUDA(cudaStreamGetPriority(high, &priority));
  CUDA(cudaStreamGetFlags(high, &flags));
  EXPECT(priority == greatest && flags == cudaStreamNonBlocking);

  int calls = 0, value = 0;
  CUDA(cudaMemsetAsync(a, 0, 4, high));
  step<<<1, 1, 0, high>>>(a, 1, 41);
  CUDA(cudaLaunchHostFunc(high, count, &calls));
  CUDA(cudaStreamAddCallback(
      high,
      [](cudaStream_t, cudaError_t e, void* p) { *static_cast<int*>(p) += e == cudaSuccess ? 10 : 100; },
      &calls, 0));
  step<<<1, 1, 0, high>>>(a, 1, 1);
  CUDA(cudaMemcpyAsync(&value, a, 4, cudaMemcpyDeviceToHost, high));
  CUDA(cudaStreamSynchronize(high));
  CUDA(cudaStreamQuery(high));
  EXPECT(value == 42 && calls == 11);
  CUDA(cudaStreamDestroy(high));
  EXPECT(cudaStreamSynchronize(high) != cudaSuccess);
  cudaGetLastError();

  capture_fork_and_join(a, b);
  node_by_node(a, b);
  capture_to_graph(a);
  event_of_launch(a);
  std::puts("ok");
}
