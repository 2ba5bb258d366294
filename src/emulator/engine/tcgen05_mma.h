// One tcgen05.mma on its way through the tensor pipe.
#pragma once

#include "emulator/engine/descriptors.h"
#include "emulator/engine/sparse.h"
#include "emulator/engine/stored_operand.h"
#include "emulator/engine/tcgen05.h"

namespace fp4lab::emu {

struct MmaOp final : MatrixProduct {
  InstructionDescriptor idesc;
  uint8_t group = 1;      // cta_group
  uint8_t scale_vec = 0;  // scales per row and instruction, 0 without block scaling
  bool a_in_tmem = false, accumulate = false, weight_stationary = false;
  uint8_t scale_input_d = 0;
  uint32_t disabled[8] = {};  // disable-output-lane: bit i of the concatenation
  bool any_disabled = false;
  bool sparse = false;
  uint32_t metadata = 0;                         // TMEM address, of a sparse A
  uint32_t column_shift = 0;                     // the first row of B that is used (.ws)
  std::vector<uint8_t> zero_columns;             // of B: 1 where zeros stand for it; empty = none
  uint32_t d = 0, sfa = 0, sfb = 0, a_tmem = 0;  // TMEM addresses
  SharedMatrix a, b;

  const char* name() const override { return "tcgen05.mma"; }
  bool run(Cluster&) override;
  bool lost_at_exit() const override;
  bool held(const Cluster& cluster) const override { return cluster.at_once(*this); }
  bool of_pair() const override { return group == 2; }
  std::optional<StoredOperand> stored(char operand) const override;
  ElementFormat format(char operand) const;

  // Where the result's rows and columns lie in one CTA's TMEM.
  struct Part {
    uint32_t lane, column;  // of the first row and column
    uint32_t row, rows;     // rows of the CTA's share, from `row`
    uint32_t n, columns;    // columns of D, from `n`
  };
  std::vector<Part> layout() const;
  uint32_t rows_per_cta() const { return idesc.m / group; }
  uint32_t b_row_bytes() const;
  // Which byte of a row's word of scales quarter `quarter` of K takes; `id` names the bytes when there are
  // more than the instruction needs.
  uint32_t scale_byte(uint32_t quarter, uint32_t id) const {
    return scale_vec == 4 ? quarter : scale_vec == 2 ? id + quarter / 2 : id;
  }
  // Layouts C and F: 16 of every 32 lanes.
  bool half_lanes() const { return rows_per_cta() == 64 && !weight_stationary && (group == 1 || sparse); }
  // .ws with A in TMEM: a part of D takes the rows of A that stand in its own lanes. They need not be the
  // same in all parts: FlashMLA (sm100/prefill/sparse/fwd/head64) multiplies two halves of K that way at
  // once, with M = 64. M = 32 is taken to do so with its four parts. So do a pair with M = 128 and its two
  // parts (FlashMLA, fwd_for_small_topk/head128).
  bool a_of_halves() const { return a_in_tmem && rows_per_cta() == 64 && group == 2 && !sparse; }
  bool a_by_lane() const { return (weight_stationary && a_in_tmem) || a_of_halves(); }
  uint32_t a_row(const Part& p) const { return a_by_lane() ? p.lane : p.row; }
  uint32_t a_rows_stored() const { return a_by_lane() ? kTmemLanes : rows_per_cta(); }
  // Faults unless the columns and lanes of every operand in TMEM are there; called at issue and again when it
  // runs.
  void note_shared_scales(Cta&) const;
  void check_tmem(Cta&) const;

 private:
  // What of one CTA's share of D is nobody's, by quarter of the lanes: see lose().
  struct Lost {
    using Indices = std::array<std::vector<bool>, 4>;
    Indices rows, columns;
    bool any = false;
    void add(Indices& to, uint32_t quarter, uint32_t index);
  };
  void share(Cluster&, Cta&, const std::byte* b_rows);  // what one CTA of the group computes
  void fp4(Cluster&, Cta&, const std::byte* a_rows, const std::byte* b_rows, Lost&);
  void plain(Cluster&, Cta&, const std::byte* a_rows, const std::byte* b_rows, Lost&);
  // The scales of operand A or B in one CTA's TMEM: 32 rows to a column, again in each quarter of the lanes;
  // or in two parts, each in the lanes of one half.
  struct Scales {
    TmemAddress at;
    uint32_t rows, parts, id;  // id: see scale_byte
    uint32_t columns() const { return (rows / parts + 31) / 32; }
  };
  void lose(Cluster&, Cta&, const Lost&) const;
  Scales scales_of(char operand) const;
  // Of A the copy beside each row of D, of B that of one quarter of the lanes. False: the quarters differ.
  bool read_scales(Cluster&, Cta&, char operand, uint8_t* out, Lost&, uint32_t quarter = 0);
  std::vector<Part> quarters() const;  // layout, where each quarter of D's 128 rows has scales of its own
  void read_a_tmem(Cluster&, Cta&, std::byte* out);
  void read_b(Cluster&, Cta&, uint32_t rows, std::byte* out);
  SparseRows read_metadata(Cluster&, Cta&, const std::byte* a_rows, Lost&);
  bool output_disabled(const Cta&, uint32_t lane) const;
  void check_accumulator(Cluster&, Cta&) const;
  void finish(Cluster&, Cta&);
};

// Bytes of K that one instruction reads from each row of A: 32 for every kind, of a sparse A too, whose row
// of B has 64; elements in 32 bytes.
constexpr uint32_t kMmaRowBytes = 32;
uint32_t elements_per_mma(MmaKind);
inline uint32_t MmaOp::b_row_bytes() const { return sparse ? 64 : kMmaRowBytes; }

}  // namespace fp4lab::emu
