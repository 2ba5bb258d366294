// Instantiated graphs: their steps run one at a time in topological order.
#include <algorithm>
#include <set>

#include "emulator/driver/graph.h"

using namespace fp4lab::emu::driver;

namespace {

// The nodes in topological order, earlier additions first. Shorter than the graph if it has a cycle.
std::vector<CUgraphNode> in_order(const CUgraph_st& graph) {
  std::vector<CUgraphNode> order;
  std::set<CUgraphNode> done;
  for (size_t before = 1; before != order.size() && order.size() < graph.nodes.size();) {
    before = order.size();
    for (const auto& node : graph.nodes) {
      const auto ready = [&](CUgraphNode n) { return done.contains(n); };
      if (done.contains(node.get()) || !std::ranges::all_of(node->needs, ready)) continue;
      order.push_back(node.get());
      done.insert(node.get());
    }
    if (order.size() == before) break;
  }
  return order;
}

// A capturing stream accepts no launch of another graph (seen on an H200 with driver 580).
CUresult may_launch(CUgraphExec exec, CUstream handle) {
  if (CUresult r = ready_anywhere()) return r;
  if (!exists(exec)) return CUDA_ERROR_INVALID_VALUE;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_SUCCESS;
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace

namespace fp4lab::emu::driver {

CUresult steps_of(const CUgraph_st& graph, Steps* steps) {
  const std::vector<CUgraphNode> order = in_order(graph);
  if (order.size() < graph.nodes.size()) return CUDA_ERROR_INVALID_VALUE;  // a cycle
  for (const CUgraphNode node : order) {
    steps->push_back({node, node->type, node->work});
    Work& work = steps->back().work;
    if (const auto* child = std::get_if<CUgraph>(&node->work.params))
      if (CUresult r = child_work(*child, &work)) return r;
    if (const auto* chooses = std::get_if<std::shared_ptr<const Conditional>>(&node->work.params))
      if (CUresult r = conditional_work(*chooses, &work)) return r;
  }
  return CUDA_SUCCESS;
}

CUresult run_steps(const Steps& steps) {
  for (const auto& step : steps)
    if (step.enabled && step.work)
      if (CUresult r = step.work()) return r;
  return CUDA_SUCCESS;
}

CUresult child_work(CUgraph child, Work* work) {
  Steps steps;
  if (CUresult r = steps_of(*child, &steps)) return r;
  *work = {[steps = std::move(steps)] { return run_steps(steps); }, child};
  return CUDA_SUCCESS;
}

CUresult change(CUgraphNode node, CUgraphNodeType type, Work work) {
  if (CUresult r = ready(false)) return r;
  if (!exists(node) || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

CUgraphExec_st::Step* step_of(CUgraphExec exec, CUgraphNode node) {
  if (exists(exec) && node)
    for (CUgraphExec_st::Step& step : exec->steps)
      if (step.node == node) return &step;
  return nullptr;
}

CUresult replace(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, Work work) {
  CUgraphExec_st::Step* step = step_of(exec, node);
  if (!step || step->type != type) return CUDA_ERROR_INVALID_VALUE;
  step->work = std::move(work);
  return CUDA_SUCCESS;
}

}  // namespace fp4lab::emu::driver

// The flags select how it is launched and uploaded; here there is only one way.
static CUresult instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  constexpr unsigned long long kKnown =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (CUresult r = ready_anywhere()) return r;
  if (!exec || !exists(graph) || (flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = refuse_in_capture()) return r;
  auto made = std::make_unique<CUgraphExec_st>(Steps{}, graph->conditions, graph->objects, flags);
  if (allocates(*graph) && !graph->instance.expired())
    return explain(CUDA_ERROR_NOT_SUPPORTED,
                   "a graph that allocates or frees can only have one instance at a time");
  if (CUresult r = steps_of(*graph, &made->steps)) return r;
  if (allocates(*graph)) graph->instance = made->instance = std::make_shared<char>();
  *exec = made.release();
  return CUDA_SUCCESS;
}
// Only cuGraphInstantiateWithParams has a stream for the upload.
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) return CUDA_ERROR_INVALID_VALUE;
  return instantiate(exec, graph, flags);
}
#undef cuGraphInstantiate
extern "C" CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*,
                                                  size_t) {
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  const CUresult r = instantiate(exec, graph, params->flags);
  params->hErrNode_out = nullptr;
  params->result_out = r ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return r;
}
CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  if (CUresult r = ready(false)) return r;
  if (!exists(exec) || !flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

// The same graph with other parameters: nodes must agree in number and kind. Node handles stay those of the
// instantiated graph.
extern "C" {
#undef cuGraphExecUpdate
CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  if (CUresult r = ready(false)) return r;
  if (!exists(exec) || !exists(graph)) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo ignored;
  if (!info) info = &ignored;
  *info = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
  Steps steps;
  const auto refuse = [&](CUgraphExecUpdateResult why, const CUgraphNode_st* node) {
    *info = {why, const_cast<CUgraphNode>(node), nullptr};
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  };
  if (steps_of(*graph, &steps) || steps.size() != exec->steps.size())
    return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].type != exec->steps[i].type)
      return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, steps[i].node);
  for (size_t i = 0; i < steps.size(); ++i) exec->steps[i].work = std::move(steps[i].work);
  exec->conditions = graph->conditions;
  return CUDA_SUCCESS;
}
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  CUgraphExec_st::Step* step = step_of(exec, node);
  if (!step) return CUDA_ERROR_INVALID_VALUE;
  step->enabled = enabled != 0;
  return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  const CUgraphExec_st::Step* step = step_of(exec, node);
  if (!step || !enabled) return CUDA_ERROR_INVALID_VALUE;
  *enabled = step->enabled;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (CUresult r = ready(false)) return r;
  if (!exists(exec)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = refuse_in_capture()) return r;
  delete exec;
  return CUDA_SUCCESS;
}
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) { return may_launch(exec, stream); }
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (CUresult r = may_launch(exec, stream)) return r;
  return submit(stream, CU_GRAPH_NODE_TYPE_GRAPH, [steps = exec->steps, conditions = exec->conditions] {
    assign_defaults(conditions);
    // A graph begins when what its stream did before is over.
    if (State& s = state(); s.checker) s.checker->forget(kOfGraphs);
    return run_steps(steps);
  });
}
