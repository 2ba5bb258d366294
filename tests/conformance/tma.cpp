// Tensor-map copies: a box that may leave the tensor on every side, with every swizzle and at every offset
// from its pattern, loaded over a known background; then stored or reduced into the tensor.
#include <algorithm>
#include <cstring>

#include "fp4lab/error.h"
#include "program.h"

namespace fp4lab::conformance {

namespace {

constexpr unsigned kThreads = 128, kRegion = 32 << 10;

struct Type {
  CUtensorMapDataType type;
  unsigned bytes;
  bool floating;
  uint32_t mask = 0xffffffff;  // prevents Inf and NaN in sums
};
constexpr Type kTypes[] = {
    {CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, false},
    {CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, false},
    {CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, false},
    {CU_TENSOR_MAP_DATA_TYPE_INT32, 4, false},
    {CU_TENSOR_MAP_DATA_TYPE_UINT64, 8, false},
    {CU_TENSOR_MAP_DATA_TYPE_INT64, 8, false},
    {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, true, 0xbfffbfff},
    {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, true, 0xbfffffff},
    {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8, true, 0xbfffbfff},
    {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, true, 0xbfffbfff},
    {CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 4, true, 0xbfffffff},
};

class Writer {
 public:
  Writer(uint64_t seed, bool im2col) : r_(seed), im2col_(im2col) {}

  Program run() {
    t_ = r_.pick(kTypes);
    im2col_ ? pixels() : shape();
    p_.in.resize(kRegion);
    fill_random(r_, p_.in);
    fill_random(r_, p_.tensor);
    for (auto* v : {&p_.in, &p_.tensor})
      for (size_t i = 0; i + 4 <= v->size(); i += 4) {
        uint32_t w;
        std::memcpy(&w, &(*v)[i], 4);
        w &= t_.mask;
        std::memcpy(&(*v)[i], &w, 4);
      }
    text();
    p_.threads = kThreads, p_.shared = kRegion + 2048;
    p_.out_bytes = kRegion;
    p_.has_map = true;
    return std::move(p_);
  }

 private:
  struct Row {
    unsigned bytes, span;  // of a row of the box; the most it may have: the swizzle's span
  };
  // The map's type, swizzle, fill, rank (`ranks` of them, from `least` on) and the box's innermost dimension;
  // without a swizzle no row is wider than `widest` bytes.
  Row row(unsigned least, unsigned ranks, unsigned widest) {
    static constexpr CUtensorMapSwizzle kSwizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                                                       CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B};
    Map& m = p_.map;
    const unsigned code = r_.below(4);
    m.type = t_.type, m.swizzle = kSwizzles[code], m.rank = least + r_.below(ranks);
    if (t_.floating && r_.one_in(2)) m.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    const unsigned span = code ? 16u << code : std::min(256 * t_.bytes, widest);
    const unsigned inner = 16 * (1 + r_.below(span / 16));
    m.box[0] = inner / t_.bytes;
    return {inner, span};
  }
  uint64_t first_stride() {
    Map& m = p_.map;
    m.dims[0] = 1 + r_.below(2 * m.box[0] + 16);
    return (m.dims[0] * t_.bytes + 15) / 16 * 16 + 16 * r_.below(3);
  }

  void shape() {
    Map& m = p_.map;
    const auto [inner, span] = row(1, 5, 512);
    uint64_t stride = first_stride();
    uint64_t bytes = inner, size = stride;
    for (unsigned d = 1; d < m.rank; ++d) {
      m.box[d] = 1 + r_.below(d == 1 ? 20 : 4);
      if (bytes * m.box[d] > 16384) m.box[d] = 1;
      m.element_strides[d] = r_.one_in(5) ? 1 + r_.below(3) : 1;
      bytes *= (m.box[d] + m.element_strides[d] - 1) / m.element_strides[d];
      m.dims[d] = 1 + r_.below(2 * m.box[d] + 2);
      m.strides[d - 1] = stride;
      size = stride * m.dims[d];
      stride = size + 16 * r_.below(2);
    }
    // A row takes its swizzle's whole span in shared memory.
    for (unsigned d = m.rank - 1; d > 0 && m.swizzle && bytes / inner * span > kRegion; --d) {
      bytes /= (m.box[d] + m.element_strides[d] - 1) / m.element_strides[d];
      m.box[d] = 1;
    }
    box_bytes_ = static_cast<unsigned>(bytes);
    p_.tensor.resize((size + 255) / 256 * 256);
  }

  // NWC, NHWC or NDHWC tensors of few pixels, with corners on both sides.
  void pixels() {
    Map& m = p_.map;
    const auto [inner, span] = row(3, 3, 128);
    m.pixels = 1 + r_.below(std::min(200u, kRegion / 2 / (m.swizzle ? span : inner)));
    uint64_t stride = first_stride();
    uint64_t size = stride;
    for (unsigned d = 1; d < m.rank; ++d) {
      m.dims[d] = 1 + r_.below(7);
      if (d + 1 < m.rank) {
        m.element_strides[d] = r_.one_in(3) ? 1 + r_.below(3) : 1;
        do {
          m.lower[d - 1] = static_cast<int>(r_.below(6)) - 3;
          m.upper[d - 1] = static_cast<int>(r_.below(6)) - 3;
        } while (static_cast<int>(m.dims[d]) + m.upper[d - 1] - m.lower[d - 1] <= 0);
      }
      m.strides[d - 1] = stride;
      size = stride * m.dims[d];
      stride = size + 16 * r_.below(2);
    }
    box_bytes_ = m.pixels * inner;
    p_.tensor.resize((size + 255) / 256 * 256);
  }

  // Stores require a bounding box within the tensor.
  bool inside() const {
    const Map& m = p_.map;
    for (unsigned d = 0; d + 2 < m.rank; ++d)
      if (m.lower[d] < 0 || m.upper[d] > 0) return false;
    return true;
  }

  std::string coordinates(bool negative) {
    const Map& m = p_.map;
    std::string s;
    if (im2col_) {
      const int unit = static_cast<int>(std::max(1u, 16 / t_.bytes));
      s = fmt::format("{}", r_.one_in(2)
                                ? 0
                                : static_cast<int>(r_.below(static_cast<unsigned>(m.dims[0]))) / unit * unit);
      for (unsigned d = 1; d + 1 < m.rank; ++d) {
        const int first = m.lower[d - 1], last = static_cast<int>(m.dims[d]) - 1 + m.upper[d - 1];
        s += fmt::format(", {}", first + static_cast<int>(r_.below(static_cast<unsigned>(last - first + 1))));
      }
      return s + fmt::format(", {}", r_.below(static_cast<unsigned>(m.dims[m.rank - 1])));
    }
    for (unsigned d = 0; d < m.rank; ++d) {
      const int unit = d == 0 ? static_cast<int>(std::max(1u, 16 / t_.bytes)) : 1;
      const int low = negative ? -static_cast<int>(m.box[d]) - 1 : 0, high = static_cast<int>(m.dims[d]) + 2;
      int c = low + static_cast<int>(r_.below(static_cast<unsigned>(high - low)));
      if (r_.one_in(2)) c = 0;
      c = c / unit * unit;
      s += fmt::format("{}{}", d ? ", " : "", c);
    }
    return s;
  }

  std::string moved(const std::string& list) {  // coordinates are registers
    std::string text, names;
    size_t i = 0, begin = 0;
    for (;; ++i) {
      const size_t end = list.find(", ", begin);
      text += fmt::format("  mov.b32 %c{}, {};\n", i, list.substr(begin, end - begin));
      names += fmt::format("{}%c{}", i ? ", " : "", i);
      if (end == list.npos) break;
      begin = end + 2;
    }
    coordinates_ = names;
    return text;
  }

  std::string fill_region() {
    return fmt::format(
        "  mad.wide.u32 %x, %t, 16, %in; mad.lo.u32 %u, %t, 16, %base; mov.b32 %n, 0;\nF{0}:\n"
        "  ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%x]; st.shared.v4.b32 [%u], {{%v0, %v1, %v2, %v3}};\n"
        "  add.u64 %x, %x, 2048; add.u32 %u, %u, 2048; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {1};\n  @%p "
        "bra F{0};\n"
        "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n",
        labels_++, kRegion / 2048);
  }

  void text() {
    const Map& m = p_.map;
    const unsigned offset = 128 * r_.below(8);
    std::string s =
        ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
        ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 out_p, .param .u64 in_p)\n{\n"
        "  .reg .b64 %out, %in, %x, %map; .reg .b32 %t, %u, %n, %v<4>, %c<5>, %base, %dst; .reg .pred %p, "
        "%q; .reg .b16 %o<3>;\n"
        "  .shared .align 8 .b64 bar;\n"
        "  ld.param.u64 %out, [out_p]; ld.param.u64 %in, [in_p]; mov.b64 %map, map; cvta.param.u64 %map, "
        "%map;\n"
        "  mov.u32 %base, smem; add.u32 %base, %base, 1023; and.b32 %base, %base, -1024; mov.u32 %t, "
        "%tid.x;\n"
        "  setp.ne.u32 %q, %t, 0;\n";
    s += fmt::format("  add.u32 %dst, %base, {};\n", offset);
    s += "  @%q bra READY;\n  mbarrier.init.shared::cta.b64 [bar], 1;\n  "
         "fence.mbarrier_init.release.cluster;\nREADY:\n";
    s += fill_region();
    s += "  @%q bra WAIT;\n" + moved(coordinates(true));
    std::string offsets;
    for (unsigned d = 0; im2col_ && d + 2 < m.rank; ++d) {
      s += fmt::format("  mov.b16 %o{}, {};\n", d, r_.below(5));
      offsets += fmt::format("{}%o{}", d ? ", " : "", d);
    }
    s += fmt::format(
        "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {};\n"
        "  cp.async.bulk.tensor.{}d.shared::cluster.global{}.mbarrier::complete_tx::bytes [%dst], [%map, "
        "{{{}}}], [bar]{};\n",
        box_bytes_, m.rank, im2col_ ? ".im2col" : "", coordinates_, im2col_ ? ", {" + offsets + "}" : "");
    s += "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n  @!%p bra WAIT;\n";
    s += fmt::format(
        "  mad.wide.u32 %x, %t, 16, %out; mad.lo.u32 %u, %t, 16, %base; mov.b32 %n, 0;\nCOPY:\n"
        "  ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%u]; st.global.v4.b32 [%x], {{%v0, %v1, %v2, %v3}};\n"
        "  add.u64 %x, %x, 2048; add.u32 %u, %u, 2048; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {};\n  @%p bra "
        "COPY;\n"
        "  bar.sync 0;\n",
        kRegion / 2048);
    if (!r_.one_in(3) && (!im2col_ || inside())) {
      s += fill_region();
      s += "  @%q bra END;\n" + moved(coordinates(false));
      const std::string operation = reduction();
      s += fmt::format(
          "  cp{}.async.bulk.tensor.{}d.global.shared::cta{}{}.bulk_group [%map, {{{}}}], [%dst];\n",
          operation.empty() ? "" : ".reduce", m.rank, operation, im2col_ ? ".im2col_no_offs" : "",
          coordinates_);
      s += "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\nEND:\n";
    }
    p_.text = s + "  ret;\n}\n";
  }

  std::string reduction() {
    if (r_.one_in(2)) return "";
    static constexpr const char* kInteger[] = {".add", ".min", ".max", ".inc", ".dec", ".and", ".or", ".xor"};
    static constexpr const char* kHalf[] = {".add", ".min", ".max"};
    switch (t_.type) {
      case CU_TENSOR_MAP_DATA_TYPE_UINT32:
        return r_.pick(kInteger);
      case CU_TENSOR_MAP_DATA_TYPE_INT32:
        return kInteger[r_.below(3)];
      case CU_TENSOR_MAP_DATA_TYPE_UINT64:
        return r_.one_in(2) ? kInteger[r_.below(3)] : kInteger[5 + r_.below(3)];
      case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
        return r_.pick(kHalf);
      case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
      case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
        return ".add";
      default:
        return "";
    }
  }

  Random r_;
  Program p_;
  Type t_;
  bool im2col_;
  unsigned box_bytes_ = 0, labels_ = 0;
  std::string coordinates_;
};

}  // namespace

Program generate_tma(uint64_t seed, bool im2col) { return Writer(seed, im2col).run(); }

}  // namespace fp4lab::conformance
