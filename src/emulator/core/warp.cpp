// A warp's contents: its register file, its constant rows, and the messages about unwritten registers.
#include "emulator/core/warp.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "emulator/core/hooks.h"
#include "emulator/core/machine.h"
#include "emulator/core/place.h"
#include "emulator/core/poison.h"

namespace fp4lab::emu {

namespace {

constexpr size_t kFileAlign = 64;

uint64_t special_value(FixedSpecial which, const Warp& w, unsigned lane) {
  const Cta& cta = w.cta;
  const Grid& grid = cta.cluster.grid;
  const LaunchConfig& c = grid.config;
  const uint32_t thread = w.id * kLanes + lane;
  const uint32_t dynamic = c.dynamic_shared;
  const uint32_t below = (uint32_t(1) << lane) - 1, self = uint32_t(1) << lane;
  switch (which) {
    case FixedSpecial::tid_x:
      return thread % c.block.x;
    case FixedSpecial::tid_y:
      return thread / c.block.x % c.block.y;
    case FixedSpecial::tid_z:
      return thread / c.block.x / c.block.y;
    case FixedSpecial::ntid_x:
      return c.block.x;
    case FixedSpecial::ntid_y:
      return c.block.y;
    case FixedSpecial::ntid_z:
      return c.block.z;
    case FixedSpecial::ctaid_x:
      return cta.index.x;
    case FixedSpecial::ctaid_y:
      return cta.index.y;
    case FixedSpecial::ctaid_z:
      return cta.index.z;
    case FixedSpecial::nctaid_x:
      return c.grid.x;
    case FixedSpecial::nctaid_y:
      return c.grid.y;
    case FixedSpecial::nctaid_z:
      return c.grid.z;
    case FixedSpecial::laneid:
      return lane;
    case FixedSpecial::warpid:
      return w.id;
    case FixedSpecial::nwarpid:
      return grid.device.threads_per_sm / kLanes;
    case FixedSpecial::smid:
      return cta.sm.id;
    case FixedSpecial::nsmid:
      return grid.device.sms;
    case FixedSpecial::gridid:
    case FixedSpecial::gridid_low:
      return 1;
    case FixedSpecial::clusterid_x:
      return cta.index.x / c.cluster.x;
    case FixedSpecial::clusterid_y:
      return cta.index.y / c.cluster.y;
    case FixedSpecial::clusterid_z:
      return cta.index.z / c.cluster.z;
    case FixedSpecial::nclusterid_x:
      return grid.cluster_grid().x;
    case FixedSpecial::nclusterid_y:
      return grid.cluster_grid().y;
    case FixedSpecial::nclusterid_z:
      return grid.cluster_grid().z;
    case FixedSpecial::cluster_ctaid_x:
      return cta.index.x % c.cluster.x;
    case FixedSpecial::cluster_ctaid_y:
      return cta.index.y % c.cluster.y;
    case FixedSpecial::cluster_ctaid_z:
      return cta.index.z % c.cluster.z;
    case FixedSpecial::cluster_nctaid_x:
      return c.cluster.x;
    case FixedSpecial::cluster_nctaid_y:
      return c.cluster.y;
    case FixedSpecial::cluster_nctaid_z:
      return c.cluster.z;
    case FixedSpecial::cluster_ctarank:
      return cta.rank;
    case FixedSpecial::cluster_nctarank:
      return c.cluster.count();
    case FixedSpecial::is_explicit_cluster:
      return grid.function.explicit_cluster || c.cluster.count() > 1;
    case FixedSpecial::lanemask_eq:
      return self;
    case FixedSpecial::lanemask_le:
      return below | self;
    case FixedSpecial::lanemask_lt:
      return below;
    case FixedSpecial::lanemask_ge:
      return ~below;
    case FixedSpecial::lanemask_gt:
      return ~(below | self);
    case FixedSpecial::dynamic_smem_size:
      return dynamic;
    case FixedSpecial::total_smem_size:
      return (grid.shared_bytes() - kReservedShared + 127) / 128 * 128;  // as an H200 allocates
    case FixedSpecial::aggr_smem_size:
      return grid.shared_bytes();
    case FixedSpecial::reserved_smem_offset_begin:
    case FixedSpecial::reserved_smem_offset_0:
    case FixedSpecial::reserved_smem_offset_1:
      return 0;
    case FixedSpecial::reserved_smem_offset_end:
      return kLentShared;
    case FixedSpecial::reserved_smem_offset_cap:
      return kReservedShared;
    case FixedSpecial::warp_size:
      return kLanes;
    case FixedSpecial::nothing:
    case FixedSpecial::current_graph_exec:
      return 0;
    case FixedSpecial::envreg1:
      return grid.workspace() >> 32;
    case FixedSpecial::envreg2:
      return grid.workspace() & 0xffffffff;
  }
  return 0;
}

// Whether its value differs from lane to lane.
bool differs_by_lane(FixedSpecial which) {
  switch (which) {
    case FixedSpecial::tid_x:
    case FixedSpecial::tid_y:
    case FixedSpecial::tid_z:
    case FixedSpecial::laneid:
    case FixedSpecial::lanemask_eq:
    case FixedSpecial::lanemask_le:
    case FixedSpecial::lanemask_lt:
    case FixedSpecial::lanemask_ge:
    case FixedSpecial::lanemask_gt:
      return true;
    default:
      return false;
  }
}

bool is_wide(FixedSpecial which) {
  return which == FixedSpecial::gridid || which == FixedSpecial::current_graph_exec;
}

template <class T>
void fill_row(std::byte* row, T value) {
  std::fill_n(reinterpret_cast<T*>(row), kLanes, value);
}

}  // namespace

Warp::Warp(Cta& cta, unsigned id, uint32_t lanes) : cta(cta), id(id), lanes(lanes) {
  Grid& grid = cta.cluster.grid;
  const Function& f = grid.function;
  const size_t rows = (f.register_bytes + kRowBytes - 1) / kRowBytes;
  const size_t words = rows + 2 * size_t(f.predicate_count);
  registers_ = grid.take_file();
  const bool fresh = !registers_;
  if (fresh) {
    // Left untouched on purpose: an unused row costs no memory.
    size_t bytes = (rows * kRowBytes + words * 4 + kFileAlign - 1) / kFileAlign * kFileAlign;
    registers_ = static_cast<std::byte*>(std::aligned_alloc(kFileAlign, bytes));
    if (!registers_) throw std::bad_alloc();
  }
  defined_ = reinterpret_cast<uint32_t*>(registers_ + rows * kRowBytes);
  predicates_ = defined_ + rows;
  predicates_defined_ = predicates_ + f.predicate_count;
  std::fill_n(defined_, words, 0u);
  if (f.predicate_count) predicates_[0] = predicates_defined_[0] = ~0u;
  for (const Row& row : f.constants) {
    std::byte* place = registers_ + row.offset;
    defined_[row.offset / kRowBytes] = ~0u;
    switch (row.what) {
      case Row::What::bits32:
        if (fresh) fill_row(place, static_cast<uint32_t>(row.bits));
        break;
      case Row::What::bits64:
        if (fresh) fill_row(place, row.bits);
        break;
      case Row::What::shared32:
        fill_row(place, cta.address_of(static_cast<uint32_t>(row.bits)));
        break;
      case Row::What::shared64:
        fill_row(place, uint64_t(cta.address_of(static_cast<uint32_t>(row.bits))));
        break;
      case Row::What::special: {
        const auto which = static_cast<FixedSpecial>(row.bits);
        if (differs_by_lane(which)) {
          auto* row = reinterpret_cast<uint32_t*>(place);
          for (unsigned lane = 0; lane < kLanes; ++lane)
            row[lane] = static_cast<uint32_t>(special_value(which, *this, lane));
        } else if (const uint64_t value = special_value(which, *this, 0); is_wide(which)) {
          fill_row(place, value);
        } else {
          fill_row(place, static_cast<uint32_t>(value));
        }
        break;
      }
    }
  }
  if (f.has_stack) {
    stack_ = std::make_unique<Stack>();
    stack_->base = f.stack_base;
    std::fill(std::begin(stack_->top), std::end(stack_->top), f.stack_base + Function::kStackBytes);
  }
  if (f.local_bytes) {
    const size_t bytes = (size_t(f.local_bytes) * kLanes + kFileAlign - 1) / kFileAlign * kFileAlign;
    local_ = static_cast<std::byte*>(std::aligned_alloc(kFileAlign, bytes));
    if (!local_) throw std::bad_alloc();
    std::memset(local_, kPoison, bytes);
  }
  auto first = std::make_unique<LaneGroup>();
  first->mask = lanes;
  first->function = static_cast<uint32_t>(&f - grid.module.functions.data());
  groups_.push_back(std::move(first));
  group = groups_.front().get();
}

Warp::~Warp() {
  cta.cluster.grid.give_file(registers_);
  std::free(local_);
}

const Function& Warp::function() const { return cta.cluster.grid.module.functions[group->function]; }
const Operand& Warp::element(const Operand& vector, unsigned i) const {
  return function().vectors[vector.index + i];
}
const Source& Warp::source_of(const Instr& i) const { return function().source[i.pc]; }

bool Warp::in_serial_phase() const { return cta.cluster.grid.in_serial_phase(); }

void Warp::saw(const Look& look) {
  Polled& p = group->polled;
  const uint64_t contents = look.length ? cta.cluster.grid.memory.contents(look.low, look.length) : 0;
  const bool same = look == p.look && contents == p.contents;
  p = {look, contents, instructions, same ? p.repeats + 1 : 0};
}

Warp::Bytes Warp::unwritten_bytes(const Operand& o) {
  const size_t row = o.offset / kRowBytes;
  Bytes bytes{};
  if (row < awaited_.size() && awaited_[row] & active & ~defined_[row]) undefined_source(o);
  const auto parts = partly_.find(row);
  for_lanes(active & ~defined_[row], [&](unsigned lane) {
    const uint8_t part = parts == partly_.end() ? 0 : parts->second[lane];
    bytes[lane] = part ? part : 0xff;
  });
  return bytes;
}

bool Warp::unwritten_among(const Operand& o, uint8_t bytes) {
  const Bytes missing = unwritten_bytes(o);
  bool some = false;
  for_lanes(active, [&](unsigned lane) { some |= (missing[lane] & bytes) != 0; });
  return some;
}

void Warp::leave_unwritten(const Operand& o, const Bytes& bytes) {
  const size_t row = o.offset / kRowBytes;
  uint32_t undefined = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) undefined |= uint32_t(bytes[lane] != 0) << lane;
  undefined &= active;
  if (!undefined) return;
  leave_undefined(o, undefined);
  Bytes& parts = partly_[row];
  for_lanes(undefined, [&](unsigned lane) { parts[lane] = bytes[lane] == 0xff ? 0 : bytes[lane]; });
}

void Warp::forget_parts(size_t row, uint32_t lanes) {
  if (const auto parts = partly_.find(row); parts != partly_.end())
    for_lanes(lanes, [&](unsigned lane) { parts->second[lane] = 0; });
}

void Warp::undefined_source(const Operand& o) {
  const size_t row = o.offset / kRowBytes;
  const uint32_t missing = active & ~defined_[row];
  const Function& f = cta.cluster.grid.function;
  std::string name = "a register";
  for (const auto& [offset, text] : f.register_names)
    if (offset == o.offset) name = "register " + text;
  const bool on_its_way = row < awaited_.size() && awaited_[row] & missing;
  const auto parts = partly_.find(row);
  const auto in_part = [&](unsigned lane) { return parts != partly_.end() && parts->second[lane]; };
  const auto first = static_cast<unsigned>(std::countr_zero(missing));
  const Fault unwritten(FaultKind::uninitialized, first,
                        fmt::format("{} (.{}) is read before {} was written, in {}{}", name, name_of(o.type),
                                    in_part(first) ? "all of it" : "it", lane_list(missing),
                                    !on_its_way ? ""
                                    : cta.cluster.grid.device.tmem_columns
                                        ? ": its tcgen05.ld has not been waited for (tcgen05.wait::ld)"
                                        : ": its wgmma has not been waited for (wgmma.wait_group)"));
  if (!cta.cluster.grid.schedule.tolerant) throw unwritten;
  // A pending result means a missing wait, not a value that does not matter. Exceptions: compilers move the
  // use of a tcgen05.ld result across the wait if nothing in the source ties the two (CUTLASS's epilogues),
  // and ptxas keeps loads and uses in order. It does the same with the accumulators of wgmma, which it then
  // "serializes" (its advisories C7510 to C7520).
  if (on_its_way && !hooks::await_products(*this, o) && !hooks::finish_loads(*this)) throw unwritten;
  if ((missing & ~defined_[row]) == 0) return cta.cluster.tolerated(unwritten, *this);
  if (on_its_way) throw unwritten;
  cta.cluster.tolerated(unwritten, *this);
  const size_t bytes = bits_of(o.type) == 64 ? 8 : 4;
  for_lanes(missing, [&](unsigned lane) {
    if (!in_part(lane)) std::memset(registers_ + o.offset + lane * bytes, kPoison, bytes);
  });
  defined_[row] |= missing;
}

void Warp::undefined_predicate(uint32_t index) {
  const uint32_t missing = active & ~predicates_defined_[index];
  const Function& f = cta.cluster.grid.function;
  std::string name = "a predicate";
  for (const auto& [i, text] : f.predicate_names)
    if (i == index) name = "predicate " + text;
  const Fault unwritten(FaultKind::uninitialized, static_cast<unsigned>(std::countr_zero(missing)),
                        fmt::format("{} is read before it was written, in {}", name, lane_list(missing)));
  cta.cluster.note_or_throw(unwritten, *this);
  predicates_[index] &= ~missing;
  predicates_defined_[index] |= missing;
}

void Warp::undefined_carry() {
  const uint32_t missing = active & ~carry_defined_;
  const Fault unwritten(FaultKind::uninitialized, static_cast<unsigned>(std::countr_zero(missing)),
                        fmt::format("the carry flag is read before an instruction with .cc wrote it, in {}",
                                    lane_list(missing)));
  cta.cluster.note_or_throw(unwritten, *this);
  // ptxas keeps the flag in a predicate, which is true if nothing has written it (seen on an H200).
  carry_ |= missing;
  carry_defined_ |= missing;
}

}  // namespace fp4lab::emu
