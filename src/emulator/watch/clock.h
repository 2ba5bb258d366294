// What an agent of a cluster knows to have happened: a vector clock.
//
// Its components are numbered within the cluster. The first ones are the threads, 32 to a warp, CTA by CTA;
// the value is the warp's time up to which that thread's accesses are known to be over. The others are
// streams, made as they appear: an mbarrier (completed phases: what asynchronous copies delivered by then is
// there), a tensor pipe or a thread's bulk stores (sequence numbers of operations that are over). A launch
// has many clusters and most never meet: what is known of another one hangs on as a map.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace fp4lab::emu {

using Ticks = std::vector<uint32_t>;
// By cluster. Who meets hundreds of others (a barrier of the whole grid) shares what they know, not copies.
using SharedTicks = std::shared_ptr<const Ticks>;
using Foreign = std::map<uint64_t, SharedTicks>;

inline void join_ticks(Ticks& into, const Ticks& other, uint32_t first = 0) {
  if (into.size() < other.size()) into.resize(other.size());
  const uint32_t* __restrict from = other.data();
  uint32_t* __restrict to = into.data();
  for (size_t i = first, n = other.size(); i < n; ++i) to[i] = std::max(to[i], from[i]);
}

inline bool covers_ticks(const Ticks& all, const Ticks& some) {
  uint32_t less = 0;
  for (size_t i = 0; i < some.size(); ++i) less |= (i < all.size() ? all[i] : 0) < some[i];
  return !less;
}

inline void join_ticks(SharedTicks& into, const SharedTicks& other) {
  if (into == other || (into && covers_ticks(*into, *other))) return;
  if (!into || covers_ticks(*other, *into)) {
    into = other;
    return;
  }
  auto both = std::make_shared<Ticks>(*into);
  join_ticks(*both, *other);
  into = std::move(both);
}

struct Clock {
  Ticks at;
  std::shared_ptr<const Foreign> foreign;

  uint32_t operator[](uint32_t component) const { return component < at.size() ? at[component] : 0; }
  uint32_t of(uint64_t cluster, uint32_t component) const {
    if (!foreign) return 0;
    const auto it = foreign->find(cluster);
    return it == foreign->end() || component >= it->second->size() ? 0 : (*it->second)[component];
  }
  void raise(uint32_t component, uint32_t value) {
    if (component >= at.size()) at.resize(component + 1);
    at[component] = std::max(at[component], value);
  }
  bool covers(const Clock& other, uint32_t first) const {
    if (other.foreign && first == 0) return false;
    const size_t n = std::min(at.size(), other.at.size());
    uint32_t less = 0;
    for (size_t i = first; i < n; ++i) less |= at[i] < other.at[i];
    for (size_t i = std::max<size_t>(n, first); i < other.at.size(); ++i) less |= other.at[i];
    return !less;
  }
  // Only components from `first` on: what passes where threads' own accesses do not.
  void join(const Clock& other, uint32_t first = 0) {
    join_ticks(at, other.at, first);
    if (other.foreign && first == 0) join(*other.foreign);
  }
  void join(const Foreign& other) {
    if (foreign && std::ranges::all_of(other, [&](const auto& o) {
          const auto it = foreign->find(o.first);
          return it != foreign->end() && (it->second == o.second || covers_ticks(*it->second, *o.second));
        }))
      return;
    auto all = foreign ? std::make_shared<Foreign>(*foreign) : std::make_shared<Foreign>();
    for (const auto& [cluster, ticks] : other) join_ticks((*all)[cluster], ticks);
    foreign = std::move(all);
  }
};

// A clock that several threads of a warp share until one of them learns more. Used by one host thread at a
// time, so the count need not be atomic.
class SharedClock {
 public:
  SharedClock() = default;
  explicit SharedClock(Clock clock) : node_(new Node{std::move(clock), 1}) {}
  SharedClock(const SharedClock& o) : node_(o.node_) {
    if (node_) ++node_->users;
  }
  SharedClock(SharedClock&& o) noexcept : node_(std::exchange(o.node_, nullptr)) {}
  SharedClock& operator=(SharedClock o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~SharedClock() {
    if (node_ && --node_->users == 0) delete node_;
  }
  const Clock& operator*() const {
    static const Clock nothing;
    return node_ ? node_->clock : nothing;
  }
  const Clock* operator->() const { return &**this; }
  uint32_t operator[](uint32_t component) const { return (**this)[component]; }
  bool same(const SharedClock& o) const { return node_ == o.node_; }
  explicit operator bool() const { return node_ != nullptr; }

 private:
  struct Node {
    Clock clock;
    uint32_t users;
  };
  Node* node_ = nullptr;
};

}  // namespace fp4lab::emu
