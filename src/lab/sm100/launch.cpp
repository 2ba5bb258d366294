// From a plan and a problem in device memory to a launch: tensor maps, argument bytes, grid.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "fp4lab/error.h"
#include "fp4lab/sm100.h"

namespace fp4lab::sm100 {
namespace {

int ceil_div(int a, int b) { return (a + b - 1) / b; }

struct Sides {
  const DeviceOperand *left, *right, *right2;
};
Sides sides_of(const Plan& plan, const DeviceGroup& g) {
  if (plan.swap) return {&g.b, &g.a, nullptr};
  return {&g.a, &g.b, plan.op == Op::kDual ? &g.b2 : nullptr};
}

// Rows x K bytes of e2m1 as bytes: 128 of them, K = 256, are a swizzle atom. UINT8 and 16U4_ALIGN8B give the
// same bytes in shared memory; bytes also exist on machines without 4-bit types.
TensorMapSpec operand_map(const DeviceOperand& x, int box_rows) {
  TensorMapSpec spec;
  spec.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  spec.address = x.codes.address();
  spec.dims = {cuuint64_t(x.k) / 2, cuuint64_t(x.rows)};
  spec.strides = {cuuint64_t(x.k) / 2};
  spec.box = {128, cuuint32_t(box_rows)};
  spec.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  spec.l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  return spec;
}
// Blocked scales: a row per 128 rows of the operand, 512 bytes per K = 64. Elements of 8 bytes, so that K =
// 256 is the largest box there is (256 elements).
TensorMapSpec scales_map(const DeviceOperand& x, int box_bytes) {
  TensorMapSpec spec;
  spec.type = CU_TENSOR_MAP_DATA_TYPE_UINT64;
  spec.address = x.scales.address();
  spec.dims = {cuuint64_t(x.k), cuuint64_t(ceil_div(x.rows, 128))};
  spec.strides = {cuuint64_t(x.k) * 8};
  spec.box = {cuuint32_t(box_bytes) / 8, 1};
  return spec;
}
// C: each epilogue warp stores 32 rows x 32 columns.
TensorMapSpec output_map(const Plan& plan, const DeviceGroup& g) {
  TensorMapSpec spec;
  spec.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  spec.address = g.c.address();
  spec.dims = {cuuint64_t(g.shape.n), cuuint64_t(g.shape.m)};
  spec.strides = {cuuint64_t(g.shape.n) * 2};
  spec.box = {32, 32};
  spec.swizzle = plan.swap ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_64B;
  return spec;
}

struct Tiles {
  int left, right;
};
Tiles tiles_of(const Plan& plan, const Shape& s) {
  return {ceil_div(plan.swap ? s.n : s.m, plan.mma_m), ceil_div(plan.swap ? s.m : s.n, plan.tile_columns())};
}

int grid_of(const Plan& plan, int tiles, int sms) {
  if (plan.schedule != Schedule::kStatic) return tiles * plan.cluster();
  const int ctas = plan.ctas > 0 ? plan.ctas : sms;
  return std::max(1, std::min(tiles, ctas / plan.cluster())) * plan.cluster();
}

struct Built {
  LaunchConfig config;
  std::vector<std::byte> args;
  DeviceBuffer workspace;
};

// One launch that computes these groups.
Built build(const Device& device, const Plan& plan, const std::vector<const DeviceGroup*>& groups) {
  std::vector<std::byte> args(plan.args_bytes());
  const auto put = [&args](std::size_t offset, const auto& value) {
    std::memcpy(args.data() + offset, &value, sizeof value);
  };

  TailArgs tail{};
  std::vector<int> first_tile(plan.group_capacity, kNoTile);
  int slot = 0;
  for (const DeviceGroup* each : groups) {
    const DeviceGroup& group = *each;
    const Sides side = sides_of(plan, group);
    const Tiles tiles = tiles_of(plan, group.shape);
    GroupArgs out{};
    out.codes_left = side.left->codes.address();
    out.codes_right = side.right->codes.address();
    out.scales_left = side.left->scales.address();
    out.scales_right[0] = side.right->scales.address();
    out.scales_right[1] = side.right2 ? side.right2->scales.address() : 0;
    out.c = group.c.address();
    out.left_rows = side.left->rows;
    out.right_rows = side.right->rows;
    out.k = group.shape.k;
    out.box_rows = plan.box_rows(side.right->rows);
    out.left_tiles = tiles.left;
    out.right_tiles = tiles.right;
    out.c_columns = group.shape.n;
    out.parts = plan.parts(group.shape.k, slot, int(groups.size()));
    put(plan.args_group_offset() + slot * sizeof out, out);
    first_tile[slot] = tail.tiles;
    tail.tiles += tiles.left * tiles.right * out.parts;

    const auto put_map = [&](Map map, const TensorMapSpec& spec) {
      if (slot >= plan.map_groups()) return;  // the kernel makes this group's from the first one's
      const CUtensorMap encoded = encode(device, spec);
      static_assert(sizeof encoded == sizeof(TensorMap));
      put((std::size_t(slot) * plan.map_count() + plan.map_index(map)) * sizeof(TensorMap), encoded);
    };
    put_map(Map::kLeft, operand_map(*side.left, plan.left_rows()));
    put_map(Map::kRight, operand_map(*side.right, out.box_rows));
    if (plan.has_map(Map::kRight2)) put_map(Map::kRight2, operand_map(*side.right2, out.box_rows));
    if (plan.has_map(Map::kScalesLeft)) put_map(Map::kScalesLeft, scales_map(*side.left, 2048));
    if (plan.has_map(Map::kScalesRight))
      put_map(Map::kScalesRight, scales_map(*side.right, plan.scales_right_box_bytes()));
    if (plan.has_map(Map::kScalesRight2))
      put_map(Map::kScalesRight2, scales_map(*side.right2, plan.scales_right_box_bytes()));
    if (plan.has_map(Map::kOutput)) put_map(Map::kOutput, output_map(plan, group));
    ++slot;
  }
  LaunchConfig config;
  config.grid.x = grid_of(plan, tail.tiles, device.sms());
  config.block.x = plan.threads();
  config.cluster.x = plan.cluster();
  config.programmatic = plan.pdl;
  config.dynamic_shared = plan.shared_bytes();

  DeviceBuffer workspace;
  if (const long long bytes = plan.workspace_bytes(tail.tiles, config.grid.x); bytes > 0) {
    workspace = DeviceBuffer(device, bytes);
    workspace.fill(0);  // split-K counters start at 0, and every launch leaves them there
    tail.workspace = workspace.address();
  }
  put(plan.args_tail_offset(), tail);
  std::memcpy(args.data() + plan.args_first_tile_offset(), first_tile.data(),
              first_tile.size() * sizeof(int));

  return {config, std::move(args), std::move(workspace)};
}

}  // namespace

std::vector<int> group_order(const Plan& plan, const std::vector<Shape>& shapes) {
  std::vector<int> order(shapes.size());
  std::iota(order.begin(), order.end(), 0);
  if (plan.sort_groups)
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return shapes[a].m > shapes[b].m; });
  return order;
}

Placement placement(const Plan& plan, const Case& c, int sms) {
  Placement work;
  work.sms = sms;
  double multiplied = 0, useful = 0;
  const std::vector<int> order = group_order(plan, c.shapes);
  for (int index = 0; index < int(order.size()); ++index) {
    const Shape& s = c.shapes[order[index]];
    const Tiles t = tiles_of(plan, s);
    work.tiles += t.left * t.right * plan.parts(s.k, index, int(order.size()));
    const int left = plan.swap ? s.n : s.m, right = plan.swap ? s.m : s.n;
    int columns = 0;
    for (int r = 0; r < t.right; ++r) columns += plan.tile_n(right - r * plan.tile_columns());
    multiplied += double(t.left) * plan.mma_m * columns * s.k;
    useful += double(left) * right * s.k;
  }
  work.ctas = grid_of(plan, work.tiles, sms);
  const int concurrent = std::min(work.ctas, sms / plan.cluster() * plan.cluster());
  work.waves = double(work.tiles) * plan.cluster() / std::max(1, concurrent);
  work.busy = double(concurrent) / sms;
  work.rows_used = useful / multiplied;
  work.threads = plan.threads();
  work.cluster = plan.cluster();
  work.stages = plan.stages;
  work.shared_bytes = plan.shared_bytes();
  work.bytes_in_flight = plan.stages * plan.stage_bytes();
  return work;
}

namespace {

// By a pointer to the one parameter. A raw parameter buffer would have to begin where the driver puts the
// first parameter, which for a struct aligned to 128 bytes is not offset 0 on every architecture.
void submit(const Kernel& kernel, const LaunchConfig& config, const std::vector<std::byte>& args) {
  void* parameters[] = {const_cast<std::byte*>(args.data())};
  launch_pointers(kernel, config, parameters);
}

struct Part {
  LaunchConfig config;
  std::vector<std::byte> args;
  DeviceBuffer workspace;
  std::vector<Stream> stream;  // one when the part has a stream of its own
  std::vector<Event> done;
};

class Parts final : public Launch {
 public:
  explicit Parts(Kernel kernel) : kernel(std::move(kernel)) {}
  void run(CUstream stream) const override;
  unsigned grid() const override;
  std::size_t launches() const override { return parts.size(); }
  void fork_and_join(CUstream stream) const;

  Kernel kernel;
  std::vector<Part> parts;
  std::vector<Event> start;  // one when parts have streams
  std::vector<Graph> graph;  // one when recorded
};

unsigned Parts::grid() const {
  unsigned ctas = 0;
  for (const Part& part : parts) ctas += part.config.grid.x;
  return ctas;
}

// Every part starts when `stream` has come this far, and `stream` goes on when all are done.
void Parts::fork_and_join(CUstream stream) const {
  const Driver& driver = kernel.device().driver();
  start.front().record(stream);
  for (const Part& part : parts) {
    const CUstream own = part.stream.front();
    driver.cuStreamWaitEvent(own, start.front(), 0);
    LaunchConfig config = part.config;
    config.stream = own;
    submit(kernel, config, part.args);
    part.done.front().record(own);
  }
  for (const Part& part : parts) driver.cuStreamWaitEvent(stream, part.done.front(), 0);
}

void Parts::run(CUstream stream) const {
  if (!graph.empty()) return graph.front().launch(stream);
  if (!start.empty()) return fork_and_join(stream);
  for (const Part& part : parts) {
    LaunchConfig config = part.config;
    config.stream = stream;
    submit(kernel, config, part.args);
  }
}

}  // namespace

std::unique_ptr<Launch> prepare(const Device& device, const Plan& plan, const DeviceProblem& problem,
                                const Module& module, const std::string& entry) {
  std::vector<const DeviceGroup*> groups;
  for (int g : group_order(plan, problem.spec().shapes)) groups.push_back(&problem.groups()[g]);

  auto launch = std::make_unique<Parts>(module.kernel(entry));
  const auto add = [&](const std::vector<const DeviceGroup*>& some) {
    Built built = build(device, plan, some);
    launch->parts.push_back(
        {std::move(built.config), std::move(built.args), std::move(built.workspace), {}, {}});
  };
  if (plan.launch == LaunchMode::kOne)
    add(groups);
  else
    for (const DeviceGroup* group : groups) add({group});
  if (plan.launch == LaunchMode::kStreams || plan.launch == LaunchMode::kGraph) {
    launch->start.emplace_back(device);
    for (auto& part : launch->parts) part.stream.emplace_back(device), part.done.emplace_back(device);
  }
  if (plan.launch == LaunchMode::kGraph) {
    const Stream recording(device);
    launch->graph.push_back(Graph::capture(recording, [&] { launch->fork_and_join(recording); }));
  }
  return launch;
}

}  // namespace fp4lab::sm100
