// Shared parts of the generators of scalar programs: the text with its slots, pools of registers, single
// instructions, carry chains. Single instructions are those of the sweep (every form whose results are fully
// determined by the hardware).
#pragma once

#include <string>

#include "program.h"

namespace fp4lab::conformance {

class Straight {
 protected:
  explicit Straight(uint64_t seed) : r_(seed) {}

  struct Pools {  // %h0.., %r0.., %d0.., %p0..
    unsigned h, r, d, p;
    unsigned bytes() const { return 2 * h + 4 * r + 8 * d; }  // of one thread's input
    std::string declaration() const;
  };

  void line(const std::string& s);
  void module_head();  // the directives, and a `table` of 16 words in constant memory
  std::string label();
  std::string reg(const std::string& type);  // of b16, b32, b64 or pred, from the pools
  std::string guard();                       // "@%p1 " or "@!%p1 "
  // Stores the result of the previous line in a slot of its own. Not inside functions.
  void log(const std::string& type, const std::string& name);
  // %me and %t are the thread's numbers in its CTA and in the grid, %out and %in its places.
  void find_places(unsigned threads);
  // Loads the pools from [%in] and makes the predicates; the input is random_operand()s.
  void load_pools();
  Program finish(unsigned threads, unsigned ctas);

  void form(bool guarded);
  void carries();

  Random r_;
  Program p_;
  std::string text_;
  uint32_t lines_ = 0;
  Pools pools_{12, 24, 12, 6};
  unsigned all_ = 256;   // threads of the grid
  bool logging_ = true;  // false while a function is written

 private:
  void fill_input();

  unsigned labels_ = 0;
};

}  // namespace fp4lab::conformance
