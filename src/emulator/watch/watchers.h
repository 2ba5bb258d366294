// Several watchers of one launch: each is told everything, in the order in which they were added.
#pragma once

#include <vector>

#include "emulator/core/watch.h"

namespace fp4lab::emu {

class Watchers final : public Watcher {
 public:
  void add(Watcher& w) { all_.push_back(&w); }  // it must outlive the launches
  bool empty() const { return all_.empty(); }
  // For launch(): null when nobody watches, the only one when there is one.
  Watcher* front() { return all_.empty() ? nullptr : all_.size() == 1 ? all_[0] : this; }

  bool thread_safe() const override {
    for (const Watcher* w : all_)
      if (!w->thread_safe()) return false;
    return true;
  }
  void launch_begin(const Grid& g) override {
    tell([&](Watcher& w) { w.launch_begin(g); });
  }
  void launch_end(const Grid& g) override {
    tell([&](Watcher& w) { w.launch_end(g); });
  }
  void step(Warp& warp, const Instr& i, uint32_t active) override {
    tell([&](Watcher& w) { w.step(warp, i, active); });
  }
  void access(const Access& a) override {
    tell([&](Watcher& w) { w.access(a); });
  }
  void tmem(const TmemAccess& a) override {
    tell([&](Watcher& w) { w.tmem(a); });
  }
  void barrier(const BarrierEvent& e) override {
    tell([&](Watcher& w) { w.barrier(e); });
  }
  void fence(Warp& warp, const Instr& i) override {
    tell([&](Watcher& w) { w.fence(warp, i); });
  }
  void issue(Warp& warp, const AsyncOp& op) override {
    tell([&](Watcher& w) { w.issue(warp, op); });
  }
  void complete(const AsyncOp& op) override {
    tell([&](Watcher& w) { w.complete(op); });
  }
  void cta_start(Cta& cta) override {
    tell([&](Watcher& w) { w.cta_start(cta); });
  }
  void warp_exit(Warp& warp) override {
    tell([&](Watcher& w) { w.warp_exit(warp); });
  }
  void cta_exit(Cta& cta) override {
    tell([&](Watcher& w) { w.cta_exit(cta); });
  }

 private:
  template <class F>
  void tell(F&& f) {
    for (Watcher* w : all_) f(*w);
  }
  std::vector<Watcher*> all_;
};

}  // namespace fp4lab::emu
