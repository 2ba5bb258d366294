// What each kind of warp did in a launch, what it waited for, and which bytes went which way. Time is the
// cluster's virtual clock, one warp instruction = one step of the schedule that the seed chose: shares tell
// who waits for whom, not how long a GPU takes.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/core/watch.h"
#include "emulator/watch/role.h"

namespace fp4lab::emu {

class Profile final : public Watcher {
 public:
  explicit Profile(bool json = false) : json_(json) {}
  void launch_begin(const Grid&) override;
  void launch_end(const Grid&) override;
  void step(Warp&, const Instr&, uint32_t active) override;
  void access(const Access&) override;
  void tmem(const TmemAccess&) override;
  void issue(Warp&, const AsyncOp&) override;
  void complete(const AsyncOp&) override;
  void cta_start(Cta&) override;
  void cta_exit(Cta&) override;

  // Of the last launch; several lines, or one JSON object: "kernel", "ctas", "steps" (of a CTA, on average),
  // "first_product" (steps before it), "products", "busy" (share of steps with a product under way), "roles":
  // name, warps, instructions, issued, waited (share of their steps), waits (all, the longest first): share,
  // times, line and text of the PTX, "frames" (file and line, the innermost first).
  const std::string& report() const { return report_; }

 private:
  struct Wait {
    uint64_t steps = 0, times = 0;
  };
  struct WarpKind {  // by warp number; all CTAs together
    Role role;
    uint64_t instructions = 0, issued = 0;
    std::map<const Source*, Wait> waits;
  };
  struct Last {
    const Instr* at = nullptr;
    uint64_t end = 0;
  };
  struct Running {
    uint64_t start = 0, products = 0, since = 0, busy = 0;
    bool any = false;  // product
  };
  struct Bytes {
    uint64_t first = 0, again = 0, written = 0;  // global memory
    uint64_t filled = 0, operands = 0, stores = 0,
             loads = 0;  // shared: by copies, by the tensor core and stores, by threads
    uint64_t tmem_read = 0, tmem_written = 0;
  };
  std::map<unsigned, WarpKind> warps_;
  std::unordered_map<const Warp*, Last> last_;
  std::unordered_map<const Cta*, Running> running_;
  std::unordered_map<uint64_t, std::pair<uint64_t, uint64_t>> seen_;  // 32-byte sectors of 4 KiB pages
  Bytes bytes_;
  uint64_t ctas_ = 0, cta_steps_ = 0, busy_steps_ = 0, products_ = 0;
  uint64_t multiplying_ctas_ = 0, steps_to_product_ = 0;
  const bool json_;
  std::string report_;

  struct Sum {  // warps of one role
    std::vector<unsigned> warps;
    uint64_t instructions = 0, issued = 0, waited = 0;
    std::vector<std::pair<const Source*, Wait>> waits;  // the longest first
  };
  std::string as_text(const Grid&, const std::map<std::string, Sum>&) const;
  std::string as_json(const Grid&, const std::map<std::string, Sum>&) const;
};

}  // namespace fp4lab::emu
