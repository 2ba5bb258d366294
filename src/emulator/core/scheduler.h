// The rounds of one launch: the parallel phase of the resident clusters, the serial phase, and the retirement
// and start of clusters.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "emulator/core/machine.h"

namespace fp4lab::emu {

// The SMs and what resident CTAs occupy of them.
class Residency {
 public:
  Residency(const DeviceModel&, uint32_t shared_bytes, uint32_t threads, uint32_t cluster_ctas);
  // Places a cluster: its CTAs on different SMs of one GPC, pairs on neighbouring SMs. False: no room.
  bool place(std::vector<Sm*>& sms);
  void remove(const std::vector<Sm*>& sms);

 private:
  struct Unit {
    uint32_t load, first;  // CTAs there already, first SM
    auto operator<=>(const Unit&) const = default;
  };
  bool fits(const Sm&) const;
  const DeviceModel& device_;
  uint32_t shared_bytes_, threads_, ctas_;
  std::vector<std::unique_ptr<Sm>> sms_;
  std::vector<std::pair<uint32_t, uint32_t>> gpcs_;  // first SM, count
  std::vector<Unit> units_, chosen_;                 // of place()
};

// Like machine.h's, but counts no further than `most`, which is faster.
uint64_t resident_clusters(const Function&, const LaunchConfig&, const DeviceModel&, uint64_t most);

class Scheduler {
 public:
  explicit Scheduler(Grid&);
  ~Scheduler();
  LaunchResult run();

 private:
  void start_clusters();
  bool comes_too_soon(const std::vector<Sm*>&) const;
  bool round(LaunchResult&);  // false: the launch has failed
  bool stopped(LaunchResult&);
  void parallel_phase();
  // `spent`: steps of the parallel phase. False: nothing waited for it.
  bool serial_phase(uint64_t spent);
  struct Item {
    Cluster* cluster;
    Warp* warp;  // null: the cluster's operations
    LaneGroup* group;
  };
  void serial_items(Cluster&);  // into items_
  bool is_compare_and_swap(const LaneGroup&) const;
  bool run_item(const Item&);  // true: it changed memory
  // A warp whose compare and swap was served goes on trying, undisturbed, as long as its tries change
  // something. Otherwise only one lane of all the warps that swap the same word would succeed in each round.
  void go_on_swapping(const Item&, bool changed);
  // Clusters sleep, and rounds skip them, while all their warps wait for each other or poll global memory
  // that has not changed since their last look. They wake when it changes or their patience ends.
  bool falls_asleep(Cluster&);
  template <class F>
  void wake(F&& which);
  void wake_all();
  std::vector<Cluster*> all() const;
  void retire();
  bool failed(LaunchResult&);
  uint64_t clocks() const;  // steps of all resident clusters
  void keep_pace(uint64_t spent);
  // When nothing can run (`stuck`), or warps have only polled for a while: ends waits that may end without
  // success. False: there was none.
  bool end_waits(bool stuck);
  // Advances the clock where warps only poll and read it: they may be waiting for a point in time. Each leap
  // is twice as long as the last, to reach waits of a second or more.
  void leap();
  bool release(bool (*how)(Warp&));  // asks every warp; true: one can run again
  void work(unsigned thread);
  void worker(unsigned thread);
  void count(const Cluster&);  // what it did, into the launch's statistics
  void collect(LaunchResult&);

  static constexpr uint64_t kFirstLeap = 1024, kMostLeap = uint64_t(1) << 40;
  Grid& grid_;
  Residency residency_;
  std::map<uint64_t, std::unique_ptr<Cluster>> resident_;  // by id
  std::vector<Cluster*> awake_;                            // by id
  struct Sleeper {
    Cluster* cluster;
    uint64_t since, until;  // rounds
    std::vector<Polled> polled;
  };
  std::vector<Sleeper> asleep_;
  std::vector<Item> items_;  // of the serial phase
  struct Swapper {
    uint32_t patience = 0, rest = 0;  // serial phases
  };
  std::map<uint64_t, std::vector<Swapper>> swappers_;  // by cluster, then by warp
  uint64_t asleep_clocks_ = 0, asleep_progress_ = 0;   // of those in asleep_
  std::vector<std::unique_ptr<Cluster>> gone_;         // to be destroyed by the next round's host threads
  std::vector<std::vector<uint64_t>> counts_;          // by host thread: executions by instruction
  std::mt19937_64 rng_;
  const bool tensor_memory_, one_by_one_;               // see start_clusters
  std::unordered_map<const Sm*, uint64_t> last_start_;  // the round of each, if one_by_one_
  Statistics sum_;                                      // of retired clusters
  struct {
    uint64_t progress = 0;     // of all clusters so far
    uint64_t gone = 0;         // of that, by retired clusters
    uint64_t polled = 0;       // steps since the last one that was not polling
    uint64_t idle_rounds = 0;  // rounds since then, or since waits were ended
    unsigned time_outs = 0;
    uint64_t leap = kFirstLeap;  // of %clock
  } pace_;

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  uint64_t generation_ = 0;
  unsigned busy_ = 0;
  bool stop_ = false;
  std::atomic<size_t> next_{0};
};

// The deadlock report: every waiting group, what it waits for, and where. CTAs with the same text are folded.
std::string stuck_report(const Grid&, const std::vector<Cluster*>&, bool polling);
// The same where the launch was stopped.
std::string stopped_report(const Grid&, const std::vector<Cluster*>&, const std::string& why);

}  // namespace fp4lab::emu
