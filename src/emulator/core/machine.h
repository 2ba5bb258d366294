// Grid, cluster, CTA, SM: who owns which memory, and the rounds in which they run.
//
// A launch proceeds in rounds. In the parallel phase every resident cluster runs on some host thread for a
// bounded number of steps, choosing with its own random generator (seed, cluster id) between its runnable
// warps and its pending asynchronous operations; clusters share only global memory. Strong accesses to global
// memory (atomics, volatile, acquire/release), cluster launch control and the start of new CTAs happen in the
// serial phase between two rounds, in an order drawn from the seed. So a run depends on the seed alone, not
// on the number of host threads.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/core/async.h"
#include "emulator/core/warp.h"

namespace fp4lab::emu {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

// What a device is; one row per target in core/device.cpp (B200: 148 SMs, H200: 132).
struct DeviceModel {
  const char* name;  // "NVIDIA B200", what cuDeviceGetName returns
  int major, minor;
  unsigned sms;
  uint32_t shared_per_sm, shared_per_cta_optin, threads_per_sm, ctas_per_sm, registers_per_sm;
  uint32_t tmem_columns;  // 0 on Hopper
  // Where ptxas has a kernel's parameters begin in their constant bank (EIATTR_PARAM_CBANK): each is aligned
  // there, so an over-aligned one may lie further on in the driver's block than in the PTX.
  uint32_t param_bank;
  uint32_t max_cluster;  // 8 portable, 16 with the non-portable attribute
  uint64_t memory_bytes, l2_bytes;
  uint32_t clock_khz, memory_clock_khz, memory_bus_bits;
  std::array<uint8_t, 12> gpc_sms;  // SMs of each GPC (a cluster lies within one), 0 after the last
};

// By short name, "b200" or "h200"; null when there is none. The names: "b200, h200".
const DeviceModel* device_model(std::string_view name);
const DeviceModel* device_model(int major, int minor);  // by compute capability
std::string device_model_names();
std::vector<const DeviceModel*> device_models();

struct Schedule {
  enum class Kind : uint8_t {
    adversarial,
    eager
  } kind = Kind::adversarial;  // eager: asynchronous operations complete at issue
  uint64_t seed = 0;
  unsigned threads = 0;  // host threads; 0 = all cores. The run does not depend on it
  // True: the following are notes instead of faults, since public programs that are right on hardware do
  // them.
  //
  // Reads of undefined values give poison. An ordinary load or atomic of unwritten shared memory (DeepGEMM
  // reads the unused end of its scale buffers), a register that no path has written (CUTLASS's Blackwell
  // schedulers compute with some and discard the result), a matrix product or a copy out of unwritten shared
  // memory, tensor memory that is not allocated. A register whose result is still pending stays a fault.
  //
  // Addresses: a .shared address where a generic one is required (ptxas takes the low 32 bits for mbarriers:
  // Triton's tcgen05.commit); a bulk prefetch beyond an allocation, a read past its end within its page, an
  // atomic across its end.
  //
  // Exits: an arrival on an mbarrier of an exited CTA does nothing; a tcgen05 operation that is pending when
  // its CTA exits is dropped; lanes that exit are not missed at a barrier.
  //
  // Order: the warps of a cluster take turns of about 32 instructions, and their tensor-core operations run
  // in issue order. A copy from global memory, which takes longer than a product, lands after the products
  // issued before it (TileLang's code frees a slot without a tcgen05.commit). cp.async.bulk.wait_group.read
  // waits for the writes too (HPC-Ops relies on it). The CTAs of a pair advance in step
  // (Cluster::ranks_that_go_on), and a bulk store reads soon after its issue (Cluster::overdue_store).
  //
  // Others: a copy uses its tensor map as it was at issue, even if the program has written into it; a launch
  // control request after one that failed; mbarrier.inval where there is no mbarrier; a parity beyond 1.
  bool tolerant = false;
  // A run is hung after this many warp instructions of polling alone (only pollers ran, and saw no change),
  // or of one cluster that never synchronised.
  uint64_t poll_limit = 20'000'000, silence_limit = 40'000'000'000;
  uint32_t round_steps = 8192;  // warp instructions of a cluster per round, about
  // A read of what nobody wrote gives poison and an error (Tolerated::error), and the launch
  // goes on, so that it shows what else is wrong. And what goes beyond an allocation, or comes to a CTA that
  // has exited, is an error where it would be a note.
  bool checked = false;
  uint64_t step_limit = 0;  // warp instructions of a launch, 0: none
  // Asked once a round: why the launch is to stop, with a report of where every warp stands; empty: it goes
  // on.
  struct Round {
    const std::string& kernel;
    uint64_t done, clusters;  // of the grid's clusters
  };
  std::string (*each_round)(const Round&) = nullptr;
};

struct LaunchConfig {
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared = 0;
  std::vector<std::byte> params;
  bool cooperative = false;
  // Programmatic dependent launch, for watchers alone, since launches run one after the other: whether it may
  // begin before the launch in front of it in this stream is over, and whether the next one may do that to
  // it.
  bool early = false, may_overlap = false;
  uint64_t stream = 0;
};

struct Statistics {  // of one launch; collected with or without a watcher
  uint64_t warp_instructions = 0, async_ops = 0, rounds = 0;
  uint64_t tma_bytes = 0, mma_count = 0;                      // engines add to their cluster's statistics
  std::vector<std::pair<const Opcode*, uint64_t>> by_opcode;  // what was executed, for the fidelity line
  std::vector<std::vector<uint64_t>> by_pc;                   // [function][pc] executions
};
// "every executed instruction is exact", or the measured and modelled ones with their counts.
std::string fidelity(const Statistics&);

class Grid;

// A fault that the schedule tolerates: a note.
struct Tolerated {
  FaultKind kind{};
  std::string report;
  uint32_t line = 0;   // of the PTX
  std::string source;  // the CUDA line, "file:line", or empty
  bool error = false;  // see Schedule::checked
  uint64_t count = 1;
  uint64_t cluster = 0;  // whose this is: the first one's that had it
};

// What co-resident CTAs share. Tensor memory lives here: 128 lanes x 512 columns of 32-bit cells, allocated
// by column.
struct Sm {
  unsigned id = 0;
  uint32_t shared_used = 0, threads_used = 0, ctas = 0;
  std::unique_ptr<struct TensorMemory> tmem;  // core/tmem.h; made at a CTA's start or tcgen05.alloc
  Sm();
  ~Sm();
};

// One CTA: its shared-memory window and its warps. The engines' state per CTA (mbarriers, named barriers,
// bulk groups, tensor-memory allocations) is cta_state.h's CtaState, which the core only creates and
// destroys.
class Cta {
 public:
  Cta(Cluster&, uint32_t rank, Dim3 index, Sm&);
  ~Cta();

  Cluster& cluster;
  const uint32_t rank;  // %cluster_ctarank
  const Dim3 index;     // %ctaid
  Sm& sm;
  std::vector<std::byte>
      shared;  // the whole window: [0, kReservedShared) reserved, static, then dynamic; poisoned
  std::vector<std::unique_ptr<Warp>> warps;
  unsigned live_warps = 0;
  bool exited = false;
  std::unique_ptr<struct CtaState> state;

  // Which bytes of shared memory were ever written (one bit per byte).
  bool is_defined(uint32_t offset, uint32_t bytes) const;
  void define(uint32_t offset, uint32_t bytes);
  void undefine(uint32_t offset, uint32_t bytes);
  // Whether these bytes of the window belong to the program.
  bool owns(uint32_t offset, uint32_t bytes) const;
  // Bounds-checked view for engines. Faults (illegal_address) with the offset and the window's size; `what`
  // names the accessor.
  std::byte* window(uint32_t offset, uint32_t bytes, const char* what);
  // The 32-bit shared address of an offset of this CTA: (rank << 24) + offset.
  uint32_t address_of(uint32_t offset) const { return (rank << kRankShift) + offset; }
  std::string name() const;  // "CTA (3,0,0)", with "rank 1 of cluster 5" when it is in one

 private:
  std::vector<uint64_t> defined_;
};

// A cluster (a lone CTA is a cluster of one): the unit that one host thread runs at a time.
class Cluster {
 public:
  // The CTAs are created when the cluster first runs, on the host thread that runs it.
  Cluster(Grid&, uint64_t id, Dim3 first_cta, std::span<Sm* const> sms);
  ~Cluster();

  Grid& grid;
  const uint64_t id;
  std::vector<std::unique_ptr<Cta>> ctas;  // by rank
  std::mt19937_64 rng;                     // seeded with (seed, id)
  Watcher* watcher;                        // null: none
  Statistics statistics;                   // engines add what they do

  // Hands an operation to the engines; sets its origin, CTA, warp, lane and sequence. With Schedule::eager it
  // runs before submit returns (unless it is serial or waits for an earlier one of its queue). Operations of
  // other CTAs of the cluster are submitted to the same cluster.
  void submit(std::unique_ptr<AsyncOp>, Warp&, const Instr&, unsigned lane);
  // Queues the rest of the running operation as an operation of its own that keeps the place in the queue.
  void defer(std::unique_ptr<AsyncOp> rest, const AsyncOp& of);
  // Runs the pending operations of one warp that have this name, now.
  void finish_now(const Warp&, std::string_view name);
  // Records a tolerated fault as a note of the launch: the first of each class for each instruction.
  void tolerated(const struct Fault&, const Warp&);
  void tolerated(const struct Fault&, const AsyncOp&);
  // A note where the schedule tolerates faults like this one, else the fault.
  void note_or_throw(const struct Fault&, const Warp&);
  void note_or_throw(const struct Fault&, const AsyncOp&);
  // Whether a warp can execute something, now or after its wait is checked again.
  bool can_run(uint32_t rank, uint32_t warp) const;
  // Whether every runnable warp has had its chance since turn number `turn`: it reached a wait or a poll, or
  // executed kChance instructions.
  bool all_moved_since(uint64_t turn) const;
  // Whether each has had a turn since then (see in_turn), and since its wait ended.
  bool all_awake_since(uint64_t turn) const;
  uint64_t turns() const { return turns_; }
  // A new event number, higher than those of all earlier events.
  uint64_t next_event() { return ++events_; }
  // Whether the copy from global memory must wait for a product that was issued before it. Only with a
  // tolerant schedule (see Schedule).
  bool behind_product(const AsyncOp& copy) const;
  // Whether `op`, of the tensor pipe, would write tensor memory before an older tcgen05.ld, or before the
  // runnable warps have had their chance since its issue. Hardware takes longer than that, so a tolerant
  // schedule delays it: in some epilogues one warp frees an accumulator or scale columns for all four, which
  // are a few instructions short of their last loads.
  bool at_once(const AsyncOp& op) const;
  // The CTAs, one bit per rank, that can continue or wait for copies of their own. Some kernels do the same
  // in both CTAs of a pair and have no barrier before the product that reads both CTAs' memory; they rely on
  // the two running in step (gqa_v21 of sanjaykrishnablubridge-bit/Blackwell). With a tolerant schedule such
  // a product first lets the other CTA run as far as it can.
  uint32_t ranks_that_go_on() const;
  // Number of unfinished operations that satisfy the predicate (for wait_group, tcgen05.wait, reports). A
  // running operation counts until its run() has returned true.
  template <class P>
  unsigned pending(P&& predicate) const {
    unsigned n = 0;
    for (const auto& op : ops_) n += op && predicate(*op);
    return n;
  }
  // To be called by engines and barrier bodies when something changed that a parked group may wait for: the
  // waits are polled again.
  void notify() { changed_ = true, ++progress_, silent_since_ = clock_; }
  // The CTA of a 32-bit shared::cluster address; faults when the rank does not exist or its CTA has exited.
  Cta& owner(uint32_t shared_address, const char* what);
  // Host address of global memory for an engine; faults (illegal_address) unless one live allocation holds it
  // all.
  std::byte* global(uint64_t address, uint64_t bytes, const char* what);
  // Virtual time: steps of this cluster. It never decreases, and depends on the seed alone.
  uint64_t clock() const { return clock_ + (running_ ? running_->instructions - turn_begin_ : 0); }
  // The value of %clock and %globaltimer.
  uint64_t read_clock(const Warp&);
  bool finished() const;

 private:
  void tolerated(const struct Fault&, const Instr* at, const Warp*, const AsyncOp*);
  // A read of what is not there yet: who writes it is looked for, and told in the note's report, or in the
  // failure's. At most kQuestions at
  // a time.
  struct Question {
    const Cta* cta;
    uint32_t offset;
    const Warp* reader;
    Tolerated* note;  // null: the failure
    uint64_t until;   // turns_
  };
  static constexpr size_t kQuestions = 4;
  void ask(const struct Fault&, const Warp* w, const AsyncOp* op, Tolerated* note);
  void answer(const AsyncOp::Counted&, const Instr* at, uint32_t function, const Cta&, unsigned warp,
              bool async);
  void look_ahead(const Warp& without);
  uint32_t function_of(const Instr*) const;
  friend class Scheduler;
  friend class Grid;
  friend class Warp;
  // The policy by which this cluster orders runnable work; drawn from the seed, and redrawn from time to
  // time.
  struct Policy {
    enum class Warps : uint8_t { uniform, rotate, stay, starve_one } warps;
    enum class Ops : uint8_t { uniform, first, last } ops;
    uint32_t burst, lifetime, victim;
  };
  void start();
  void draw_policy();
  void run(uint64_t steps);            // the parallel phase of one round
  void run_serial(Warp&, LaneGroup&);  // one instruction that waits for the serial phase
  void run_serial_ops();
  void run_op(AsyncOp*);
  AsyncOp* eligible(
      size_t index) const;  // the operation that runs when `index` is chosen: first of its queue
  AsyncOp* choose_op(bool held_too);
  AsyncOp* overdue_store();
  bool turn(uint64_t& left);  // false: only pollers are runnable, and they have polled enough
  bool operation_due(size_t runnable);
  size_t next_warp();
  size_t in_turn(size_t pick);
  void warp_turn(size_t pick, uint64_t& left);
  void poll();
  void enqueue(Warp&);
  void warp_exited(Warp&);
  bool dropped_at_exit(const Warp&, const AsyncOp&);
  uint64_t random(uint64_t below);
  template <class F>
  void guarded(F&&);  // runs f; a Fault becomes failure_, with its place

  std::vector<std::unique_ptr<AsyncOp>> ops_;  // pending, in issue order
  uint64_t next_sequence_ = 0;
  bool changed_ = false, wants_serial_ = false, clock_read_ = false;
  std::vector<Warp*> runnable_;
  std::vector<AsyncOp*> serial_ops_;  // due: they run in the next serial phase
  Policy policy_{};
  uint32_t idle_turns_ = 0, rotate_ = 0;
  uint64_t idle_since_ = 0;              // turns_ when idle_turns_ was last 0
  uint64_t clock_ = 0, turn_begin_ = 0;  // turn_begin_: of the running warp's instructions
  uint64_t events_ = 0;                  // see next_event
  uint64_t turns_ = 1;                   // of warps, so far
  uint64_t round_turn_ = 0;              // the turn when the current round of turns began, see in_turn
  uint64_t progress_ = 0;                // counts everything but polling
  uint64_t silent_since_ = 0;            // clock_ of the last synchronisation
  uint32_t patience_ = 1;                // rounds to sleep next time; 0: not worth it
  AsyncOp* running_op_ = nullptr;
  Warp* running_ = nullptr;
  std::unique_ptr<struct Failure> failure_;
  std::vector<Question> questions_;
  uint64_t* counts_ = nullptr;  // of the host thread that runs this cluster: executions by pc
  GlobalMemory::Range recent_ranges_[4];
  uint32_t next_range_ = 0;
  Dim3 first_;            // %ctaid of rank 0
  std::vector<Sm*> sms_;  // by rank
};

// One launch.
class Grid {
 public:
  Grid(const Module&, const Function&, const LaunchConfig&, const DeviceModel&, GlobalMemory&,
       const Schedule&, Watcher*);
  ~Grid();

  const Module& module;
  const Function& function;
  const LaunchConfig& config;
  const DeviceModel& device;
  GlobalMemory& memory;
  Schedule schedule;
  Watcher* watcher = nullptr;
  std::mutex notes_mutex;
  std::map<std::pair<const Instr*, FaultKind>, Tolerated> notes;
  Statistics statistics;

  // Cluster launch control: takes one cluster that has not started yet. Only in the serial phase. False: none
  // is left.
  bool steal_cluster(Dim3& first_cta);
  bool in_serial_phase() const { return serial_; }
  Dim3 cluster_grid() const;  // %nclusterid
  uint32_t shared_bytes() const {
    return shared_bytes_;
  }  // of one CTA's window: reserved, static and dynamic
  // Whether the kernel asks for the address of the system's shared memory, and so may access the first
  // kLentShared bytes.
  bool lends_shared() const { return lends_shared_; }
  // The address in %envreg1 and %envreg2 for a cooperative launch: two zeroed words. grid.sync() of
  // cooperative_groups counts arrivals in the second (cooperative_groups/details/driver_abi.h). 0 otherwise.
  uint64_t workspace() const { return workspace_; }
  // Strong accesses in the serial phase that changed memory. memory() and engines call it before they return
  // the address.
  void watch_change(std::byte* place, uint32_t bytes);

 private:
  friend class Scheduler;
  friend class Cluster;
  friend class Warp;
  Dim3 first_cta(uint64_t cluster) const;
  bool serial_ = false;
  uint32_t shared_bytes_ = 0, register_file_bytes_ = 0;
  bool lends_shared_ = false;
  uint64_t clusters_ = 0, next_cluster_ = 0, workspace_ = 0;
  uint64_t clock_ahead_ = 0;  // sum of %clock's leaps
  // Register files of exited warps, for reuse: their constants are still right.
  std::byte* take_file();  // null: there is none
  void give_file(std::byte*);
  std::mutex files_mutex_;
  std::vector<std::byte*> free_files_;
  struct Snapshot {
    std::byte* place;
    uint32_t bytes;
    std::byte before[16];
  };
  std::vector<Snapshot> snapshots_;
  std::vector<uint32_t> code_base_;  // of each function in a host thread's counts
};

struct LaunchResult {
  bool ok = true;
  FaultKind kind{};
  uint32_t line = 0;   // of the PTX, where one instruction is to blame
  std::string source;  // of the CUDA text, or empty
  std::string report;  // complete text: what, kernel, CTA, warp, lane, PTX line with caret, CUDA line, the
                       // waiting warps on deadlock
  Statistics statistics;
  std::string notes;   // what was tolerated, see Schedule: the first place, and how many more; or empty
  std::string errors;  // the same of what is an error under Schedule::checked
  std::vector<Tolerated> tolerated;  // all of it, one for each instruction and class
};

// Runs a kernel to its end on the calling thread plus the schedule's worker threads. Throws fp4lab::Error,
// with the values, before anything runs if the device would refuse the launch (block too large, cluster that
// does not divide the grid, too much shared memory, missing parameter bytes). A watcher that is not
// thread_safe() makes the launch use one host thread.
LaunchResult launch(const Module&, const Function&, const LaunchConfig&, const DeviceModel&, GlobalMemory&,
                    const Schedule&, Watcher* = nullptr);

// How many clusters of this shape the device holds at a time (cuOccupancyMaxActiveClusters, cooperative
// launches).
uint64_t resident_clusters(const Function&, const LaunchConfig&, const DeviceModel&);

}  // namespace fp4lab::emu
