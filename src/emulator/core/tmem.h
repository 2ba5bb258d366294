// Tensor memory of one SM: 128 lanes x 512 columns of 32-bit cells (PTX ISA 9.7.16.1), allocated by column.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fp4lab::emu {

struct AsyncOp;
class Cta;

constexpr unsigned kTmemLanes = 128, kTmemColumns = 512;

// A tensor-memory address: bits 31:16 lane, 15:0 column.
struct TmemAddress {
  uint32_t bits;
  unsigned lane() const { return bits >> 16; }
  unsigned column() const { return bits & 0xffff; }
};

struct TensorMemory {
  TensorMemory();
  // One column's 128 lanes are contiguous: tcgen05.ld.32x32b copies 32 neighbours per register, and the tile
  // routine of tcgen05.mma works on vectors of rows (lanes).
  using Column = std::array<uint32_t, kTmemLanes>;
  std::unique_ptr<std::array<Column, kTmemColumns>> cells;
  std::array<std::array<uint64_t, 2>, kTmemColumns> defined{};  // by column: lanes that were written
  std::array<const Cta*, kTmemColumns> owner{};                 // by column; null = free
  std::vector<const Cta*> waiting;              // in tcgen05.alloc, for columns or for the pair's other CTA
  std::array<uint64_t, kTmemColumns> former{};  // of a free column: its last owner, see name_of

  // Of an unallocated column: the last CTA that wrote it (see name_of) and the lanes. With a tolerant
  // schedule a warp may write before another one allocates (gated delta networks of a contest, which ran on
  // B200s): tcgen05.alloc is taken to leave the cells unchanged.
  struct Ahead {
    uint64_t writer = 0;
    std::array<uint64_t, 2> lanes{};
  };
  std::array<Ahead, kTmemColumns> ahead{};

  // The latest tcgen05.cp of a few PTX lines: if a product's scales are missing, the report says where others
  // went.
  struct Copied {
    uint32_t line, column, columns;
    bool unwritten;  // its source, all or some of it
  };
  std::vector<Copied> copied;
  void note_copy(const Copied&);
  std::string copies_near(uint32_t column) const;  // "; tcgen05.cp wrote columns [8, 12) (line 78), ..."

  Column& column(unsigned c) { return (*cells)[c]; }
  const Column& column(unsigned c) const { return (*cells)[c]; }

  // The first column of `columns` free ones, aligned to `columns`, or -1.
  int find_free(unsigned columns) const;
  // Makes cells undefined, except those that the CTA has written before its allocation.
  void allocate(unsigned first, unsigned columns, const Cta*);
  void release(unsigned first, unsigned columns);

  bool is_defined(unsigned c, unsigned lane0, unsigned lanes) const;
  void define(const Cta& writer, unsigned c, unsigned lane0, unsigned lanes);
  void undefine(unsigned c, unsigned lane0, unsigned lanes);
  bool owns_any(const Cta&, unsigned column, unsigned columns) const;
  // Faults (illegal_address) unless all the columns are allocated to `cta`. A tolerant schedule accepts
  // unallocated columns too: hardware has no check, and they keep their contents. Contest kernels free tensor
  // memory that others still read, and SwayamInSync's dual GEMMs keep their scales past the end of their
  // allocation.
  void check(const Cta& cta, unsigned column, unsigned columns, const char* what,
             const AsyncOp* op = nullptr) const;
};

}  // namespace fp4lab::emu
