// Conditional nodes (CUDA C++ Programming Guide, "Conditional Graph Nodes"): a kernel writes the condition,
// which selects one of the node's bodies when the node runs. A handle is the address of the condition in
// device memory.
#include <algorithm>
#include <cstring>

#include "emulator/driver/graph.h"

using namespace fp4lab::emu::driver;

namespace {

std::shared_ptr<const void> device_word(CUdeviceptr* address) {
  if (allocate_device(address, sizeof(unsigned), "cuGraphConditionalHandleCreate")) return nullptr;
  return {reinterpret_cast<const void*>(*address), [](const void* p) {
            std::lock_guard lock(state().mutex);
            state().memory->free(reinterpret_cast<CUdeviceptr>(p));
          }};
}

void write(CUgraphConditionalHandle handle, unsigned value) {
  state().memory->refresh(reinterpret_cast<void*>(handle), sizeof value);
  std::memcpy(state().memory->host(handle), &value, sizeof value);
}
unsigned read(CUgraphConditionalHandle handle) {
  unsigned value;
  std::memcpy(&value, state().memory->host(handle), sizeof value);
  return value;
}

// Called with the state locked.
std::map<CUgraphConditionalHandle, std::weak_ptr<const void>>& handles() {
  static auto* all = new std::map<CUgraphConditionalHandle, std::weak_ptr<const void>>;
  return *all;
}
std::shared_ptr<const void> memory_of(CUgraphConditionalHandle handle) {
  std::lock_guard lock(state().mutex);
  const auto found = handles().find(handle);
  return found == handles().end() ? nullptr : found->second.lock();
}

bool is_size(CUgraphConditionalNodeType type, unsigned size) {
  switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
      return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return size == 1;
    default:
      return type == CU_GRAPH_COND_TYPE_SWITCH && size > 0;
  }
}

// The body that the value selects; none past the last one.
size_t chosen(CUgraphConditionalNodeType type, unsigned value) {
  return type == CU_GRAPH_COND_TYPE_SWITCH ? value : value == 0;
}

CUresult run_chosen(const Conditional& c, const std::vector<Steps>& bodies) {
  for (;;) {
    const size_t body = chosen(c.params.type, read(c.params.handle));
    if (body >= bodies.size()) return CUDA_SUCCESS;
    if (CUresult r = run_steps(bodies[body])) return r;
    if (c.params.type != CU_GRAPH_COND_TYPE_WHILE) return CUDA_SUCCESS;
  }
}

}  // namespace

namespace fp4lab::emu::driver {

CUresult conditional_work(std::shared_ptr<const Conditional> made_from, Work* work) {
  std::vector<Steps> bodies(made_from->bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i)
    if (CUresult r = steps_of(*made_from->bodies[i], &bodies[i])) return r;
  *work = {[made_from, bodies = std::move(bodies)] { return run_chosen(*made_from, bodies); }, made_from};
  return CUDA_SUCCESS;
}

void assign_defaults(const std::vector<CUgraph_st::Condition>& conditions) {
  for (const CUgraph_st::Condition& c : conditions)
    if (c.is_assigned) write(c.handle, c.value);
}

bool has_conditions(const CUgraph_st& graph) {
  return std::ranges::any_of(graph.nodes,
                             [](const auto& n) { return n->type == CU_GRAPH_NODE_TYPE_CONDITIONAL; }) ||
         std::ranges::any_of(graph.children, [](const auto& g) { return has_conditions(*g); });
}

CUresult add_conditional_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              CUDA_CONDITIONAL_NODE_PARAMS* params) {
  if (!node || !exists(graph) || !is_size(params->type, params->size)) return CUDA_ERROR_INVALID_VALUE;
  auto made_from = std::make_shared<Conditional>(Conditional{*params});
  if (!(made_from->condition = memory_of(params->handle))) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::unique_ptr<CUgraph_st>> bodies;
  for (unsigned i = 0; i < params->size; ++i) {
    bodies.push_back(std::make_unique<CUgraph_st>());
    bodies.back()->is_child = true;
    made_from->bodies.push_back(bodies.back().get());
  }
  params->phGraph_out = made_from->params.phGraph_out = made_from->bodies.data();
  Work work;
  if (CUresult r = conditional_work(made_from, &work)) return r;
  if (CUresult r =
          add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_CONDITIONAL, std::move(work)))
    return r;
  std::ranges::move(bodies, std::back_inserter(graph->children));
  return CUDA_SUCCESS;
}

}  // namespace fp4lab::emu::driver

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext,
                                        unsigned value, unsigned flags) {
  if (CUresult r = ready()) return r;
  if (!handle || !exists(graph) || (flags & ~unsigned(CU_GRAPH_COND_ASSIGN_DEFAULT)))
    return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr address = 0;
  auto memory = device_word(&address);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = address;
  write(*handle, value);
  std::lock_guard lock(state().mutex);
  handles()[*handle] = memory;
  graph->conditions.push_back(
      {*handle, std::move(memory), value, (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0});
  return CUDA_SUCCESS;
}
