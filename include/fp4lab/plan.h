// The plan: every knob of a Blackwell kernel, and everything that follows from the knobs, computed in one
// place. The host reads it to check legality, encode maps and launch; the kernel gets the same struct through
// -DFP4LAB_PLAN={..}. No standard header here: NVRTC compiles this file too.
#pragma once
#include "fp4lab/descriptors.h"
#include "fp4lab/kernel_args.h"

namespace fp4lab {

enum class Op { kGroup, kDual };
enum class Roles { kOneWarp, kSpecialized };             // who loads and multiplies
enum class Schedule { kTilePerCta, kStatic, kDynamic };  // kDynamic: clusterlaunchcontrol
enum class Raster { kRightFirst, kLeftFirst };           // which tile coordinate runs fastest
// How C leaves: from registers; through shared memory, by whole sectors or by TMA; transposed by stmatrix.
enum class Epilogue { kDirect, kStaged, kTma, kTransposed };
enum class ScaleCopy { kBulk, kTensor };               // cp.async.bulk, or a tensor map of 64-bit elements
enum class Maps { kByValue, kReplaced };               // kReplaced: tensormap.replace on the device
enum class Hint { kNormal, kEvictFirst, kEvictLast };  // L2 policy of a load
enum class Silu { kFast, kExact, kTanh };              // ex2+rcp, expf and division, tanh.approx
// How the groups reach the device: one launch for all; one launch each, after one another; each on its own
// stream; those streams recorded as a graph and replayed.
enum class LaunchMode { kOne, kLoop, kStreams, kGraph };

// Tensor maps of one group, in the order in which they lie in GemmArgs::maps.
enum class Map { kLeft, kRight, kRight2, kScalesLeft, kScalesRight, kScalesRight2, kOutput };

struct Plan {
  // -- knobs that shape the kernel
  Op op = Op::kGroup;
  bool swap = false;  // weights on the MMA's M side, tokens on its N side
  int mma_m = 128;    // 128, or 256 over a CTA pair
  int mma_n = 128;    // largest MMA_N; a swapped tile uses what its tokens need
  int halves = 1;     // right tiles of mma_n rows side by side that share one left tile
  int n_step = 16;    // MMA_N of a ragged tile is a multiple of this
  int block_k = 256;  // K of a stage
  int cta_group = 1;  // CTAs that share one MMA
  int stages = 1;     // shared-memory ring of operand tiles
  int acc_slots = 1;  // accumulators in TMEM: 2 or more let the epilogue run under the next tile's main loop
  int scale_slots = 1;  // scale-factor buffers in TMEM
  int split_k = 1;      // CTAs (pairs) that share the K of one tile
  Roles roles = Roles::kOneWarp;
  Schedule schedule = Schedule::kTilePerCta;
  Raster raster = Raster::kRightFirst;
  Epilogue epilogue = Epilogue::kDirect;
  int store_bytes = 16;  // width of a store in the epilogue: 16 or 32
  ScaleCopy scale_copy = ScaleCopy::kBulk;
  bool multicast = false;  // each CTA of a pair loads half of the right scales for both
  Maps maps = Maps::kByValue;
  Hint weights = Hint::kNormal;
  Hint tokens = Hint::kNormal;
  Silu silu = Silu::kFast;
  bool collector = false;  // dual: the second product's MMA takes A from the tensor core's collector
  // dual: in that many stages, the last of a tile, all MMAs of the first product come before the second's
  int late_stages = 0;
  bool pdl = false;  // programmatic dependent launch: set up while the kernel before in the stream still runs
  int group_capacity = 1;  // groups that the argument struct holds
  // -- knobs of the launch only
  int ctas = 0;              // grid of a persistent kernel; 0: one per SM
  int split_groups = 0;      // groups, the last of the launch, whose K is split; 0: all
  bool sort_groups = false;  // longest groups first
  LaunchMode launch = LaunchMode::kOne;

  // f(name, value) for every knob; kernel knobs first. The only list of the knobs' names.
  template <class Self, class F>
  FP4LAB_HD static constexpr void visit_kernel_knobs(Self& p, F f) {
    f("op", p.op), f("swap", p.swap), f("mma_m", p.mma_m), f("mma_n", p.mma_n), f("halves", p.halves),
        f("n_step", p.n_step);
    f("block_k", p.block_k), f("cta_group", p.cta_group), f("stages", p.stages), f("acc_slots", p.acc_slots);
    f("scale_slots", p.scale_slots), f("split_k", p.split_k), f("roles", p.roles), f("schedule", p.schedule);
    f("raster", p.raster), f("epilogue", p.epilogue), f("store_bytes", p.store_bytes),
        f("scale_copy", p.scale_copy);
    f("multicast", p.multicast), f("maps", p.maps), f("weights", p.weights), f("tokens", p.tokens),
        f("silu", p.silu), f("collector", p.collector), f("late_stages", p.late_stages), f("pdl", p.pdl);
    f("group_capacity", p.group_capacity);
  }
  template <class Self, class F>
  FP4LAB_HD static constexpr void visit_knobs(Self& p, F f) {
    visit_kernel_knobs(p, f);
    f("ctas", p.ctas), f("split_groups", p.split_groups), f("sort_groups", p.sort_groups),
        f("launch", p.launch);
  }

  // -- tile and work
  FP4LAB_HD constexpr int products() const { return op == Op::kDual ? 2 : 1; }
  FP4LAB_HD constexpr int left_rows() const { return mma_m / cta_group; }   // of one CTA: always 128
  FP4LAB_HD constexpr int right_rows() const { return mma_n / cta_group; }  // of one CTA
  FP4LAB_HD constexpr int k_atoms() const { return block_k / 256; }         // 128-byte swizzle atoms
  FP4LAB_HD constexpr int k_blocks() const { return block_k / 64; }         // MMAs along K per stage
  FP4LAB_HD constexpr int scale_blocks() const {
    return (mma_n + 127) / 128;
  }  // 128-row blocks of right scales
  FP4LAB_HD constexpr int warps() const { return roles == Roles::kOneWarp ? 4 : 6; }
  FP4LAB_HD constexpr int threads() const { return 32 * warps(); }
  FP4LAB_HD constexpr int cluster() const { return cta_group; }

  // MMAs that share a left tile: of two products, or of two halves of a tile's right rows.
  FP4LAB_HD constexpr int right_tiles() const { return products() * halves; }
  FP4LAB_HD constexpr int tile_columns() const { return mma_n * halves; }  // right rows of a tile
  // Right rows that are multiplied for a tile that holds `rows` of them.
  FP4LAB_HD constexpr int tile_n(int rows) const {
    const int n = (rows + n_step - 1) / n_step * n_step;
    return n < tile_columns() ? n : tile_columns();
  }
  // MMA_N of right tile `i` of a tile with `n` such rows, 0 when it is not there, and its first row in the
  // tile.
  FP4LAB_HD constexpr int right_n(int n, int i) const {
    if (halves == 1) return n;
    const int rest = n - i * mma_n;
    return rest < 0 ? 0 : rest < mma_n ? rest : mma_n;
  }
  FP4LAB_HD constexpr int right_start(int i) const { return halves == 1 ? 0 : i * mma_n; }
  FP4LAB_HD constexpr unsigned instruction_descriptor(int n) const {
    return Nvfp4InstructionDescriptor{mma_m, n}.bits();
  }

  // -- bytes of one stage in one CTA
  FP4LAB_HD constexpr int left_bytes() const { return left_rows() * block_k / 2; }
  FP4LAB_HD constexpr int right_bytes() const { return right_rows() * block_k / 2; }
  FP4LAB_HD constexpr int scale_bytes() const { return k_blocks() * 512; }  // 128 rows
  FP4LAB_HD constexpr int scales_right_bytes() const { return scale_blocks() * scale_bytes(); }
  FP4LAB_HD constexpr int stage_bytes() const {
    return left_bytes() + scale_bytes() + right_tiles() * (right_bytes() + scales_right_bytes());
  }
  // Bytes that one stage's loads bring into one CTA: a box that leaves the matrix is filled up and counts in
  // full. `tiles` of the right tiles are there.
  FP4LAB_HD constexpr int load_bytes(int box_rows, int tiles) const {
    return left_bytes() + scale_bytes() + tiles * (box_rows * block_k / 2 + scales_right_bytes());
  }
  FP4LAB_HD constexpr int load_bytes(int box_rows) const { return load_bytes(box_rows, right_tiles()); }
  // Rows of a load of the right operand into one CTA, of a group that has `rows` of them.
  FP4LAB_HD constexpr int box_rows(int rows) const { return right_n(tile_n(rows), 0) / cta_group; }

  // One load of right scales through a tensor map: bytes along K of one row block. Halves when the pair
  // shares them.
  FP4LAB_HD constexpr int scales_right_box_bytes() const { return multicast ? 1024 : 2048; }

  // -- shared memory of one CTA, in bytes from a 1024-aligned base (the period of the 128-byte swizzle)
  FP4LAB_HD constexpr int left_offset(int stage) const { return stage * left_bytes(); }
  FP4LAB_HD constexpr int right_offset(int stage, int tile) const {
    return stages * left_bytes() + (stage * right_tiles() + tile) * right_bytes();
  }
  FP4LAB_HD constexpr int scales_left_offset(int stage) const {
    return right_offset(stages, 0) + stage * scale_bytes();
  }
  FP4LAB_HD constexpr int scales_right_offset(int stage, int tile) const {
    return scales_left_offset(stages) + (stage * right_tiles() + tile) * scales_right_bytes();
  }
  FP4LAB_HD constexpr int staging_offset() const { return scales_right_offset(stages, 0); }
  // An epilogue warp that does not store from registers stages 32 tokens x 32 columns of fp16; TMA reads one
  // buffer while the warp fills the other. Transposed it is two buffers of 16 tokens.
  FP4LAB_HD constexpr int staging_buffers() const {
    return epilogue == Epilogue::kDirect ? 0 : epilogue == Epilogue::kTma ? 2 : 1;
  }
  FP4LAB_HD constexpr int staging_bytes() const { return 4 * 2048 * staging_buffers(); }
  // where tensor maps are edited before they go to global memory, 128 bytes each
  FP4LAB_HD constexpr int map_edit_offset() const { return staging_offset() + staging_bytes(); }
  FP4LAB_HD constexpr int map_edit_bytes() const { return maps == Maps::kReplaced ? 128 * map_count() : 0; }
  FP4LAB_HD constexpr int barrier_offset() const { return map_edit_offset() + map_edit_bytes(); }
  // full[stages] empty[stages] acc_full[acc_fulls] acc_empty[slots] work_full[4] work_empty[4], 8 bytes each
  FP4LAB_HD constexpr int full_barrier(int stage) const { return barrier_offset() + 8 * stage; }
  FP4LAB_HD constexpr int empty_barrier(int stage) const { return full_barrier(stages + stage); }
  // One for each accumulator; one for each product where the first is ready before the second.
  FP4LAB_HD constexpr int acc_fulls() const { return late_stages > 0 ? 2 * acc_slots : acc_slots; }
  FP4LAB_HD constexpr int acc_full_barrier(int slot, int product = 0) const {
    return full_barrier(2 * stages + product * acc_slots + slot);
  }
  FP4LAB_HD constexpr int acc_empty_barrier(int slot) const {
    return full_barrier(2 * stages + acc_fulls() + slot);
  }
  FP4LAB_HD constexpr int work_full_barrier(int slot) const { return acc_empty_barrier(acc_slots + slot); }
  FP4LAB_HD constexpr int work_empty_barrier(int slot) const {
    return work_full_barrier(work_slots() + slot);
  }
  // Tiles that clusterlaunchcontrol has handed out and that some warp has not begun yet.
  FP4LAB_HD constexpr int work_slots() const { return schedule == Schedule::kDynamic ? 4 : 0; }
  FP4LAB_HD constexpr int barriers() const { return 2 * stages + acc_fulls() + acc_slots + 2 * work_slots(); }
  // clusterlaunchcontrol's 16-byte answers, 16-aligned
  FP4LAB_HD constexpr int work_offset(int slot) const {
    return (barrier_offset() + 8 * barriers() + 15) / 16 * 16 + 16 * slot;
  }
  // where tcgen05.alloc leaves the TMEM address
  FP4LAB_HD constexpr int tmem_pointer_offset() const { return work_offset(work_slots()); }
  // split-K: whether this CTA's part of a tile is the last to arrive
  FP4LAB_HD constexpr int last_part_offset() const { return tmem_pointer_offset() + 4; }
  FP4LAB_HD constexpr int shared_bytes() const { return tmem_pointer_offset() + 16; }

  // -- workspace in global memory. Split-K: a counter per tile part and CTA (a tile uses its first part's),
  // then the parts' fp32 sums, 128 lanes x tile_columns() each. Edited maps: one per CTA, group and role.
  FP4LAB_HD constexpr long long partial_bytes() const { return 128ll * tile_columns() * 4; }
  FP4LAB_HD constexpr long long partials_offset(long long tiles) const {
    return (tiles * cta_group * 4 + 127) / 128 * 128;
  }
  FP4LAB_HD constexpr long long workspace_bytes(long long tiles, long long grid) const {
    if (maps == Maps::kReplaced) return grid * group_capacity * map_count() * 128;
    return split_k == 1 ? 0 : partials_offset(tiles) + tiles * cta_group * partial_bytes();
  }
  // Parts that a tile's K is split in, in the launch's group `index` of `groups`: none may be empty.
  FP4LAB_HD constexpr int parts(int k) const { return k / block_k < split_k ? k / block_k : split_k; }
  FP4LAB_HD constexpr int parts(int k, int index, int groups) const {
    return split_groups == 0 || index >= groups - split_groups ? parts(k) : 1;
  }

  // -- TMEM, in columns from the allocation's first
  FP4LAB_HD constexpr int acc_columns() const { return (mma_n + 31) / 32 * 32; }
  FP4LAB_HD constexpr int acc_column(int slot, int product) const {
    return (slot * products() + product) * acc_columns();
  }
  FP4LAB_HD constexpr int scale_slot_columns() const {
    return k_blocks() * 4 * (1 + right_tiles() * scale_blocks());
  }
  FP4LAB_HD constexpr int scales_left_column(int slot, int k_block) const {
    return acc_column(acc_slots, 0) + slot * scale_slot_columns() + 4 * k_block;
  }
  FP4LAB_HD constexpr int scales_right_column(int slot, int tile, int k_block) const {
    return scales_left_column(slot, k_blocks()) + (tile * k_blocks() + k_block) * 4 * scale_blocks();
  }
  FP4LAB_HD constexpr int tmem_columns_used() const { return scales_left_column(scale_slots, 0); }
  FP4LAB_HD constexpr int tmem_columns() const {  // tcgen05.alloc takes powers of two from 32
    int columns = 32;
    while (columns < tmem_columns_used()) columns *= 2;
    return columns;
  }

  // -- argument struct
  FP4LAB_HD constexpr bool has_map(Map map) const {
    switch (map) {
      case Map::kRight2:
        return op == Op::kDual;
      case Map::kScalesLeft:
      case Map::kScalesRight:
        return scale_copy == ScaleCopy::kTensor;
      case Map::kScalesRight2:
        return scale_copy == ScaleCopy::kTensor && op == Op::kDual;
      case Map::kOutput:
        return epilogue == Epilogue::kTma;
      default:
        return true;
    }
  }
  FP4LAB_HD constexpr int map_index(Map map) const {
    int index = 0;
    for (int i = 0; i < int(map); ++i) index += has_map(Map(i));
    return index;
  }
  FP4LAB_HD constexpr int map_count() const { return map_index(Map::kOutput) + has_map(Map::kOutput); }
  FP4LAB_HD constexpr int map_groups() const { return maps == Maps::kReplaced ? 1 : group_capacity; }
  FP4LAB_HD constexpr int args_group_offset() const {
    return map_groups() * map_count() * int(sizeof(TensorMap));
  }
  FP4LAB_HD constexpr int args_tail_offset() const {
    return args_group_offset() + group_capacity * int(sizeof(GroupArgs));
  }
  FP4LAB_HD constexpr int args_first_tile_offset() const {
    return args_tail_offset() + int(sizeof(TailArgs));
  }
  FP4LAB_HD constexpr int args_bytes() const {
    return (args_first_tile_offset() + group_capacity * int(sizeof(int)) + 127) / 128 * 128;
  }

#if !defined(__CUDACC__)
  bool operator==(const Plan&) const = default;
#endif
};

}  // namespace fp4lab
