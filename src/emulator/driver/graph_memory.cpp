// Memory allocation and free nodes.
#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

struct Owned {
  CUdeviceptr address;
  explicit Owned(CUdeviceptr a) : address(a) {
    std::lock_guard lock(state().mutex);
    state().graph_memory.insert(address);
  }
  ~Owned() {
    std::lock_guard lock(state().mutex);
    state().graph_memory.erase(address);
    state().memory->free(address);
  }
  Owned(const Owned&) = delete;
};

}  // namespace

CUresult fp4lab::emu::driver::graph_allocation(size_t bytes, CUDA_MEM_ALLOC_NODE_PARAMS* params, Work* work) {
  if (CUresult r = cuMemAlloc(&params->dptr, bytes)) return r;
  auto memory = std::make_shared<const Owned>(params->dptr);
  *work = {[memory, bytes] {
             state().memory->refresh(reinterpret_cast<void*>(memory->address), bytes);
             return CUDA_SUCCESS;
           },
           *params};
  return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  if (CUresult r = graph_allocation(params->bytesize, params, &work)) return r;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(work));
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return params_of(node, params);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                               CUdeviceptr pointer) {
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEM_FREE,
                          {[=] { return cuMemFree(pointer); }, pointer});
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* pointer) {
  return params_of(node, pointer);
}

// Nothing is kept beside what nodes own.
CUresult cuDeviceGraphMemTrim(CUdevice) { return ready(); }
