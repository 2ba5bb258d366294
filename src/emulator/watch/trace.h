// Writes what happened as a file that trace viewers open (the Trace Event Format of chrome://tracing and
// Perfetto): one process per CTA; its warps' lives and waits, its asynchronous operations from issue to
// completion, the phases of its mbarriers and its named barriers on lines of their own. Time is the cluster's
// virtual clock in steps (one instruction of one warp = one step), of the schedule that the seed chose: it
// shows order and overlap, not speed.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "emulator/core/watch.h"
#include "emulator/watch/role.h"

namespace fp4lab::emu {

class Trace final : public Watcher {
 public:
  // Throws fp4lab::Error when the file cannot be written. Launches follow one another in the file; CTAs from
  // `max_ctas` on are left out of each.
  explicit Trace(const std::string& path, uint64_t max_ctas = 64);
  ~Trace() override;

  void launch_begin(const Grid&) override;
  void launch_end(const Grid&) override;
  void step(Warp&, const Instr&, uint32_t active) override;
  void barrier(const BarrierEvent&) override;
  void issue(Warp&, const AsyncOp&) override;
  void complete(const AsyncOp&) override;
  void cta_start(Cta&) override;
  void cta_exit(Cta&) override;
  // Why the file is not whole; empty when it is.
  const std::string& trouble() const { return trouble_; }

 private:
  struct WarpState {
    const Instr* last = nullptr;
    uint64_t begin = 0, end = 0;
  };
  struct CtaLines {                  // what is known of a CTA's lines when it ends
    std::map<unsigned, Role> roles;  // by warp
    std::map<uint64_t, std::string> barriers;
  };
  uint64_t process(const Cta&) const;
  bool shown(const Cta&) const;
  uint64_t time(const Cta&) const;
  void event(const std::string& json);
  void put(const std::string& text);
  void name(uint64_t process, uint64_t thread, const std::string& text);

  std::string path_, trouble_;
  std::FILE* file_;
  uint64_t max_ctas_, offset_ = 0, latest_ = 0;
  bool first_ = true;
  std::map<const AsyncOp*, uint64_t> issued_;
  std::map<const Warp*, WarpState> warps_;
  std::map<const Cta*, CtaLines> lines_;
};

}  // namespace fp4lab::emu
