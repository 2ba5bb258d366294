// Memory allocation and free nodes.
#include <algorithm>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

// Bytes of all graphs' memory: current and highest.
uint64_t held = 0, most_held = 0;

struct Owned {
  CUdeviceptr address;
  uint64_t bytes;
  Owned(CUdeviceptr a, uint64_t n) : address(a), bytes(n) {
    std::lock_guard lock(state().mutex);
    state().graph_memory.insert(address);
    most_held = std::max(most_held, held += bytes);
  }
  ~Owned() {
    std::lock_guard lock(state().mutex);
    state().graph_memory.erase(address);
    held -= bytes;
    state().memory->free(address);
  }
  Owned(const Owned&) = delete;
};

bool frees(const CUgraph_st& graph, CUdeviceptr pointer) {
  return std::ranges::any_of(graph.nodes, [pointer](const auto& node) {
    const auto* freed = std::get_if<CUdeviceptr>(&node->work.params);
    return freed && *freed == pointer;
  });
}

}  // namespace

CUresult fp4lab::emu::driver::graph_allocation(size_t bytes, CUDA_MEM_ALLOC_NODE_PARAMS* params, Work* work) {
  if (CUresult r = allocate_device(&params->dptr, bytes, "memory of a graph")) return r;
  auto memory = std::make_shared<const Owned>(params->dptr, bytes);
  *work = {[memory, bytes] {
             state().memory->refresh(reinterpret_cast<void*>(memory->address), bytes);
             return CUDA_SUCCESS;
           },
           *params};
  return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  if (CUresult r = ready_anywhere()) return r;
  if (!params || !node || !exists(graph) || (count && !needs) || !has_nodes(graph, needs, count))
    return CUDA_ERROR_INVALID_VALUE;
  Work work;
  if (CUresult r = graph_allocation(params->bytesize, params, &work)) return r;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(work));
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return params_of(node, params);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                               CUdeviceptr pointer) {
  if (CUresult r = ready(false)) return r;
  {
    std::lock_guard lock(state().mutex);
    if (!state().graph_memory.contains(pointer)) return CUDA_ERROR_INVALID_VALUE;
  }
  if (exists(graph) && frees(*graph, pointer)) return CUDA_ERROR_INVALID_VALUE;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEM_FREE,
                          {[=] { return free_device(pointer); }, pointer});
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* pointer) {
  return params_of(node, pointer);
}

// Only the nodes own memory.
CUresult cuDeviceGraphMemTrim(CUdevice device) {
  if (CUresult r = ready_anywhere()) return r;
  return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  if (CUresult r = ready_anywhere()) return r;
  if (device) return CUDA_ERROR_INVALID_DEVICE;
  if (!value || attribute < 0 || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  const bool high =
      attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  *static_cast<uint64_t*>(value) = high ? most_held : held;
  return CUDA_SUCCESS;
}
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  if (CUresult r = ready()) return r;
  if (device) return CUDA_ERROR_INVALID_DEVICE;
  const bool high =
      attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  if (!value || !high || *static_cast<uint64_t*>(value)) return CUDA_ERROR_INVALID_VALUE;  // 0 resets it
  most_held = held;
  return CUDA_SUCCESS;
}
