// The module built from the PTX text: the parser produces it, the warps execute it.
//
// A register is a *row* of 32 lanes: `uint32_t[32]` for values of up to 32 bits, `uint64_t[32]` for 64 bits,
// two `uint64_t[32]` (low half first) for 128 bits. 8- and 16-bit values are zero-extended in a 32-bit row.
// Immediates and special registers that are constant during a warp's life (%tid, %ctaid, ...) are rows as
// well, filled when the warp starts. So every value operand is one address: the warp's register file plus
// `offset`. A predicate is one 32-bit lane mask, in a file of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fp4lab::emu {

constexpr unsigned kLanes = 32;

class Warp;
struct Instr;
struct Opcode;  // a row of the opcode table, isa/opcode.h

enum class Type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f32x2,
  f64,
  e4m3,
  e5m2,
  e2m3,
  e3m2,
  e2m1,
  ue8m0,  // sub-types that only cvt and mma name
  e4m3x2,
  e5m2x2,
  e2m3x2,
  e3m2x2,
  e2m1x2,
  e2m1x4,
  e4m3x4,
  e5m2x4,
  e2m3x4,
  e3m2x4,
  ue8m0x2,
  u16x2,
  s16x2,
};
unsigned bits_of(Type);             // storage bits of one value; 1 for pred
std::string_view name_of(Type);     // "u32", without the dot
Type type_named(std::string_view);  // Type::none when the word is no type

enum class Space : uint8_t { generic, constant, global, local, param, shared, shared_cluster };

// Addresses in param space. An entry's parameters have offsets from 0 in its parameter block, which all lanes
// share. The parameters and results of a called function are per lane: address kCallParam + x is address x of
// the lane's local memory. The parser gives the caller's variables for them the same place.
constexpr uint64_t kCallParam = 0x10'0000;

struct Operand {
  enum class Kind : uint8_t {
    none,       // an optional operand that is absent (also the missing half of `%r|%p`)
    value,      // register, immediate or fixed special register: a row at `offset`
    predicate,  // `index` into the predicate file, `negated` for !p
    address,    // [base + displacement]; base row at `offset` if `has_base`, base type `type` (b32 or b64)
    vector,     // { ... }: elements [index, index + count) of Function::vectors
    label,      // `index` = instruction index of the target
    function,   // `index` into Module::functions
    sink,       // `_`; `offset` is a scratch row, 16 bytes per lane, that bodies write and nothing reads
    special,    // a special register that is not constant: `index` is a SpecialRegister
  };
  Kind kind = Kind::none;
  Type type = Type::none;  // declared type of the register, or the type an immediate was read as
  bool negated = false;
  bool has_base = false;
  bool immediate = false;  // value: it was written as a constant; `displacement` holds its bits
  uint16_t count = 0;      // vector: its elements; `type` is then the type common to them, or none
  uint32_t offset = 0;     // byte offset of the row in the warp's register file
  uint32_t index = 0;
  int64_t displacement = 0;  // address: bytes, the symbol's own address included

  explicit operator bool() const { return kind != Kind::none; }
};

enum class SpecialRegister : uint8_t {
  clock,
  clock64,
  clock_hi,
  globaltimer,
  globaltimer_lo,
  globaltimer_hi
};

// Executes one instruction for the lanes in Warp::active (guard already applied). Throws Fault (error.h).
using Body = void (*)(Warp&, const Instr&);

constexpr unsigned kMaxOperands = 10;
constexpr uint32_t kNoPc = 0xffffffff;

struct Instr {
  Body body = nullptr;
  const Opcode* opcode = nullptr;
  int32_t guard = -1;  // predicate index, -1 = unguarded
  bool guard_negated = false;
  uint32_t pc = 0;              // its own index in Function::code
  uint32_t reconverge = kNoPc;  // branches: pc of the immediate post-dominator, kNoPc if none
  uint64_t aux = 0;             // decoded modifiers, from the binder for the body
  Operand op[kMaxOperands];
};

// A place in the CUDA source, from .loc; `caller` is the location that it was inlined at, 0 for none.
struct Location {
  uint32_t file = 0, line = 0, column = 0;
  uint32_t caller = 0;
};

// The cold half of an instruction: what binders, messages and reports need.
struct Source {
  std::vector<std::string_view>
      tokens;                     // opcode split at single dots: "mbarrier", "try_wait", "shared::cta", ...
  uint32_t line = 0, column = 0;  // 1-based, in the PTX text
  uint32_t location = 0;          // index into Module::locations; 0 = unknown
  uint32_t function = 0;

  bool has(std::string_view modifier) const;  // without the dot: has("sat")
  Type type(unsigned nth = 0) const;  // the nth modifier that is a type; Type::none if there are fewer
};

struct Symbol {
  std::string name;
  Space space = Space::global;
  uint64_t address = 0;  // shared: offset in the CTA window (>= 0x400); param/local: offset; global: device
                         // address once loaded
  uint64_t size = 0;
  uint32_t align = 1;
  Type element = Type::b8;
  bool external_shared = false;  // `.extern .shared x[]`: the dynamic shared memory
  bool managed = false;          // .attribute(.managed): accessible from the host too
  std::vector<std::byte> init;   // .global/.const initialiser, empty = zeros
  struct Relocation {
    uint64_t at;
    std::string symbol;
    int64_t addend;
    bool generic = false;          // generic(symbol), which matters for constants
    uint64_t mask = ~uint64_t(0);  // 0xff00(symbol): the byte of the address that is stored
    uint32_t bytes = 8;            // of the element at `at`
  };
  std::vector<Relocation> relocations;  // initialisers that name other symbols
};

struct Parameter {
  std::string name;
  uint32_t offset = 0, size = 0, align = 1;
  bool points_to_shared = false;  // .ptr .shared
};

struct Row {  // how to fill a constant row when a warp starts
  uint32_t offset = 0;
  enum class What : uint8_t {
    bits32,
    bits64,
    special,   // `bits` is a FixedSpecial; 32 bits wide, but gridid and current_graph_exec have 64
    shared32,  // `bits` is an offset in the CTA's shared window; the row holds (rank << kRankShift) + bits
    shared64,
  } what = What::bits32;
  uint64_t bits = 0;
};
enum class FixedSpecial : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  gridid_low,  // as a 32-bit value
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  dynamic_smem_size,
  total_smem_size,
  aggr_smem_size,
  reserved_smem_offset_begin,
  reserved_smem_offset_end,
  reserved_smem_offset_cap,
  reserved_smem_offset_0,  // first byte of the shared memory that the system lends to programs:
                           // cooperative_groups
  reserved_smem_offset_1,  // keeps the barriers of its multi-warp tiles there (details/memory.h)
  warp_size,
  current_graph_exec,
  envreg1,  // high and
  envreg2,  // low half of the address of a cooperative launch's workspace
  nothing,  // 0
};

// Prefix of the name of the external function that stands for a recursion deeper than the inlined levels.
constexpr std::string_view kTooDeep = "more than ";

struct Function {
  std::string name;
  bool entry = false;
  bool noreturn = false;
  bool external = false;  // .extern .func without a body: __assertfail, vprintf
  std::vector<Parameter> params, results;
  uint32_t param_bytes = 0;
  std::vector<Instr> code;
  std::vector<Source> source;    // parallel to code
  std::vector<Operand> vectors;  // elements of vector operands
  // An entry's callees are laid out with it, each at a place of its own (there is no recursion). So all row
  // offsets, predicate indices and local addresses are absolute in the warp's files, and the sizes and
  // constants of an entry include those of its callees. Predicate 0 is always true: the warp's creator sets
  // all its lanes, defined.
  uint32_t register_bytes = 0;
  uint32_t predicate_count = 1;
  std::vector<Row> constants;
  uint32_t static_shared_bytes = 0;                  // it ends at 0x400 + static_shared_bytes
  uint32_t local_base = 0, local_bytes = 0;          // of a lane's local memory: the lowest address, the size
  uint32_t frame_bytes = 0;                          // of them, the .local variables
  static constexpr uint32_t kStackBytes = 16 << 10;  // of each thread, where some function has an alloca
  uint32_t stack_base = 0;                           // its lowest address in local memory
  bool has_stack = false;
  uint32_t dynamic_shared_base = 0x400;  // where the launch's dynamic shared memory begins
  std::vector<Symbol> variables;         // its shared, local and param symbols, for messages
  // For messages, of the entry and its callees: row offset -> "%r12", predicate index -> "%p3".
  std::vector<std::pair<uint32_t, std::string>> register_names;
  std::vector<std::pair<uint32_t, std::string>> predicate_names;
  uint32_t max_ntid[3] = {0, 0, 0}, req_ntid[3] = {0, 0, 0}, req_cluster[3] = {0, 0, 0};
  uint32_t max_cluster_rank = 0, min_ctapersm = 0, max_nreg = 0;
  bool explicit_cluster = false;
  bool blocks_are_clusters = false;  // a launch counts clusters, not CTAs
};

// A constant row with the address of a global or const symbol, completed when the module is loaded.
struct Fixup {
  uint32_t function = 0;
  uint32_t row = 0;     // in Function::constants; `bits` is the addend until then
  uint32_t symbol = 0;  // in Module::symbols
};

struct Module {
  std::string name;                    // of the file, for messages
  std::string text;                    // owns what every string_view points into
  std::deque<std::string> made_names;  // and these are the parser's own
  std::string target, version;         // "sm_100a", "9.0"
  std::vector<Function> functions;
  std::map<std::string, uint32_t, std::less<>> function_index;
  std::vector<Symbol> symbols;         // global and const
  std::vector<Fixup> fixups;           // ptx/load.h carries them out
  std::vector<std::string> files;      // .file table; index = .loc's file number
  std::vector<Location> locations{1};  // 0: unknown

  std::string_view line_text(uint32_t line) const;  // without the newline
};

}  // namespace fp4lab::emu
