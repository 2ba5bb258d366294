// cuGraphDebugDotPrint: a graph in Graphviz's language, with the graphs of its nodes as clusters.
#include <fmt/format.h>

#include <fstream>

#include "emulator/driver/graph.h"

using namespace fp4lab::emu::driver;

namespace {

const char* kind(CUgraphNodeType type) {
  constexpr const char* kNames[] = {
      "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
      "WAIT_EVENT",   "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE",
      "BATCH_MEM_OP", "CONDITIONAL"};
  return size_t(type) < std::size(kNames) ? kNames[type] : "?";
}

class Printer {
 public:
  Printer(std::ostream& out, unsigned flags)
      : out_(out), verbose_(flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE), flags_(flags) {}

  void graph(const CUgraph_st& g) {
    const unsigned number = count_++;
    out_ << fmt::format("subgraph cluster_{0} {{\nlabel=\"graph_{0}\" graph[style=\"dashed\"];\n", number);
    std::map<const CUgraphNode_st*, size_t> at;
    for (const auto& node : g.nodes) {
      const size_t i = at.size();
      at[node.get()] = i;
      out_ << fmt::format("\"graph_{}_node_{}\"[style=\"bold\" shape=\"{}\" label=\"{}\\n{}\"];\n", number, i,
                          node->type == CU_GRAPH_NODE_TYPE_KERNEL ? "octagon" : "rectangle", i, label(*node));
    }
    for (const auto& node : g.nodes)
      for (const CUgraphNode_st* need : node->needs)
        out_ << fmt::format("\"graph_{0}_node_{1}\" -> \"graph_{0}_node_{2}\";\n", number, at[need],
                            at[node.get()]);
    for (const auto& child : g.children) graph(*child);
    out_ << "}\n";
  }

 private:
  bool asked(unsigned flag) const { return verbose_ || (flags_ & flag); }

  std::string label(const CUgraphNode_st& node) const {
    const NodeParams& params = node.work.params;
    std::string text = kind(node.type);
    if (const auto* launch = std::get_if<std::shared_ptr<const KernelLaunch>>(&params)) {
      const CUDA_KERNEL_NODE_PARAMS& p = (*launch)->shape;
      text = p.func->function->name;
      if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
        text += fmt::format("\\n\\<\\<\\<({},{},{}),({},{},{}),{}\\>\\>\\>", p.gridDimX, p.gridDimY,
                            p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes);
    } else if (const auto* copy = std::get_if<CUDA_MEMCPY3D>(&params)) {
      if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
        text += fmt::format("\\n{} x {} x {}", copy->WidthInBytes, copy->Height, copy->Depth);
    } else if (const auto* fill = std::get_if<CUDA_MEMSET_NODE_PARAMS>(&params)) {
      if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
        text += fmt::format("\\n{:#x} = {}, {} x {} elements of {}", fill->dst, fill->value, fill->width,
                            fill->height, fill->elementSize);
    } else if (const auto* alloc = std::get_if<CUDA_MEM_ALLOC_NODE_PARAMS>(&params)) {
      if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
        text += fmt::format("\\n{:#x}, {} bytes", alloc->dptr, alloc->bytesize);
    }
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      text += fmt::format("\\n{}", static_cast<const void*>(&node));
    return text;
  }

  std::ostream& out_;
  bool verbose_;
  unsigned flags_, count_ = 1;
};

}  // namespace

CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
  if (CUresult r = ready(false)) return r;
  if (!exists(graph) || !path) return CUDA_ERROR_INVALID_VALUE;
  std::ofstream file(path);
  file << "digraph dot {\n";
  Printer(file, flags).graph(*graph);
  file << "}\n";
  return file.flush() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
