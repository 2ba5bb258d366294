// Where the order checker keeps what all clusters share: global memory's cells and the findings.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "emulator/watch/order.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

// Sites count the instructions of all functions; `base`: where each function's begin.
inline size_t function_at(const std::vector<uint32_t>& base, uint32_t site) {
  size_t f = base.size() - 1;
  while (base[f] > site) --f;
  return f;
}
inline const Source& source_at(const Grid& grid, const std::vector<uint32_t>& base, uint32_t site) {
  const size_t f = function_at(base, site);
  return grid.module.functions[f].source[site - base[f]];
}

struct OrderChecker::Global {
  static constexpr uint64_t kPage = 4096;
  static constexpr size_t kShards = 64;
  struct Page {
    Cell cell[kPage / 16];
  };
  struct ReadPage {  // the first reader of each cell
    Touch cell[kPage / 16];
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;  // those that were written
    std::unordered_map<uint64_t, std::unique_ptr<ReadPage>>
        reads;  // for launches that may overlap with the next
  };
  std::array<Shard, kShards> shards;
  std::vector<std::atomic<uint8_t>> maybe =
      std::vector<std::atomic<uint8_t>>(1 << 20);  // by hash of the page: might it be there?
  std::mutex mutex;
  std::unordered_map<uint64_t, order::SyncVariable> variables;

  static size_t hash(uint64_t page) { return (page * 0x9e3779b97f4a7c15ull) >> 44; }
  bool possible(uint64_t page) const { return maybe[hash(page)].load(std::memory_order_relaxed); }
  Shard& shard(uint64_t page) { return shards[hash(page) % kShards]; }
  void clear() {
    for (Shard& s : shards) s.pages.clear(), s.reads.clear();
    for (auto& m : maybe) m.store(0, std::memory_order_relaxed);
    variables.clear();
  }
};

// A launch that may not be over when the next one of its stream begins.
struct OrderChecker::Past {
  uint64_t stream;
  const Module* module;
  std::string kernel;
  std::vector<uint32_t> code_base;
  Dim3 grid, cluster;
  uint32_t warps;  // of a CTA
  std::unordered_map<uint64_t, std::unique_ptr<Global::Page>> pages;
  std::unordered_map<uint64_t, std::unique_ptr<Global::ReadPage>> reads;
};

struct OrderChecker::Pasts {
  static constexpr size_t kMost = 8;
  std::vector<Past> all;                    // the oldest first
  std::atomic<bool> before_is_over{false};  // a CTA let the next launch begin behind its griddepcontrol.wait
  std::mutex mutex;
  std::vector<std::pair<uint64_t, uint32_t>> waits;  // of this launch: cluster, component of its stream
};

struct OrderChecker::Found {
  using Key = std::tuple<Class, uint32_t, uint32_t, uint8_t>;
  struct Entry {
    uint64_t cluster;  // whose the finding is: of the lowest number, and which of its findings
    uint32_t number;
    Finding finding;
  };
  mutable std::mutex mutex;
  std::map<Key, Entry> entries;
  std::unordered_map<uint64_t, uint32_t> numbers;  // of findings, by cluster
  std::vector<Finding> last;
  void clear() {
    entries.clear();
    numbers.clear();
    last.clear();
  }
  void finish(const Grid&);
};

}  // namespace fp4lab::emu
