// Clusters: multicast loads, pair barriers, cluster launch control, and tensor maps edited on the device.
#include <doctest/doctest.h>

#include <set>

#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

TensorMap words(uint64_t address, uint32_t columns, uint32_t rows) {
  TensorMap m;
  m.type = TensorType::u32, m.rank = 2, m.address = address;
  m.dim = {columns, rows, 1, 1, 1}, m.stride = {0, columns * 4, 0, 0, 0};
  m.box = {32, 4, 1, 1, 1}, m.element_stride = {1, 1, 1, 1, 1};
  return m;
}

std::vector<uint32_t> counting(uint32_t n) {
  std::vector<uint32_t> v(n);
  for (uint32_t i = 0; i < n; ++i) v[i] = i;
  return v;
}

}  // namespace

// mbarrier.try_wait "waits up to a system-dependent time limit": a kernel may poll a phase before it issues
// the operation that completes it.
TEST_CASE("a try_wait for a phase that cannot complete yet returns false") {
  Kernel k(module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, smem; mov.u32 %r1, bar; ld.param.u64 %rd0, [out];
      mbarrier.init.shared::cta.b64 [%r1], 1;
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], 0; selp.u32 %r2, 1, 0, %p0;
      st.global.u32 [%rd0], %r2;
      mbarrier.arrive.shared::cta.b64 _, [%r1];
    AGAIN:
      mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], 0; @!%p0 bra AGAIN;
      mov.u32 %r2, 7; st.global.u32 [%rd0+4], %r2;)"));
  const uint64_t out = k.buffer(8);
  k.param(out);
  k.config.block.x = 1;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const LaunchResult r = k.run(seed);
    INFO(r.report);
    REQUIRE(r.ok);
    CHECK(k.download<uint32_t>(out, 2) == std::vector<uint32_t>{0, 7});
  }
}

// CTA r loads box r for all CTAs in `mask`; each CTA expects what it receives and copies both halves to
// global memory.
TEST_CASE("multicast: the same offset in every CTA of the mask, bytes counted in each") {
  const char* meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
  auto text = [&](unsigned mask, unsigned bytes0, unsigned bytes1, const char* last,
                  const char* first = nullptr) {
    return module_text("sm_90a", ".param .align 64 .b8 map[128], .param .u64 out",
                       fmt::format(R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r0, smem; mov.u32 %r1, bar; mov.u32 %r2, %tid.x; mov.u32 %r3, %cluster_ctarank;
      mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0; ld.param.u64 %rd1, [out];
      setp.ne.u32 %p0, %r2, 0; setp.eq.u32 %p1, %r3, 0;
      selp.u32 %r4, {b0}, {b1}, %p1;
      @%p0 bra READY;
      mbarrier.init.shared::cta.b64 [%r1], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;
      fence.mbarrier_init.release.cluster;
    READY:
      {first}
      @%p0 bra WAIT;
      shl.b32 %r5, %r3, 9; add.u32 %r5, %r5, %r0; shl.b32 %r6, %r3, 5; mov.u16 %h0, {mask};
      cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r5], [%rd0, {{%r6, 0}}], [%r1], %h0;
    WAIT:
      {wait}
      shl.b32 %r7, %r2, 2; add.u32 %r8, %r7, %r0; ld.shared.u32 %r9, [%r8];
      shl.b32 %r10, %r3, 8; add.u32 %r10, %r10, %r7; cvt.u64.u32 %rd2, %r10; add.u64 %rd2, %rd2, %rd1;
      st.global.u32 [%rd2], %r9; ld.shared.u32 %r9, [%r8+512]; st.global.u32 [%rd2+128], %r9;
      {last})",
                                   fmt::arg("b0", bytes0), fmt::arg("b1", bytes1), fmt::arg("mask", mask),
                                   fmt::arg("wait", wait("%r1", 0)), fmt::arg("last", last),
                                   fmt::arg("first", first ? first : meet)));
  };
  auto run = [&](const std::string& t, uint64_t seed, std::vector<uint32_t>& got, bool tolerant = false) {
    Kernel k(t);
    k.schedule.tolerant = tolerant;
    k.map(words(k.upload(counting(64 * 4)), 64, 4));
    const uint64_t out = k.buffer(512);
    k.param(out);
    k.config.grid.x = k.config.cluster.x = 2;
    k.config.dynamic_shared = 2048;
    LaunchResult r = k.run(seed);
    got = k.download<uint32_t>(out, 128);
    return r;
  };
  std::vector<uint32_t> got;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    LaunchResult r = run(text(3, 1024, 1024, meet), seed, got);
    INFO(r.report);
    REQUIRE(r.ok);
    for (uint32_t i = 0; i < 128; ++i) CHECK(got[i] == i % 64);
  }
  // Each CTA waits for what it receives and exits; its own multicast may still be pending.
  for (uint64_t seed = 0; seed < 40; ++seed) {
    LaunchResult r = run(text(3, 1024, 1024, ""), seed, got);
    INFO(r.report);
    REQUIRE(r.ok);
    for (uint32_t i = 0; i < 128; ++i) CHECK(got[i] == i % 64);
  }
  LaunchResult r = run(text(7, 1024, 1024, meet), 0, got);
  CHECK(r.report.find("mask 0x0007 in a cluster of 2 CTAs") != std::string::npos);
  r = run(text(2, 1024, 1024, meet), 0, got);  // nothing reaches rank 0
  CHECK(r.kind == FaultKind::deadlock);
  CHECK(r.report.find("1024 bytes pending") != std::string::npos);
  // Without a cluster barrier a copy may run before the other CTA has initialised its mbarrier.
  unsigned early = 0, noted = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    early += run(text(3, 1024, 1024, meet, "bar.sync 0;"), seed, got).kind == FaultKind::mbarrier_absent;
    r = run(text(3, 1024, 1024, meet, "bar.sync 0;"), seed, got, true);
    INFO(r.report);
    REQUIRE(r.ok);
    for (uint32_t i = 0; i < 128; ++i) CHECK(got[i] == i % 64);
    noted += r.notes.find("where there is no mbarrier") != r.notes.npos;
  }
  CHECK(early > 0);
  CHECK(noted == early);
}

TEST_CASE("a warp that only observes phases is not overtaken by asynchronous operations") {
  // Warp 0 loads 64 bytes per phase and waits. The other warps wait for every phase too, but nothing waits
  // for them. On hardware a copy takes longer than their loop, and public kernels rely on it.
  const std::string text = module_text("sm_90a", ".param .u64 in, .param .u64 out", R"(
      .shared .align 128 .b8 buffer[64]; .shared .align 8 .b64 bar;
      mov.u32 %r1, bar; mov.u32 %r2, buffer; mov.u32 %r3, %tid.x; mov.u32 %r5, 0;
      ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
      setp.ne.u32 %p0, %r3, 0;
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
      @!%p0 fence.mbarrier_init.release.cluster;
      bar.sync 0;
    NEXT:
      @%p0 bra WAIT;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;
      cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 64, [%r1];
    WAIT:
      and.b32 %r6, %r5, 1;
    LOOP:
      mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r6;
      @!%p1 bra LOOP;
      add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 50;
      @%p2 bra NEXT;
      mul.wide.u32 %rd2, %r3, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r5;)");
  for (const auto kind : {Schedule::Kind::adversarial, Schedule::Kind::eager})
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Kernel k(text);
      k.param(k.upload(counting(16)));
      const uint64_t out = k.buffer(512);
      k.param(out);
      k.config.block.x = 128;
      k.schedule.kind = kind;
      const LaunchResult r = k.run(seed);
      CAPTURE(seed);
      INFO(r.report);
      REQUIRE(r.ok);
      for (uint32_t got : k.download<uint32_t>(out, 128)) CHECK(got == 50);
    }
}

TEST_CASE("a CTA that exits while others of its cluster still access it is reported") {
  // Rank 1 exits at once; rank 0 arrives on its barrier.
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r1, bar; mov.u32 %r3, %cluster_ctarank; mov.u32 %r2, %tid.x; setp.ne.u32 %p0, %r2, 0;
      @!%p0 mbarrier.init.shared::cta.b64 [%r1], 32;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      setp.eq.u32 %p1, %r3, 1;
      @%p1 bra END;
      mapa.shared::cluster.u32 %r4, %r1, 1;
      mbarrier.arrive.shared::cluster.b64 _, [%r4];
    END:)");
  unsigned noticed = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Kernel k(text);
    k.param(k.buffer(16));
    k.config.grid.x = k.config.cluster.x = 2;
    const LaunchResult r = k.run(seed);
    noticed += !r.ok;
    if (!r.ok) CHECK(r.report.find("exited") != std::string::npos);
  }
  CHECK(noticed > 3);
}

TEST_CASE("mapa accepts any rank; only an access checks whether the cluster has it") {
  // Every lane maps its own number, including lanes beyond the cluster's last CTA (the rank's low byte is
  // used).
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      .shared .align 8 .b64 bar;
      mov.u32 %r1, bar; mov.u32 %r2, %tid.x; ld.param.u64 %rd0, [out];
      mul.lo.u32 %r3, %r2, 37;
      mapa.shared::cluster.u32 %r4, %r1, %r3;
      mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r4;
      setp.ne.u32 %p0, %r2, ACCESSING;
      @%p0 bra END;
      st.shared::cluster.u64 [%r4], 0;
    END:)");
  const auto with = [&](std::string_view lane) {
    std::string t = text;
    return t.replace(t.find("ACCESSING"), 9, lane);
  };
  Kernel k(with("0"));
  const uint64_t out = k.buffer(32 * 4);
  k.param(out);
  const LaunchResult r = k.run(1);
  INFO(r.report);
  REQUIRE(r.ok);
  const auto mapped = k.download<uint32_t>(out, 32);
  for (uint32_t l = 0; l < 32; ++l) CHECK(mapped[l] == (mapped[0] | (l * 37 & 0xff) << 24));

  Kernel beyond(with("1"));
  beyond.param(beyond.buffer(32 * 4));
  CHECK(beyond.run(1).report.find("names the CTA of rank 37, but the cluster has 1") != std::string::npos);
}

TEST_CASE("cluster launch control gives every cluster once") {
  // Each running CTA adds 1 to out[its tile] and requests another until none is left.
  const std::string text = module_text("sm_100a", ".param .u64 out", fmt::format(R"(
      .reg .b128 %q0;
      mov.u32 %r0, smem; add.u32 %r1, %r0, 16; mov.u32 %r2, %tid.x; setp.ne.u32 %p0, %r2, 0; ld.param.u64 %rd0, [out];
      mov.u32 %r3, %ctaid.x; mov.u32 %r5, 0;
      @%p0 bra END;
      mbarrier.init.shared::cta.b64 [%r1], 1;
    TILE:
      mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd1, %rd0; red.global.add.u32 [%rd1], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;
      clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r1], %r5;
      @!%p7 bra W;
      xor.b32 %r5, %r5, 1;
      ld.shared.b128 %q0, [%r0];
      clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q0;
      @!%p1 bra END;
      clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r3, %q0;
      bra TILE;
    END:)"));
  Kernel k(text);
  const uint64_t out = k.buffer(1000 * 4);
  k.param(out);
  k.config.grid.x = 1000;
  k.config.dynamic_shared = 200 * 1024;  // one CTA per SM
  for (uint64_t seed = 0; seed < 3; ++seed) {
    LaunchResult r = k.run(seed);
    INFO(r.report);
    REQUIRE(r.ok);
    CHECK(k.download<uint32_t>(out, 1000) == std::vector<uint32_t>(1000, static_cast<uint32_t>(seed) + 1));
  }
}

TEST_CASE("a tensor map edited in shared memory, published, and used") {
  auto text = [](const std::string& edit) {
    return module_text("sm_90a",
                       ".param .align 64 .b8 map[128], .param .u64 table, .param .u64 other, .param .u64 out",
                       fmt::format(R"(
      .shared .align 128 .b8 copy[128]; .shared .align 8 .b64 bar;
      mov.u32 %r0, smem; mov.u32 %r1, copy; mov.u32 %r2, %tid.x; mov.u32 %r3, bar; setp.ne.u32 %p0, %r2, 0;
      mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0; ld.param.u64 %rd1, [table]; ld.param.u64 %rd2, [other]; ld.param.u64 %rd3, [out];
      mul.wide.u32 %rd4, %r2, 4; add.u64 %rd5, %rd0, %rd4; ld.b32 %r4, [%rd5];
      shl.b32 %r5, %r2, 2; add.u32 %r5, %r5, %r1; st.shared.b32 [%r5], %r4;
      bar.warp.sync -1;
      mov.u32 %r6, 40; mov.u64 %rd7, 256;
      @%p0 bra EDITED;
      {}
    EDITED:
      bar.warp.sync -1;
      tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;
      fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
      @%p0 bra WAIT;
      mbarrier.init.shared::cta.b64 [%r3], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
      cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd1, {{16, 2}}], [%r3];
    WAIT: bar.sync 0;
      {}
      shl.b32 %r5, %r2, 4; add.u32 %r5, %r5, %r0; ld.shared.v4.u32 {{%r10,%r11,%r12,%r13}}, [%r5];
      mul.wide.u32 %rd6, %r2, 16; add.u64 %rd6, %rd6, %rd3; st.global.v4.u32 [%rd6], {{%r10,%r11,%r12,%r13}};)",
                                   edit, wait("%r3", 0)));
  };
  bool tolerant = false, tf32 = false;
  auto run = [&](const std::string& edit, std::vector<uint32_t>& got) {
    Kernel k(text(edit));
    k.schedule.tolerant = tolerant;
    const uint64_t first = k.upload(counting(64 * 8)), other = k.upload(std::vector<uint32_t>(64 * 8, 7));
    std::vector<uint32_t> numbers = counting(64 * 8);
    for (uint32_t& x : numbers) x += 5000;
    std::memcpy(k.memory.host(other), numbers.data(), numbers.size() * 4);
    TensorMap m = words(first, 64, 8);
    m.made_tf32 = tf32;
    k.map(m);
    k.param(k.buffer(128)), k.param(other);
    const uint64_t out = k.buffer(512);
    k.param(out);
    k.config.dynamic_shared = 1024;
    LaunchResult r = k.run(1);
    got = k.download<uint32_t>(out, 128);
    return r;
  };
  std::vector<uint32_t> got;
  LaunchResult r =
      run("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r1], %rd2;\n"
          "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 0, %r6;\n"
          "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], 0, %rd7;",
          got);
  INFO(r.report);
  REQUIRE(r.ok);
  for (uint32_t y = 0; y < 4; ++y)
    for (uint32_t x = 0; x < 32; ++x)
      CHECK(got[y * 32 + x] == (16 + x < 40 ? 5000 + (2 + y) * 64 + 16 + x : 0));
  r =
      run("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r1], %rd7;\n"
          "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r1], 1;",
          got);
  CHECK(r.report.find("more than the 32 bytes of swizzle 32B") != std::string::npos);
  // From zeros: every field is replaced.
  std::string from_zeros;
  for (int i = 0; i < 32; ++i) from_zeros += fmt::format("st.shared.b32 [%r1+{}], 0;\n", 4 * i);
  for (const char* field :
       {"global_address.shared::cta.b1024.b64 [%r1], %rd2", "rank.shared::cta.b1024.b32 [%r1], 1",
        "box_dim.shared::cta.b1024.b32 [%r1], 0, 32", "box_dim.shared::cta.b1024.b32 [%r1], 1, 4",
        "global_dim.shared::cta.b1024.b32 [%r1], 0, %r6", "global_dim.shared::cta.b1024.b32 [%r1], 1, 8",
        "global_stride.shared::cta.b1024.b64 [%r1], 0, %rd7",
        "element_stride.shared::cta.b1024.b32 [%r1], 0, 1",
        "element_stride.shared::cta.b1024.b32 [%r1], 1, 1", "elemtype.shared::cta.b1024.b32 [%r1], 2",
        "interleave_layout.shared::cta.b1024.b32 [%r1], 0", "swizzle_mode.shared::cta.b1024.b32 [%r1], 0",
        "fill_mode.shared::cta.b1024.b32 [%r1], 0"})
    from_zeros += fmt::format("tensormap.replace.tile.{};\n", field);
  r = run(from_zeros, got);
  INFO(r.report);
  REQUIRE(r.ok);
  for (uint32_t y = 0; y < 4; ++y)
    for (uint32_t x = 0; x < 32; ++x)
      CHECK(got[y * 32 + x] == (16 + x < 40 ? 5000 + (2 + y) * 64 + 16 + x : 0));
  r = run("st.shared.b32 [%r1], 1;", got);
  CHECK(r.report.find("wrote into the tensor map") != std::string::npos);
  // Values beyond a field's bits are truncated (seen on an H200, 2026-11-22).
  const std::pair<const char*, const char*> beyond[] = {
      {"box_dim.shared::cta.b1024.b32 [%r1], 1, 260", "box_dim of dimension 1 to 260: must be 1 to 256"},
      {"element_stride.shared::cta.b1024.b32 [%r1], 1, 17", "element_stride of dimension 1 to 17"},
      {"global_dim.shared::cta.b1024.b32 [%r1], 3, 0", "global_dim of dimension 3 to 0: must be 1 to"},
      {"global_stride.shared::cta.b1024.b64 [%r1], 0, 0x10000000107", "must be a multiple of 16 below 2^40"}};
  for (const auto& [field, note] : beyond)
    for (const bool kept : {false, true}) {
      CAPTURE(field);
      tolerant = kept;
      r = run(fmt::format("tensormap.replace.tile.{};\n", field), got);
      CHECK(r.ok == kept);
      CHECK((kept ? r.notes : r.report).find(note) != std::string::npos);
      if (kept) CHECK(got[33] == 3 * 64 + 16 + 1);
    }
  r = run("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 1, 0x80000000;", got);
  CHECK(r.ok);
  r = run("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 1, 0x80000001;", got);
  CHECK(r.kind == FaultKind::illegal_instruction);
  // A map that was once TFLOAT32 continues to round as f32, and traps as any other type.
  r =
      run("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 11;"
          "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 7;",
          got);
  CHECK(r.ok);
  CHECK(got[33] == 0);  // a subnormal number, rounded
  tf32 = true;
  r = run("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 7;", got);
  CHECK(r.ok);
  CHECK(got[33] == 0);  // a subnormal number, rounded
  r = run("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 2;", got);
  CHECK(r.kind == FaultKind::illegal_instruction);
}

TEST_CASE("a cooperative launch has a workspace for grid.sync()") {
  // As in cooperative_groups: %envreg1 is the high half of its address, %envreg2 the low half.
  const std::string body = R"(
    ld.param.u64 %rd0, [out]; mov.u32 %r0, %envreg1; mov.u32 %r1, %envreg2; mov.b64 %rd1, {%r1, %r0};
    setp.eq.u64 %p0, %rd1, 0;
    @%p0 bra NONE;
    bar.sync 0; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0;
    @%p1 bra WAIT;
    atom.add.release.gpu.u32 %r3, [%rd1+4], 1;
  WAIT: ld.acquire.gpu.u32 %r3, [%rd1+4]; setp.lt.u32 %p0, %r3, 3;
    @%p0 bra WAIT;
    st.global.u32 [%rd0], %r3;
    bra END;
  NONE: st.global.u32 [%rd0], -1;
  END:)";
  for (bool cooperative : {true, false}) {
    Kernel k(module_text("sm_90a", ".param .u64 out", body));
    const uint64_t out = k.buffer(4);
    k.param(out);
    k.config.grid.x = 3;
    k.config.block.x = 64;
    k.config.cooperative = cooperative;
    const LaunchResult r = k.run();
    INFO(r.report);
    REQUIRE(r.ok);
    CHECK(k.download<uint32_t>(out, 1)[0] == (cooperative ? 3u : 0xffffffffu));
  }
}
