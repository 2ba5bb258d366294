// The library to beat, at its best: cuBLASLt on expanded operands.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fp4lab/bench.h"
#include "fp4lab/jit.h"
#include "fp4lab/ue4m3.h"
#include "lab/bench/expand.h"

namespace fp4lab {
namespace {

unsigned grid_of(const Device& device, long long items) {
  return unsigned(std::clamp<long long>((items + 255) / 256, 1, 16ll * device.sms()));
}

// All an input set's operands of one group, expanded. The dual GEMM's two weight matrices lie together, so
// that they can be one product or two.
struct Expanded {
  Shape shape;
  DeviceBuffer a, b;  // [m][k]; [n][k], of a dual GEMM [2 n][k]
  CUdeviceptr c = 0;  // the problem's own output
};

// The power of two that brings the largest possible product of code and scale under 448: it costs no bits.
float e4m3_factor(const Operand& x) {
  std::uint8_t largest = 0;
  for (const std::uint8_t scale : x.scales) largest = std::max(largest, scale);
  const float most = kE2m1Max * ue4m3_value(largest);
  return most > 0 ? std::exp2(std::floor(std::log2(kE4m3Max / most))) : 1.0f;
}

struct Variant {
  size_t branches = 1;        // of the graph
  bool tuned = false;         // the algorithm that is fastest alone for each shape, not the heuristics' first
  bool two_products = false;  // dual: B1 and B2 apart
  GemmType sums = GemmType::kF32;  // dual: what the products leave for silu(x) y
};

class CublasPeer : public std::enable_shared_from_this<CublasPeer> {
 public:
  CublasPeer(const Timer& timer, std::shared_ptr<CublasLt> lt, const InputSets& sets, GemmType input)
      : timer_(timer),
        lt_(std::move(lt)),
        input_(input),
        dual_(sets.spec().operation == Operation::kDual),
        kernels_(timer.device()) {
    for (size_t i = 0; i < sets.size(); ++i) expanded_.push_back(expand(sets, i));
    const Shape& s = sets.spec().shapes.front();
    if (dual_) sums_ = DeviceBuffer(timer.device(), size_t(s.m) * s.n * 2 * sizeof(float));
    order_.resize(sets.spec().shapes.size());
    std::iota(order_.begin(), order_.end(), size_t(0));
    std::stable_sort(order_.begin(), order_.end(), [&](size_t x, size_t y) {
      return sets.spec().shapes[x].m > sets.spec().shapes[y].m;  // longest first
    });
    timer.device().synchronize();
  }

  // One call of the variant on `set`, enqueued.
  Timer::Enqueue prepare(const Variant& v) {
    auto products = std::make_shared<std::vector<Product>>(products_of(v));
    while (workspaces_.size() < v.branches) workspaces_.emplace_back(timer_.device(), kCublasWorkspace);
    while (branches_.size() + 1 < v.branches) branches_.emplace_back(timer_.device());
    while (done_.size() + 1 < v.branches) done_.emplace_back(timer_.device());
    return [self = shared_from_this(), products, v](size_t set, CUstream stream) {
      self->enqueue(*products, v, set, stream);
    };
  }

  std::string describe(const Variant& v) const {
    std::string text;
    if (dual_)
      text = fmt::format("{}, sums in {}", v.two_products ? "two products" : "one product of [B1; B2]",
                         v.sums == GemmType::kF16 ? "fp16" : "fp32");
    else
      text = fmt::format("{} product{}", expanded_[0].size(), expanded_[0].size() == 1 ? "" : "s");
    if (v.branches > 1) text += fmt::format(" on {} branches", v.branches);
    return text + (v.tuned ? ", fastest algorithms" : ", first algorithms");
  }

 private:
  struct Product {
    size_t group = 0, branch = 0, algorithm = 0;
    std::shared_ptr<CublasGemm> gemm;
    size_t b_offset = 0, c_offset = 0;  // bytes, of the second product of a dual GEMM
  };

  std::vector<Expanded> expand(const InputSets& sets, size_t set) {
    const Device& device = timer_.device();
    std::vector<Expanded> out;
    const size_t element = input_ == GemmType::kF16 ? 2 : 1;
    const auto& on_device = sets.on_device(set).groups();
    float alpha = 0;
    for (size_t g = 0; g < on_device.size(); ++g) {
      const DeviceGroup& from = on_device[g];
      const GroupData& data = sets.problem(set).groups[g];
      const Shape& s = from.shape;
      Expanded to{s, DeviceBuffer(device, element * size_t(s.m) * s.k),
                  DeviceBuffer(device, element * size_t(s.n) * s.k * (dual_ ? 2 : 1)), from.c.address()};
      const size_t b2 = element * size_t(s.n) * s.k;
      if (input_ == GemmType::kF16) {
        kernels_.to_f16(from.a, to.a.address(), timer_.stream());
        kernels_.to_f16(from.b, to.b.address(), timer_.stream());
        if (dual_) kernels_.to_f16(from.b2, to.b.address() + b2, timer_.stream());
        alpha = 1;
      } else {
        // One factor for each side, so that one alpha undoes them for all groups and sets alike.
        const float a_factor = factor(0, data.a), b_factor = factor(1, data.b);
        kernels_.to_e4m3(from.a, to.a.address(), a_factor, timer_.stream());
        kernels_.to_e4m3(from.b, to.b.address(), b_factor, timer_.stream());
        if (dual_) kernels_.to_e4m3(from.b2, to.b.address() + b2, b_factor, timer_.stream());
        alpha = 1 / (a_factor * b_factor);
      }
      out.push_back(std::move(to));
    }
    alpha_ = alpha;
    return out;
  }

  // Scales of one distribution differ little between sets: a quarter of the first one's factor leaves room,
  // and two steps of e4m3's eighteen binades are no loss.
  float factor(size_t side, const Operand& x) {
    if (factors_[side] == 0) factors_[side] = e4m3_factor(x) / 4;
    if (e4m3_factor(x) < factors_[side])
      fail("e4m3 expansion: a later operand needs the factor {}, the first one took {}", e4m3_factor(x),
           factors_[side]);
    return factors_[side];
  }

  std::shared_ptr<CublasGemm> gemm(const GemmSpec& spec) {
    for (const auto& made : gemms_) {
      const GemmSpec& s = made->spec();
      if (s.m == spec.m && s.n == spec.n && s.k == spec.k && s.output == spec.output &&
          s.c_pitch == spec.c_pitch)
        return made;
    }
    gemms_.push_back(std::make_shared<CublasGemm>(lt_, timer_.device(), spec, kCublasWorkspace));
    return gemms_.back();
  }

  std::vector<Product> products_of(const Variant& v) {
    std::vector<Product> products;
    for (const size_t g : order_) {
      const Shape& s = expanded_[0][g].shape;
      const size_t element = input_ == GemmType::kF16 ? 2 : 1, sum = v.sums == GemmType::kF16 ? 2 : 4;
      GemmSpec spec{s.m, s.n, s.k, input_, GemmType::kF16, 0, alpha_};
      if (dual_) {
        spec.output = v.sums, spec.c_pitch = 2 * s.n;
        if (!v.two_products) spec.n = 2 * s.n;
      }
      Product p{g, 0, 0, gemm(spec), 0, 0};
      products.push_back(p);
      if (v.two_products) {
        p.b_offset = element * size_t(s.n) * s.k, p.c_offset = sum * size_t(s.n);
        products.push_back(p);
      }
    }
    // Each product goes to the branch with the least work so far.
    std::vector<double> load(v.branches);
    for (Product& p : products) {
      p.branch = size_t(std::min_element(load.begin(), load.end()) - load.begin());
      load[p.branch] += p.gemm->spec().m;
      if (v.tuned) p.algorithm = fastest_algorithm(p);
    }
    return products;
  }

  // Alone, operands not in L2. The first of its shape decides for all.
  size_t fastest_algorithm(const Product& p) {
    for (const auto& [gemm, algorithm] : tuned_)
      if (gemm == p.gemm.get()) return algorithm;
    if (workspaces_.empty()) workspaces_.emplace_back(timer_.device(), kCublasWorkspace);
    TimingOptions brief = timer_.options();
    brief.repeats = 3, brief.warmups = 1;
    size_t best = 0;
    double best_us = std::numeric_limits<double>::infinity();
    for (size_t a = 0; a < p.gemm->algorithms(); ++a) {
      double us = std::numeric_limits<double>::infinity();
      try {
        us = timer_
                 .time(
                     expanded_.size(),
                     [&](size_t set, CUstream stream) { run(p, a, set, workspaces_[0].address(), stream); },
                     brief)
                 .us.median;
      } catch (const Error&) {  // an algorithm that cuBLAS proposes and then refuses
      }
      if (us < best_us) best = a, best_us = us;
    }
    tuned_.emplace_back(p.gemm.get(), best);
    return best;
  }

  void run(const Product& p, size_t algorithm, size_t set, CUdeviceptr workspace, CUstream stream) const {
    const Expanded& x = expanded_[set][p.group];
    p.gemm->run(algorithm, x.a.address(), x.b.address() + p.b_offset,
                (dual_ ? sums_.address() : x.c) + p.c_offset, workspace, stream);
  }

  void enqueue(const std::vector<Product>& products, const Variant& v, size_t set, CUstream stream) const {
    const Driver& driver = timer_.device().driver();
    if (v.branches > 1) start_.record(stream);
    for (size_t b = 1; b < v.branches; ++b) driver.cuStreamWaitEvent(branches_[b - 1], start_, 0);
    for (const Product& p : products)
      run(p, p.algorithm, set, workspaces_[p.branch].address(), p.branch ? branches_[p.branch - 1] : stream);
    for (size_t b = 1; b < v.branches; ++b) {
      done_[b - 1].record(branches_[b - 1]);
      driver.cuStreamWaitEvent(stream, done_[b - 1], 0);
    }
    if (dual_) {
      const Expanded& x = expanded_[set][0];
      kernels_.silu_mul(sums_.address(), v.sums == GemmType::kF16, x.c, x.shape.m, x.shape.n, stream);
    }
  }

  const Timer& timer_;
  std::shared_ptr<CublasLt> lt_;
  GemmType input_;
  bool dual_;
  ExpandKernels kernels_;
  float factors_[2] = {0, 0}, alpha_ = 1;
  std::vector<std::vector<Expanded>> expanded_;  // [set][group]
  std::vector<size_t> order_;
  std::vector<std::shared_ptr<CublasGemm>> gemms_;
  std::vector<std::pair<const CublasGemm*, size_t>> tuned_;
  DeviceBuffer sums_;
  std::vector<DeviceBuffer> workspaces_;  // one per branch
  std::vector<Stream> branches_;          // besides the stream of the call
  std::vector<Event> done_;
  Event start_{timer_.device()};
};

}  // namespace

// -- kernels around the library

ExpandKernels::ExpandKernels(const Device& device)
    : module_(load(device, *jit::compile({.source = "ptx/peers/expand.cu",
                                          .arch = fmt::format("sm_{}{}", device.compute_major(),
                                                              device.compute_minor())}))),
      f16_(module_.kernel("expand_f16")),
      e4m3_(module_.kernel("expand_e4m3")),
      silu_f32_(module_.kernel("silu_mul_f32")),
      silu_f16_(module_.kernel("silu_mul_f16")) {}

namespace {
LaunchConfig config_of(const Kernel& kernel, long long items, CUstream stream) {
  LaunchConfig config;
  config.grid.x = grid_of(kernel.device(), items);
  config.block.x = 256;
  config.stream = stream;
  return config;
}
}  // namespace

void ExpandKernels::to_f16(const DeviceOperand& x, CUdeviceptr out, CUstream stream) const {
  launch(f16_, config_of(f16_, 1ll * x.rows * x.k / 16, stream), x.codes.address(), x.scales.address(),
         x.rows, x.k, out);
}

void ExpandKernels::to_e4m3(const DeviceOperand& x, CUdeviceptr out, float factor, CUstream stream) const {
  launch(e4m3_, config_of(e4m3_, 1ll * x.rows * x.k / 16, stream), x.codes.address(), x.scales.address(),
         x.rows, x.k, out, factor);
}

void ExpandKernels::silu_mul(CUdeviceptr xy, bool half, CUdeviceptr c, int m, int n, CUstream stream) const {
  const Kernel& kernel = half ? silu_f16_ : silu_f32_;
  launch(kernel, config_of(kernel, 1ll * m * n / 8, stream), xy, c, m, n);
}

std::vector<Contender> cublas_contenders(const Timer& timer, const std::shared_ptr<CublasLt>& lt,
                                         const InputSets& sets, GemmType input,
                                         std::vector<std::pair<std::string, double>>& tried) {
  const bool dual = sets.spec().operation == Operation::kDual;
  const bool exact = input == GemmType::kF16;
  const auto peer = std::make_shared<CublasPeer>(timer, lt, sets, input);
  const auto contender = [&](const Variant& v, bool must_pass) {
    Contender c;
    c.kernel = exact ? "cublas-fp16" : "cublas-fp8";
    c.peer = true;
    c.how = fmt::format("{}; cuBLASLt {}", peer->describe(v), lt->version());
    c.must_pass = must_pass;
    c.remark = exact ? "operands expanded to fp16 beforehand"
                     : "operands rounded to e4m3 beforehand: not NVFP4, see its error";
    c.launch = "stream";
    c.enqueue = peer->prepare(v);
    return c;
  };
  std::vector<Contender> right, loose;
  // From the stream and as a graph: a graph's launch costs the device more than a kernel's, which one product
  // feels and eight do not.
  const auto add = [&](std::vector<Contender>& to, const Variant& v, bool must_pass) {
    Contender stream = contender(v, must_pass);
    to.push_back(as_graph(timer, sets.size(), stream));
    to.push_back(std::move(stream));
  };
  for (const bool tuned : {false, true}) {
    if (!dual) {
      for (size_t branches = 1; branches <= sets.spec().shapes.size(); branches *= 2)
        add(right, {branches, tuned, false, GemmType::kF32}, exact);
      continue;
    }
    for (const GemmType sums : {GemmType::kF32, GemmType::kF16})
      for (const size_t products : {1, 2, 3}) {  // together, one after the other, side by side
        const Variant v{products == 3 ? size_t(2) : size_t(1), tuned, products > 1, sums};
        const bool half = sums == GemmType::kF16;
        add(half && exact ? loose : right, v, exact && !half);
      }
  }
  std::vector<Contender> out{fastest(timer, sets, std::move(right), tried)};
  if (!loose.empty()) {
    try {
      out.push_back(fastest(timer, sets, std::move(loose), tried));
      out.back().kernel += "-half-sums";
      out.back().remark += "; the products leave fp16 for silu(x) y";
    } catch (const Error&) {  // sums beyond fp16 make NaN of silu(x) y: `tried` says that there is no time
    }
  }
  return out;
}

}  // namespace fp4lab
