// The state of the emulated driver: one device, its memory, contexts, modules, streams. Handles are pointers
// to these structures; for an unknown handle a call returns the real driver's error.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/driver/handle.h"
#include "emulator/ptx/link_texts.h"
#include "emulator/watch/order.h"
#include "emulator/watch/watchers.h"

struct CUctx_st {
  unsigned flags = 0;
  CUresult sticky = CUDA_SUCCESS;                  // set by a kernel's fault, as on hardware
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;  // for queries only
};

struct CUfunc_st {
  CUmod_st* module = nullptr;
  const fp4lab::emu::Function* function = nullptr;
  uint32_t max_dynamic_shared =
      48 * 1024;  // with the static part; raised by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  bool non_portable_cluster = false;
  std::map<CUfunction_attribute, int> attributes = {};
  fp4lab::emu::driver::Handle<CUfunc_st> handle = this;
};

struct CUmod_st {               // a CUlibrary is one too
  CUctx_st* context = nullptr;  // null for a library: its kernels run in every context
  std::unique_ptr<fp4lab::emu::Module> module;
  std::map<std::string, std::unique_ptr<CUfunc_st>, std::less<>> functions;
  struct Global {
    uint64_t address, size;
  };
  std::map<std::string, Global, std::less<>> globals;
};

using LaunchAttributes = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;

// A launch's own copy of its parameters: cuGraphKernelNodeGetParams returns pointers to it.
struct KernelLaunch {
  CUDA_KERNEL_NODE_PARAMS shape{};  // kernelParams: `pointers`
  LaunchAttributes attributes;
  std::vector<std::byte> block;
  std::vector<void*> pointers;  // into `block`
};

// The condition of a conditional node, and the graphs that it selects.
struct Conditional {
  CUDA_CONDITIONAL_NODE_PARAMS params{};
  std::vector<CUgraph> bodies = {};                 // params.phGraph_out points to them
  std::shared_ptr<const void> condition = nullptr;  // keeps the handle's memory
};

// The parameters from which a graph's node was made, for queries.
using NodeParams = std::variant<std::monostate, std::shared_ptr<const KernelLaunch>, CUDA_MEMCPY3D,
                                CUDA_MEMSET_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUgraph, CUevent,
                                CUDA_MEM_ALLOC_NODE_PARAMS, CUdeviceptr, std::shared_ptr<const Conditional>>;

// Work to do now, or at each launch of a graph.
struct Work {
  std::function<CUresult()> run;
  NodeParams params;

  Work() = default;
  template <std::invocable Run>
  Work(Run body, NodeParams made_from = {}) : run(std::move(body)), params(std::move(made_from)) {}
  explicit operator bool() const { return bool(run); }
  CUresult operator()() const { return run(); }
};

struct CUgraphNode_st {
  CUgraph_st* graph;
  CUgraphNodeType type;
  Work work;
  std::vector<CUgraphNode_st*> needs;  // of the same graph
  CUgraphNode_st* original = nullptr;  // the node that this one was cloned from
  // The data of those edges from `needs` that have any: programmatic dependent launch. Only queries use it,
  // since a kernel begins after the previous one has ended.
  std::map<CUgraphNode_st*, CUgraphEdgeData> edges = {};
  fp4lab::emu::driver::Handle<CUgraphNode_st> handle = this;
};
// An object of the program with a reference count.
struct CUuserObject_st {
  void* object;
  CUhostFn destroy;
  unsigned count;
  fp4lab::emu::driver::Handle<CUuserObject_st> handle = this;
  void release(unsigned n) {
    if ((count -= n)) return;
    destroy(object);
    delete this;
  }
};

// The references held by a graph, or by an instantiated one.
struct HeldObjects {
  std::map<CUuserObject_st*, unsigned> held;
  HeldObjects() = default;
  HeldObjects(const HeldObjects& o) : held(o.held) {
    for (const auto& [object, n] : held) object->count += n;
  }
  HeldObjects& operator=(const HeldObjects&) = delete;
  ~HeldObjects() {
    for (const auto& [object, n] : held) object->release(n);
  }
};

struct CUgraph_st {
  // For a graph that allocates: its last instance, which must be destroyed before the next is made.
  std::weak_ptr<const void> instance = {};
  struct Condition {  // of a handle created for this graph
    CUgraphConditionalHandle handle;
    std::shared_ptr<const void> memory;
    unsigned value;  // at the begin of each launch, if it is assigned
    bool is_assigned;
  };
  // It owns the graphs of its child nodes and the bodies of its conditional nodes.
  std::vector<std::unique_ptr<CUgraph_st>> children = {};
  bool is_child = false;
  std::vector<Condition> conditions = {};
  HeldObjects objects = {};
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // as they were added
  fp4lab::emu::driver::Handle<CUgraph_st> handle = this;
};
struct CUgraphExec_st {
  struct Step {
    const CUgraphNode_st* node;  // of the original graph; an identity, never dereferenced
    CUgraphNodeType type;
    Work work;
    bool enabled = true;
  };
  std::vector<Step> steps;  // in topological order
  std::vector<CUgraph_st::Condition> conditions;
  HeldObjects objects;
  unsigned long long flags = 0;
  std::shared_ptr<const void> instance = {};  // of a graph that allocates
  fp4lab::emu::driver::Handle<CUgraphExec_st> handle = this;
};

// The state of a capture: the graph, and for each of its streams the nodes on which the next one depends.
struct Capture {
  uint64_t id;
  CUgraph graph;                              // its own, or the program's
  std::unique_ptr<CUgraph_st> own = nullptr;  // until the capture ends
  std::set<CUgraphNode> open = {};            // captured nodes without a captured successor
  bool invalid = false;                       // by a call that cannot be captured
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread = {};  // that began it
};

struct CUstream_st {
  CUctx_st* context = nullptr;  // null for the default streams: the current one
  unsigned flags = 0;
  int priority = 0;
  std::shared_ptr<Capture> capture =
      nullptr;                             // null when not capturing; shared by the streams of one capture
  std::vector<CUgraphNode_st*> tail = {};  // while capturing
  // The data of the edges from there to the next node, where the program gave any; missing ones have none.
  std::vector<CUgraphEdgeData> tail_edges = {};
  bool capture_origin = false;
  uint64_t id = 0;
  std::map<int, CUstreamAttrValue> attributes = {};
  // Its last work, if nothing has waited for it since, and the value of State::synchronisations then.
  std::optional<CUgraphNodeType> last_work = {};
  uint64_t synchronised = 0;
};

struct CUevent_st {
  CUctx_st* context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  std::chrono::steady_clock::time_point when = {};
  std::shared_ptr<Capture> capture = nullptr;  // recorded while capturing, after these nodes
  bool is_spent = false;                       // the capture is over: invalid until recorded again
  std::vector<CUgraphNode_st*> tail = {};
};

struct CUmemPoolHandle_st {  // an account: every allocation comes from the same memory
  std::map<CUmemPool_attribute, uint64_t> attributes = {};
  uint64_t max_bytes = 0;  // 0: no limit
  uint64_t used = 0, most_used = 0;
};

namespace fp4lab::emu::driver {

struct HostMemory {
  size_t bytes;
  enum Kind { page_locked, registered, managed } kind;
  unsigned flags;
  // Of managed memory: its advice and its last prefetch target; CU_DEVICE_INVALID for none.
  bool read_mostly = false, accessed_by_device = false;
  int preferred = CU_DEVICE_INVALID, last_prefetch = CU_DEVICE_INVALID;
};

struct State {
  std::recursive_mutex mutex;
  bool initialized = false;
  const DeviceModel* device = nullptr;
  std::atomic<void (*)()> select_by = nullptr;  // fp4lab_emulator_select_by
  std::unique_ptr<GlobalMemory> memory;
  CUctx_st primary;
  unsigned primary_retained = 0;
  std::set<CUctx_st*> contexts;
  std::set<CUmod_st*> modules;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  // Of memory that a context allocated or registered, by its first byte; pools and virtual memory have none.
  std::map<CUdeviceptr, CUctx_st*> owners;
  std::map<CUdeviceptr, HostMemory> host_memory;  // that the driver allocated or registered
  std::set<CUmemoryPool> pools;
  std::set<CUdeviceptr> graph_memory;  // of memory allocation nodes (graph_memory.cpp)
  // The defaults of a fresh context (CUDA C++ Programming Guide: stack 1 KiB, malloc heap 8 MiB).
  std::map<CUlimit, size_t> limits{{CU_LIMIT_STACK_SIZE, 1024},
                                   {CU_LIMIT_PRINTF_FIFO_SIZE, 7 << 20},
                                   {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
                                   {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
                                   {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
                                   {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}};
  CUmemPoolHandle_st default_pool;
  CUmemoryPool pool = &default_pool;  // the device's current one
  struct PoolMemory {
    CUmemoryPool pool;
    uint64_t bytes;
  };
  std::map<CUdeviceptr, PoolMemory> pool_memory;  // allocations of pools
  CUstream_st legacy, per_thread;
  Schedule schedule;
  std::unique_ptr<OrderChecker> checker;  // FP4LAB_CHECK=1
  bool check = false;
  bool goes_on = false;      // after findings of a checked launch: FP4LAB_GO_ON=1
  bool overlapping = false;  // a module has griddepcontrol, or a launch asked for programmatic serialisation
  std::vector<std::unique_ptr<Watcher>> observers;           // fp4lab_emulator_observe, FP4LAB_OBSERVE
  std::string observed_kernels;                              // substring of their names; empty: all
  bool tell_observed = false;                                // on stderr, after each launch
  bool observed_any = false;                                 // such a kernel has been launched
  std::string notes;                                         // of the checker, on the last launch
  std::set<std::pair<std::string, std::string>> told_notes;  // kernel and class, or class and line
  std::string findings;                                      // the same launch's faults and findings as JSON
  std::string label = "module";                              // name of the next module in messages
  Statistics last;                                           // of the last launch, with its wall time
  double last_seconds = 0;
  Statistics all;  // of every launch; counts of opcodes only with FP4LAB_FIDELITY
  double all_seconds = 0;
  bool tell_fidelity = false;  // at the process's end
  uint64_t launches = 0;
  std::atomic<uint64_t> synchronisations = 0;  // of a whole context
  std::string last_report;
  bool quiet = false;
};

State& state();
std::vector<CUctx_st*>& context_stack();  // of the calling thread; the last one is current

// The first step of every entry point: CUDA_ERROR_NOT_INITIALIZED, _INVALID_CONTEXT or the context's sticky
// error.
CUresult ready(bool needs_context = true);
// Lets the program's fat binaries select the device model while no context exists. Must not be called with
// the state locked: the callback has a lock of its own and calls the driver under it.
void select_by_program();
// For calls that a thread without a current context may make too, since their arguments imply the context
// (seen on an H200 with driver 580).
CUresult ready_anywhere();
// For calls on a stream, which has a context of its own; null: the calling thread's.
CUresult ready_on(const CUstream_st* stream);

// The stream of a handle (0, 1 and 2 are the legacy and per-thread streams), or null if it is invalid.
CUstream_st* stream_of(CUstream handle);
bool is_event(CUevent handle);
// The context of a stream's work.
CUctx_st* context_of(const CUstream_st&);

// Does the work now, or adds it to the graph that the stream captures. The emulator runs every stream's work
// at submission, which the stream rules always allow.
CUresult submit(CUstream handle, CUgraphNodeType type, Work work);

// The host or managed memory that contains an address, or null. Called with the state locked.
HostMemory* host_memory(CUdeviceptr);

// Allocates and frees device memory; `call` is the caller's name, for messages.
CUresult allocate_device(CUdeviceptr* pointer, size_t bytes, const char* call);
CUresult free_device(CUdeviceptr pointer);

// Returns memory to the pool that it is charged to; no effect for other memory. Called with the state locked.
void leave_pool(CUdeviceptr pointer);

// A checked launch, to be run now or later. The parameters are read from `params` or `extra` here; of the
// attributes only the cluster and whether it is cooperative change what it does. `behind_kernel`: in its
// stream or graph, so that it may begin early where its attributes allow it.
constexpr uint64_t kOfGraphs = 0;  // in place of a stream
CUresult prepare_launch(const CUDA_KERNEL_NODE_PARAMS&, const LaunchAttributes&, Work* work,
                        bool behind_kernel = true, uint64_t stream = kOfGraphs);

// capture.cpp. Whether a stream captures into the graph, which then keeps its nodes and is not destroyed
// (CUDA Driver API, cuStreamGetCaptureInfo).
bool is_captured(const CUgraph_st& graph);
// Removes streams and events from the capture.
void leave_capture(std::shared_ptr<Capture> capture);
// A call that concerns every stream invalidates all captures in progress. False: there is none.
bool invalidate_captures();
// The error of calls (allocations, for instance) that conflict with captures in progress, which become
// invalid (CUDA Driver API, cuThreadExchangeStreamCaptureMode).
CUresult refuse_in_capture();
// Work on the legacy stream waits for all streams except non-blocking ones. Those that capture cannot be
// waited for: their captures become invalid. False: there is none.
bool meets_legacy_stream();
// Whether a stream that the legacy one waits for is capturing.
bool is_capturing_beside_legacy();

// Whether all are nodes of the graph.
bool has_nodes(CUgraph graph, const CUgraphNode* nodes, size_t count);

// The work that records the event.
Work record_work(CUevent event);

// Adds a node after `needs`, which are nodes of the same graph. Its work runs when the graph is launched.
CUgraphNode add_node(CUgraph_st& graph, CUgraphNodeType type, Work work, std::vector<CUgraphNode_st*> needs);

// The same for a caller's lists, which are checked.
CUresult add_checked_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs, size_t count,
                          CUgraphNodeType type, Work work);

// Whether it has allocation or free nodes. Such a graph cannot be cloned, loses no node or edge, and has one
// instance at a time (CUDA Driver API, cuGraphAddMemAllocNode).
bool allocates(const CUgraph_st& graph);

// The parameters from which the node was made, if they are a T.
template <class T>
CUresult params_of(CUgraphNode node, T* out) {
  if (CUresult r = ready(false)) return r;
  const T* params = exists(node) ? std::get_if<T>(&node->work.params) : nullptr;
  if (!params || !out) return CUDA_ERROR_INVALID_VALUE;
  *out = *params;
  return CUDA_SUCCESS;
}

// Memory of a graph's allocation node, at one address for all launches. It lives as long as the work that
// allocates it, which fills it with poison, and which the node shares with instances of the graph. A free
// only means that it is unused until the next launch.
CUresult graph_allocation(size_t bytes, CUDA_MEM_ALLOC_NODE_PARAMS* params, Work* work);

// The cluster that the kernel was compiled with, or that its attributes request; all zeros: any.
fp4lab::emu::Dim3 required_cluster(const CUfunc_st&);
uint32_t largest_cluster(const CUfunc_st&);

// Destroys a module that is no longer registered anywhere.
void free_module(CUmodule);

// Implements cuModuleLoad and cuLibraryLoadFromFile, with the JIT's options.
CUresult load_file(CUmodule* module, const char* path, unsigned count, CUjit_option* options, void** values);

// Prints an explanation of an error code to stderr; returns the code.
CUresult explain(CUresult code, const std::string& text);

CUresult result_of(FaultKind kind);

void tell_fidelity_at_exit();  // one line on stderr

// FP4LAB_OBSERVE: one argument of fp4lab_emulator_observe per line. The results are printed to stderr after
// each launch of a kernel whose name contains FP4LAB_OBSERVE_KERNEL. Throws fp4lab::Error.
void observe_by_environment();
bool is_observed(const CUfunc_st&);
void tell_observed(const CUfunc_st&);

// The kernel image of a module-load call: PTX text, or the PTX in a fatbin. If there is none, an empty text
// and a reason.
struct Image {
  std::string ptx, reason;
  CUresult code = CUDA_ERROR_NO_BINARY_FOR_GPU;  // of the reason
};
Image read_image(const void* image, size_t bytes_or_zero);
// Links several texts to one; a single one is unchanged.
Image linked(std::span<const PtxText>);

// Whether PTX for that target ("sm_90a") can run on the device.
bool runs_on(std::string_view target, const fp4lab::emu::DeviceModel&);

}  // namespace fp4lab::emu::driver
