// tcgen05.mma at issue: operands are taken and every descriptor is checked (PTX ISA 9.7.16.10.9).
#include "emulator/engine/tcgen05_mma.h"

namespace fp4lab::emu {

namespace {

struct Mods {
  MmaKind kind;
  uint8_t group, scale_vec;
  bool a_in_tmem;
  enum Usage : uint8_t { discard, fill, use, lastuse } usage;
  bool sparse;
  uint8_t buffer;  // of B
};

constexpr const char* kBuffers[] = {"a", "b0", "b1", "b2", "b3"};
constexpr const char* kUsages[] = {"discard", "fill", "use", "lastuse"};

MmaKind kind_of(const Source& s) {
  for (int k = 0; k <= static_cast<int>(MmaKind::mxf4nvf4); ++k)
    if (s.has(fmt::format("kind::{}", name_of(static_cast<MmaKind>(k))))) return static_cast<MmaKind>(k);
  fault(FaultKind::misuse, 0, "no .kind among the modifiers");
}

Mods decode(Instr& in, const Source& s, const Operand& scale_input_d) {
  Mods m{kind_of(s), cta_group(s), 0, in.op[1].kind == Operand::Kind::address, Mods::discard, s.has("sp"), 0};
  for (const char* buffer : kBuffers)
    for (const Mods::Usage usage : {Mods::discard, Mods::fill, Mods::use, Mods::lastuse})
      if (s.has(fmt::format("collector::{}::{}", buffer, kUsages[usage])))
        m.usage = usage, m.buffer = buffer[1] ? static_cast<uint8_t>(buffer[1] - '0') : 0;
  const bool block16 = s.has("block16") || s.has("scale_vec::4X"), block32 = s.has("block32");
  const bool x2 = s.has("scale_vec::2X"), x1 = s.has("scale_vec::1X");
  switch (m.kind) {
    case MmaKind::mxf8f6f4:
      if (block16 || x2) fault(FaultKind::misuse, 0, "kind::mxf8f6f4 takes .scale_vec::1X or .block32");
      m.scale_vec = 1;
      break;
    case MmaKind::mxf4:
      if (block16 || x1) fault(FaultKind::misuse, 0, "kind::mxf4 takes .scale_vec::2X or .block32");
      m.scale_vec = 2;
      break;
    case MmaKind::mxf4nvf4:
      if (x1 || !(block16 || block32 || x2))
        fault(FaultKind::misuse, 0,
              "kind::mxf4nvf4 needs .scale_vec::2X, .scale_vec::4X, .block16 or .block32");
      m.scale_vec = block16 ? 4 : 2;
      break;
    default:
      break;
  }
  if (scale_input_d && (scale_input_d.displacement < 0 || scale_input_d.displacement > 15))
    fault(FaultKind::misuse, 0, "scale-input-d is {}, must be 0 to 15", scale_input_d.displacement);
  if (scale_input_d && m.kind != MmaKind::f16 && m.kind != MmaKind::tf32)
    fault(FaultKind::misuse, 0, "scale-input-d is for kind::f16 and kind::tf32 only");
  return m;
}

enum class Form : uint8_t { plain, masked, scaled, weight_stationary };

// A collector keeps the matrix of an instruction with ::fill; what says ::use must ask for the same one. It
// is read again here all the same: memory must not change before the last use has been committed.
void check_collector(Collector& c, const Mods& m, const char* name, uint64_t matrix, unsigned lane) {
  const bool used = m.usage == Mods::use || m.usage == Mods::lastuse;
  if (used && !c.filled)
    fault(FaultKind::misuse, lane, "tcgen05.mma.collector::{}::{} without a ::fill before it", name,
          kUsages[m.usage]);
  if (used && (c.matrix != matrix || c.kind != static_cast<int>(m.kind)))
    fault(FaultKind::misuse, lane,
          "tcgen05.mma.collector::{}::{} with {} {:#x} of kind::{}, but the collector was filled with {} "
          "{:#x} of kind::{}",
          name, kUsages[m.usage], name[0] == 'a' ? 'A' : 'B', matrix, name_of(m.kind),
          name[0] == 'a' ? 'A' : 'B', c.matrix, name_of(static_cast<MmaKind>(c.kind)));
  c = {m.usage == Mods::fill || m.usage == Mods::use, matrix, static_cast<int>(m.kind)};
}

// See SharedMatrix.
uint32_t data_bytes(MmaKind kind, uint32_t format) {
  if (kind != MmaKind::f8f6f4 && kind != MmaKind::mxf8f6f4) return 16;
  return format == 5 ? 8 : format == 3 || format == 4 ? 12 : 16;  // e2m1; e2m3, e3m2
}

// .ws: columns of B for which zeros stand, and by how many the others are shifted.
void set_zero_columns(MmaOp& op, uint64_t bits) {
  op.zero_columns = zero_column_mask(bits, op.idesc.m, op.idesc.n);
  op.column_shift = static_cast<uint32_t>(bits >> 56 & 63);
  const uint32_t most = op.idesc.m == 32 ? 16 : 32;
  if (op.column_shift > most || op.column_shift > op.idesc.maximum_shift)
    fault(
        FaultKind::misuse, op.lane,
        "tcgen05.mma.ws: the zero-column mask {:#x} shifts by {} columns; the instruction descriptor allows "
        "{}, M = {} at most {}",
        bits, op.column_shift, op.idesc.maximum_shift, op.idesc.m, most);
}

// kind::tf32 alone takes the swizzle with 32-byte atoms, and needs it for an MN-major operand.
void check_swizzle(const SharedMatrix& x, const char* which, MmaKind kind, unsigned lane) {
  const bool atom32 = x.swizzle == SharedMatrix::Swizzle::b128_atom32;
  // K-major operands take every swizzle (PTX ISA 9.7.16.10.1 and .3).
  if (atom32 && !x.k_major && kind != MmaKind::tf32)
    fault(
        FaultKind::descriptor, lane,
        "tcgen05.mma.kind::{}: {} is MN-major and has the 128B swizzle with 32B atoms, which only kind::tf32 "
        "takes there",
        name_of(kind), which);
  if (!x.k_major && kind == MmaKind::tf32 && !atom32)
    fault(FaultKind::descriptor, lane,
          "tcgen05.mma.kind::tf32: {} is MN-major, which needs the 128B swizzle with 32B atoms", which);
}

// Where A and B are.
void set_operands(MmaOp& op, Warp& w, const Instr& in, MmaKind kind) {
  const unsigned lane = op.lane;
  if (op.a_in_tmem) {
    op.a_tmem = static_cast<uint32_t>(w.address(in.op[1], lane));
  } else {
    op.a = shared_matrix(w, lane, w.source<uint64_t>(in.op[1])[lane], "tcgen05.mma: descriptor of A");
    op.a.k_major = !op.idesc.transpose_a;
    op.a.data_bytes = data_bytes(kind, op.idesc.a_format);
    check_swizzle(op.a, "A", kind, lane);
  }
  op.b = shared_matrix(w, lane, w.source<uint64_t>(in.op[2])[lane], "tcgen05.mma: descriptor of B");
  op.b.k_major = !op.idesc.transpose_b;
  op.b.data_bytes = data_bytes(kind, op.idesc.b_format);
  check_swizzle(op.b, "B", kind, lane);
}

void set_disabled_lanes(MmaOp& op, Warp& w, const Operand& v) {
  const unsigned words = op.group == 2 ? 8 : 4;
  if (v.count != words)
    fault(FaultKind::misuse, op.lane, "disable-output-lane has {} registers, must have {}", v.count, words);
  for (unsigned i = 0; i < words; ++i) op.disabled[i] = w.source<uint32_t>(w.element(v, i))[op.lane];
  op.any_disabled = true;
}

template <Form form>
void issue(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  use_group(w.cta, m.group);
  // Behind B: with a sparse A its metadata; then the instruction descriptor. What follows that,
  // plain: enable-input-d, scale-input-d; masked: the disabled lanes, enable-input-d, scale-input-d; block
  // scaled: [sfa], [sfb], enable-input-d; .ws: enable-input-d, zero-column mask
  const Operand* const rest = in.op + (m.sparse ? 5 : 4);
  const uint32_t* idesc = w.source<uint32_t>(rest[-1]);
  constexpr bool ws = form == Form::weight_stationary;
  const uint32_t enable = w.mask(rest[form == Form::plain || ws ? 0 : form == Form::masked ? 1 : 2]);
  const uint64_t* zero_columns = ws && rest[1] ? w.source<uint64_t>(rest[1]) : nullptr;
  for_lanes(w.active, [&](unsigned lane) {
    auto op = std::make_unique<MmaOp>();
    op->lane = lane;
    op->group = m.group, op->scale_vec = m.scale_vec, op->a_in_tmem = m.a_in_tmem;
    op->weight_stationary = ws;
    op->idesc =
        decode_instruction_descriptor(idesc[lane], m.kind, m.scale_vec, m.group, m.a_in_tmem, ws, m.sparse);
    op->sparse = m.sparse;
    if (m.sparse) op->metadata = static_cast<uint32_t>(w.address(in.op[3], lane));
    if (zero_columns) set_zero_columns(*op, zero_columns[lane]);
    op->accumulate = enable >> lane & 1;
    op->d = static_cast<uint32_t>(w.address(in.op[0], lane));
    set_operands(*op, w, in, m.kind);
    if constexpr (form == Form::scaled) {
      op->sfa = static_cast<uint32_t>(w.address(rest[0], lane));
      op->sfb = static_cast<uint32_t>(w.address(rest[1], lane));
    } else if constexpr (!ws) {
      if constexpr (form == Form::masked) set_disabled_lanes(*op, w, rest[0]);
      op->scale_input_d = static_cast<uint8_t>(rest[form == Form::masked ? 2 : 1].displacement);
    }
    if constexpr (ws)
      check_collector(w.cta.state->collector_b[m.buffer], m, kBuffers[1 + m.buffer],
                      w.source<uint64_t>(in.op[2])[lane], lane);
    else
      check_collector(w.cta.state->collector_a, m, kBuffers[0],
                      m.a_in_tmem ? op->a_tmem : w.source<uint64_t>(in.op[1])[lane], lane);
    op->check_tmem(w.cta);
    if (m.group == 2) op->check_tmem(pair_of(w.cta, "tcgen05.mma"));
    op->queue = pipe_of(w, lane);
    w.cta.cluster.submit(std::move(op), w, in, lane);
  });
}

}  // namespace

Body bind_tcgen05_mma(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, in.op[5]));
  return issue<Form::plain>;
}
Body bind_tcgen05_mma_masked(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, in.op[6]));
  return issue<Form::masked>;
}
Body bind_tcgen05_mma_block_scale(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, Operand{}));
  return issue<Form::scaled>;
}

Body bind_tcgen05_mma_ws(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, Operand{}));
  return issue<Form::weight_stationary>;
}

Body bind_tcgen05_mma_sp(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, in.op[6]));
  return issue<Form::plain>;
}
Body bind_tcgen05_mma_sp_masked(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, in.op[7]));
  return issue<Form::masked>;
}
Body bind_tcgen05_mma_sp_block_scale(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, Operand{}));
  return issue<Form::scaled>;
}
Body bind_tcgen05_mma_ws_sp(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(in, s, Operand{}));
  return issue<Form::weight_stationary>;
}

}  // namespace fp4lab::emu
