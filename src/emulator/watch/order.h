// Is every two accesses' order settled by the program, and not only by this run's luck?
//
// The checker follows what happens before what, in the sense of PTX's memory model (PTX ISA chapter 8): each
// thread and each asynchronous operation carries a clock of what it knows to be over, and passes it on
// through mbarriers, named and cluster barriers, bar.warp.sync, commits, tcgen05.wait, bulk groups and
// atomics. Two accesses to the same byte, one of them a write, that no such chain connects are a race,
// whatever values this schedule gave. Beyond the chain it wants the proxy fence between generic writes and
// the async proxy, the fence behind mbarrier.init, and the tensor-map proxy's acquire.
//
// What it reports is an error, except where all shipped kernels do without what the manual asks for: notes
// are tcgen05.fence missing (the wait or commit is there), tcgen05.cp after an MMA that reads the same
// scales, asynchronous overwriting of what a generic read has read without a proxy fence between, and a CTA's
// end behind a bulk store that may not have read its shared memory yet.
//
// Not seen: a read of global memory before the first write of the launch to the same 4 KiB; a proxy fence of
// shared memory where one of global memory is due; what other launches do at the same time, but for those
// that programmatic dependent launch lets overlap (order_launch.cpp).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/core/watch.h"

namespace fp4lab::emu {

namespace order {
struct Actor;
struct Place;
struct ClusterState;
struct OpState;
struct StreamInfo;
struct WarpState;
struct BarrierState;
struct Knowledge;
struct Sum;
struct SyncVariable;
struct Traits;
}  // namespace order
struct Touch;
struct Cell;
class SharedClock;

class OrderChecker final : public Watcher {
 public:
  OrderChecker();
  ~OrderChecker() override;

  // One of the two accesses: what it does ("st.shared.u32"), who does it ("warp 1, lane 0 of CTA (2,0,0)"),
  // where.
  struct Party {
    std::string does, who, ptx, cuda;  // ptx: "file.ptx:12", cuda: "gemm.cu:88, called at ..." or empty
    uint32_t line = 0;
    std::string source;  // the PTX line
  };
  struct Finding {
    bool error;
    uint64_t count;
    std::string kind;  // "race", "missing-proxy-fence", ...: see notes/checkers.md
    std::string what, kernel, place, needs;
    std::string belongs;  // the lines between which what is missing would stand, and the mbarriers' lines
    Party first, then;
    std::string text() const;  // several lines
  };
  // Of the latest launch, errors first; the same two instructions are one finding.
  std::vector<Finding> findings() const;
  uint64_t errors() const { return errors_; }
  uint64_t notes() const { return notes_; }
  // Texts of the errors, or of the notes; those of one class are folded. Empty when there are none.
  std::string report(bool errors) const;
  struct FoldedNotes {
    std::string kind, text, needs;  // text: one line, with the first one's places and how many more there are
  };
  std::vector<FoldedNotes> folded_notes() const;

  // Launches that may overlap with the next one: of a module that is unloaded, or of a stream that nobody
  // overlaps.
  void forget(const Module&);
  void forget(uint64_t stream);

  bool thread_safe() const override { return true; }
  void launch_begin(const Grid&) override;
  void launch_end(const Grid&) override;
  void access(const Access&) override;
  void tmem(const TmemAccess&) override;
  void barrier(const BarrierEvent&) override;
  void fence(Warp&, const Instr&) override;
  void issue(Warp&, const AsyncOp&) override;
  void complete(const AsyncOp&) override;
  void cta_start(Cta&) override;
  void warp_exit(Warp&) override;
  void exit_before_read(Cta&, const AsyncOp&) override;
  void cta_exit(Cta&) override;

 private:
  enum class Class : uint8_t {
#define ORDER_CLASS(id, name, severity, what) id,
#include "emulator/watch/order_classes.def"
#undef ORDER_CLASS
  };
  static const char* name_of(Class);
  static bool is_error(Class);
  using Cluster = order::ClusterState;
  Cluster& of(const Cta&);
  uint32_t site(uint32_t function, const Instr&) const;
  uint32_t site(const Warp&) const;
  const order::Traits& traits(const Warp&) const;

  enum class Reach : uint8_t { all, streams, narrow_streams };
  void publish(order::Sum&, Cluster&, order::WarpState&, uint32_t lanes, Reach);
  static void raise_own(order::Sum&, const order::WarpState&, uint32_t lanes);
  static void acquire(order::WarpState&, uint32_t lanes, const SharedClock& from,
                      SharedClock order::Knowledge::*field, uint32_t first);
  static void acquire(order::WarpState&, uint32_t lanes, const order::Knowledge& from, uint32_t first);
  static void acquire(order::WarpState&, uint32_t lanes, const order::Sum& from);
  order::Knowledge together(const order::WarpState&, uint32_t lanes);
  void warp_sync(order::WarpState&, uint32_t lanes);
  void synchronise(const Access&, order::WarpState&);
  void note_point(order::WarpState&, const BarrierEvent&) const;
  void bar_arrive(Cluster&, order::WarpState&, const BarrierEvent&);
  void bar_done(Cluster&, order::WarpState&, const BarrierEvent&);
  void cluster_arrive(Cluster&, order::WarpState&, const BarrierEvent&);
  void cluster_done(Cluster&, order::WarpState&, const BarrierEvent&);
  static void wgmma_waited(Cluster&, order::WarpState&, const BarrierEvent&);
  void group_waited(Cluster&, order::WarpState&, const BarrierEvent&) const;
  void issue_wgmma(order::OpState&, Cluster&, order::WarpState&, const Warp&);

  void mbarrier(const BarrierEvent&);
  void initialise(Cluster&, order::BarrierState&, const BarrierEvent&);
  void engine_arrives(Cluster&, order::BarrierState&, const BarrierEvent&, order::OpState&);
  void thread_arrives(Cluster&, order::BarrierState&, const BarrierEvent&);
  void phase_over(Cluster&, order::BarrierState&);
  void waited(Cluster&, order::BarrierState&, const BarrierEvent&);
  void thread_uses(Cluster&, const order::BarrierState&, const BarrierEvent&);
  void check_init(const order::BarrierState&, const order::Actor&, const Cta&, uint32_t address,
                  uint32_t site);
  void fence_of_map(Warp&, const Instr&);

  void generic(const Access&);
  void deliver(order::OpState&, Cluster&, uint32_t stream, uint32_t number);
  void check_exit(Cta&);
  void grid_waited(Cluster&, order::WarpState&, const Warp&);
  void dependents_launched(Cluster&, const Cta&);
  void keep_accesses(const Grid&);
  void meet_past(const order::Actor&, const Touch& now, uint64_t address, uint32_t bytes);
  bool knows_grid_wait(const order::Actor&) const;
  void note_read(const Touch&, uint64_t address, uint32_t bytes);
  struct Past;
  void found_before_wait(const Past&, const Touch& before, const order::Actor&, const Touch& now,
                         uint64_t address, uint32_t bytes);
  Party past_party(const Past&, const Touch&) const;
  void pair_allocates(const TmemAccess&, Cluster&, const Touch& now);
  void pair_frees(const TmemAccess&, Cluster&, const Touch& now);
  void tell_blind(const Cta&, Cluster&, uint32_t rank);
  void range(const order::Actor&, Touch, Space, const Cta*, uint64_t address, uint32_t bytes, bool map);
  void visit(Cell&, const order::Actor&, const Touch&, const order::Place&, bool map);
  void check(Touch& before, const order::Actor&, const Touch& now, const order::Place&, bool map);
  bool map_written_over(const Touch& before, const order::Actor&, const Touch& now) const;
  bool tensor_memory_keeps_order(const order::StreamInfo&, const Touch& before, const order::Actor&,
                                 const Touch& now) const;
  void unordered(const Touch& before, const order::Actor&, const Touch& now, const order::Place&);
  void check_tensor_fences(const Touch& before, const order::Actor&, const Touch& now, const order::Place&);
  bool known_at_election(const Touch& before, const order::Actor&, const Touch& now, const order::Place&);
  void check_proxy_fence(const Touch& before, uint32_t lanes, const order::Actor&, const Touch& now,
                         const order::Place&);
  void found_unfenced(uint32_t writer, uint32_t product, const order::Actor&);
  void found(Class, const Touch& before, const order::Actor&, const Touch& now, const order::Place&);
  struct Wording {
    std::string what, needs;
  };
  std::string place_text(Class, const Touch& before, const Touch& now, const order::Place&) const;
  Wording wording(Class, const Touch& before, const order::Actor&, const Touch& now, const order::Place&,
                  const std::string& where) const;
  Wording race_words(Class, const Touch& before, const order::Actor&, const Touch& now,
                     const std::string& where) const;
  Wording proxy_words(Class, const Touch& before, const order::Actor&, const Touch& now,
                      const std::string& where) const;
  Wording tensor_words(Class, const Touch& before, const order::Actor&, const Touch& now,
                       const std::string& where) const;
  Wording exit_words(const Touch& before, const order::Actor&, const Touch& now, const order::Place&,
                     const std::string& where) const;
  Wording init_words(Class, const Touch& before, const order::Actor&, const Touch& now,
                     const std::string& where) const;
  Finding words(Class, const Touch& before, const order::Actor&, const Touch& now, const order::Place&) const;
  Party party(const Touch&) const;
  std::string cta_name(uint64_t cluster, uint32_t rank) const;
  std::string thread_name(const Cluster&, uint32_t component) const;
  std::string belongs(Class, const Touch& before, const order::Actor&, const Touch& now) const;
  std::string gaps(Class, const Touch& before, const order::Actor&, const Touch& now) const;
  std::string mbarrier_lines(const Cluster&, uint32_t cta, uint32_t address) const;
  uint32_t line_of(uint32_t site) const;
  uint32_t neighbour(uint32_t site, bool before) const;
  std::string missing(const Touch& before, const order::Actor&, const Touch& now) const;
  std::string missing_between_threads(const Touch& before, const order::Actor&, const Touch& now,
                                      const std::string& here) const;
  std::string missing_behind_operation(const Touch& before, const order::Actor&, const Touch& now,
                                       const std::string& here) const;
  std::string waited_instead(const order::StreamInfo&, uint32_t phase, const order::Actor&,
                             const Touch& now) const;
  std::string passed_again(const Cluster&, const order::Actor&, const Touch& now) const;
  std::string group_waits(const Cluster&, const Touch& operation, bool bulk) const;

  struct Global;
  struct Found;
  struct Pasts;
  std::unique_ptr<Pasts> pasts_;
  bool overlaps_ = false, notes_reads_ = false;  // this launch: see order_launch.cpp
  const Grid* grid_ = nullptr;
  std::vector<uint32_t> code_base_;
  std::vector<order::Traits> traits_;
  std::unordered_map<uint32_t, uint32_t> unfenced_;  // sites: a wgmma, and who writes its registers unfenced
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::unique_ptr<Global> global_;
  std::unique_ptr<Found> found_;
  std::atomic<uint64_t> errors_{0}, notes_{0};
};

}  // namespace fp4lab::emu
