// Who accessed which bytes last: a cell for each 16 bytes of memory, or for each column of tensor memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

namespace fp4lab::emu {

// One access that later ones must be ordered with.
struct Touch {
  // collective: whoever of `lanes` is known to have come so far stands for all. copied: by an asynchronous
  // copy of the generic proxy (cp.async). map: a copy that read its tensor map.
  enum Flag : uint8_t {
    write = 1,
    async = 2,
    strong = 4,
    collective = 8,
    map_acquired = 16,
    cp = 32,
    copied = 64,
    map = 128
  };
  uint32_t time = 0;
  uint32_t lanes = 0;  // threads of a warp that did it; 0: an asynchronous operation did
  uint32_t site = 0;   // the instruction
  uint32_t cluster = 0;
  uint16_t component = 0;  // of lane 0 of the warp, or the operation's stream
  uint16_t mask = 0;       // bytes of the cell (16-lane blocks of a TMEM column)
  uint16_t issuer = 0;     // component of the thread that issued the operation
  uint8_t width = 0;  // > 0: neighbouring lanes touched neighbouring runs of so many bytes; 0: all the same
  uint8_t flags = 0;
  uint8_t layout = 0;  // emu::Layout
  bool blind = false;  // a read where nobody had written before

  bool is(Flag f) const { return flags & f; }
  // The lanes that touched the bytes of `m`.
  uint32_t lanes_of(uint16_t m) const {
    if (!width) return lanes;
    const unsigned first_byte = static_cast<unsigned>(std::countr_zero(mask)),
                   first = static_cast<unsigned>(std::countr_zero(lanes));
    uint32_t some = 0;
    for (unsigned left = m & mask; left; left &= left - 1)
      some |= 1u << (first + (static_cast<unsigned>(std::countr_zero(left)) - first_byte) / width);
    return some & lanes;
  }
  void cut(uint16_t gone) {
    unsigned left = mask & static_cast<unsigned>(~gone);
    if (width && left) {  // what is left of a run at its lower end, or else at its upper one, is a run
      const unsigned begin = static_cast<unsigned>(std::countr_zero(mask));
      left &= ~(left + (left & -left));
      const unsigned at = static_cast<unsigned>(std::countr_zero(left));
      if ((at - begin) % width || static_cast<unsigned>(std::popcount(left)) % width) left = 0;
      lanes = left ? lanes_of(static_cast<uint16_t>(left)) : 0;
    }
    mask = static_cast<uint16_t>(left);
  }
  // Can this stand for `next` too? Then it does from now on.
  bool takes(const Touch& next) {
    if (next.component != component || next.cluster != cluster || next.flags != flags ||
        !next.lanes != !lanes || next.layout != layout || next.blind != blind)
      return false;
    const bool run = width && std::popcount(lanes) > 1;
    // The same agents once more, later: what is ordered behind the later is behind the earlier.
    if (!run && !(lanes & ~next.lanes) && !(mask & ~next.mask) && time <= next.time) {
      *this = next;
      return true;
    }
    if (!lanes || next.time != time || next.site != site || !next.width) return false;
    if (next.mask == mask && !run) {  // another lane at the same bytes
      width = 0;
      lanes |= next.lanes;
      return true;
    }
    const unsigned end = 16 - static_cast<unsigned>(std::countl_zero(mask));
    if (next.width == width && next.lanes >> 1 == std::bit_floor(lanes) &&
        static_cast<unsigned>(std::countr_zero(next.mask)) == end) {
      mask |= next.mask;
      lanes |= next.lanes;
      return true;
    }
    return false;
  }
};

struct Cell {
  Touch first[2];  // mask 0: free
  std::unique_ptr<std::vector<Touch>> more;

  template <class F>  // f(Touch&), for those that touch bytes of `mask`
  void each(uint16_t mask, F&& f) {
    for (Touch& t : first)
      if (t.mask & mask) f(t);
    if (more)
      for (Touch& t : *more)
        if (t.mask & mask) f(t);
  }
  // Behind a write only the write itself matters.
  void forget(uint16_t mask) {
    for (Touch& t : first)
      if (t.mask & mask) t.cut(mask);
    if (more && !more->empty()) {
      for (Touch& t : *more)
        if (t.mask & mask) t.cut(mask);
      std::erase_if(*more, [](const Touch& t) { return t.mask == 0; });
    }
  }
  void add(const Touch& t) {
    for (Touch& old : first)
      if (old.mask && old.takes(t)) return;
    if (more)
      for (Touch& old : *more)
        if (old.takes(t)) return;
    for (Touch& free : first)
      if (free.mask == 0) {
        free = t;
        return;
      }
    if (!more) more = std::make_unique<std::vector<Touch>>();
    more->push_back(t);
  }
};

}  // namespace fp4lab::emu
