#include "cublas/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "cublas/elements.h"
#include "fp4lab/scale_layout.h"
#include "reference/parallel.h"

namespace fp4lab::blas {

namespace {

constexpr int64_t kTileColumns = 4, kVectors = 4;

template <class T>
struct alignas(64) Line {
  typedef T Vector __attribute__((vector_size(64)));
  T x[64 / sizeof(T)];
};
template <class T>
constexpr int64_t kTileRows = kVectors * 64 / int64_t(sizeof(T));

// sums[j][r] of kTileRows rows and kTileColumns columns: a is [k][kTileRows], b has columns of length k.
template <class T>
[[gnu::always_inline]] inline void tile(const Line<T>* a, const T* b, int64_t k, T* sums) {
  using Vector = typename Line<T>::Vector;
  const auto* x = reinterpret_cast<const Vector*>(a);
  Vector sum[kTileColumns][kVectors] = {};
  for (int64_t i = 0; i < k; ++i, x += kVectors)
    for (int64_t j = 0; j < kTileColumns; ++j)
      for (int64_t v = 0; v < kVectors; ++v) sum[j][v] += x[v] * b[j * k + i];
  __builtin_memcpy(sums, sum, sizeof sum);
}
template <class T>
[[gnu::target("avx512f")]] void tile_avx512(const Line<T>* a, const T* b, int64_t k, T* sums) {
  tile(a, b, k, sums);
}
template <class T>
[[gnu::target("avx2,fma")]] void tile_avx2(const Line<T>* a, const T* b, int64_t k, T* sums) {
  tile(a, b, k, sums);
}
template <class T>
void tile_plain(const Line<T>* a, const T* b, int64_t k, T* sums) {
  tile(a, b, k, sums);
}
template <class T>
auto best_tile() {
  return __builtin_cpu_supports("avx512f")                                 ? tile_avx512<T>
         : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? tile_avx2<T>
                                                                           : tile_plain<T>;
}

double number(const Scalar& s) { return s.on_device ? value_at(s.on_device, s.type, 0) : s.value; }

void* data_of(const Matrix& m, int64_t entry) {
  if (m.each) return m.each[entry];
  return static_cast<char*>(m.data) + entry * m.batch * bits_of(m.type) / 8;
}

double activated(double x, Activation how) {
  if (how == Activation::relu) return x > 0 ? x : 0;
  if (how == Activation::gelu)
    return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return x;
}

// One entry of the batch; T is the type of the sums.
template <class T>
class Entry {
 public:
  Entry(const Product& p, int64_t entry)
      : p_(p),
        alpha_(number(p.alpha)),
        beta_(number(p.beta)),
        a_(data_of(p.a, entry)),
        c_(beta_ != 0 ? data_of(p.c, entry) : nullptr),
        d_(data_of(p.d, entry)),
        bias_(p.bias ? static_cast<const char*>(p.bias) + entry * p.bias_batch * bits_of(p.bias_type) / 8
                     : nullptr),
        columns_((p.d.columns + kTileColumns - 1) / kTileColumns * kTileColumns),
        b_(size_t(columns_ * k())) {
    const Matrix b = p.b.transposed();
    const void* from = data_of(p.b, entry);
    parallel_for(0, p.d.columns, [&](int64_t n) { read_row(b, from, n, b_.data() + n * k(), 1); });
  }

  // Rows [first, first + kTileRows), limited to the matrix.
  void rows(int64_t first) const {
    const int64_t count = std::min(kTileRows<T>, p_.d.rows - first);
    std::vector<Line<T>> a(size_t(k() * kVectors));
    T* const elements = a.empty() ? nullptr : a.front().x;
    for (int64_t r = 0; r < count; ++r) read_row(p_.a, a_, first + r, elements + r, kTileRows<T>);
    static const auto multiply = best_tile<T>();
    T sums[kTileColumns * kTileRows<T>];
    for (int64_t n = 0; n < p_.d.columns; n += kTileColumns) {
      multiply(a.data(), b_.data() + n * k(), k(), sums);
      for (int64_t j = 0; j < std::min(kTileColumns, p_.d.columns - n); ++j)
        for (int64_t r = 0; r < count; ++r) finish(first + r, n + j, sums[j * kTileRows<T> + r]);
    }
  }

  float largest() const { return largest_; }

 private:
  int64_t k() const { return p_.a.columns; }

  void finish(int64_t m, int64_t n, double sum) const {
    double x = alpha_ * sum;
    if (p_.a.scale) x *= factor(p_.a, m);
    if (p_.b.scale) x *= factor(p_.b, n);
    if (c_) x += beta_ * factor(p_.c, m) * value_at(c_, p_.c.type, m * p_.c.row + n * p_.c.column);
    if (bias_) x += value_at(bias_, p_.bias_type, m);
    x = activated(x, p_.activation);
    if (p_.largest) {
      const float size = float(std::fabs(x));
      for (float old = largest_; size > old && !largest_.compare_exchange_weak(old, size);) {
      }
    }
    if (p_.d.scale) x *= factor(p_.d, m);
    store_at(d_, p_.d.type, m * p_.d.row + n * p_.d.column, x);
  }

  const Product& p_;
  double alpha_, beta_;
  const void *a_, *c_;
  void* d_;
  const char* bias_;
  int64_t columns_;
  std::vector<T> b_;  // [n][k], padded to whole tiles with zeros
  mutable std::atomic<float> largest_ = 0;
};

template <class T>
void run(const Product& p) {
  float largest = 0;
  for (int64_t entry = 0; entry < p.entries; ++entry) {
    const Entry<T> e(p, entry);
    parallel_for(0, (p.d.rows + kTileRows<T> - 1) / kTileRows<T>,
                 [&](int64_t t) { e.rows(t * kTileRows<T>); });
    largest = std::max(largest, e.largest());
  }
  if (p.largest) *p.largest = largest;
}

// The size in bytes of a matrix's scales.
int64_t scale_bytes(const Matrix& m) {
  if (m.mode == ScaleMode::tensor) return 4;
  if (m.mode == ScaleMode::outer_vector) return 4 * m.rows;
  const int64_t width = m.mode == ScaleMode::vec16_ue4m3 ? 16 : 32, blocks = (m.columns + width - 1) / width;
  return m.rows && blocks ? int64_t(blocked_scale_offset(m.rows - 1, blocks - 1, blocks)) + 1 : 0;
}

// Empty, or what is wrong with the memory of a matrix or its scales. Matrices in the device's arrays of
// pointers are checked when the product is computed (`missing_entries`).
std::string missing_memory(const char* name, const Matrix& m, int64_t entries) {
  if (m.scale)
    if (std::string why = missing_bytes(fmt::format("the scale of {}", name), m.scale, scale_bytes(m));
        !why.empty())
      return why;
  if (m.each) return missing_bytes(fmt::format("the array of pointers to {}", name), m.each, 8 * entries);
  if (!m.rows || !m.columns) return {};
  const int64_t apart = (entries - 1) * m.batch, first = std::min<int64_t>(0, apart),
                last = (m.rows - 1) * m.row + (m.columns - 1) * m.column + std::max<int64_t>(0, apart);
  return missing_bytes(fmt::format("{}, {} x {},", name, m.rows, m.columns),
                       static_cast<const char*>(m.data) + first * bits_of(m.type) / 8,
                       (last - first + 1) * bits_of(m.type) / 8);
}

// The same for the matrices in the device's arrays of pointers.
std::string missing_entries(const Product& p) {
  const Matrix b = p.b.transposed();
  for (const auto& [name, m] : {std::pair{"A", &p.a}, {"B", &b}, {"D", &p.d}})
    for (int64_t entry = 0; m->each && entry < p.entries; ++entry) {
      Matrix one = *m;
      one.data = m->each[entry], one.each = nullptr;
      if (std::string why = missing_memory(name, one, 1); !why.empty())
        return fmt::format("entry {}: {}", entry, why);
    }
  return {};
}

// The same for everything that a product reads or writes.
std::string missing_memory(const Product& p) {
  const bool adds = p.beta.on_device || p.beta.value != 0;
  const Matrix b = p.b.transposed();
  for (const auto& [name, m] : {std::pair{"A", &p.a}, {"B", &b}, {"C", adds ? &p.c : &p.d}, {"D", &p.d}})
    if (std::string why = missing_memory(name, *m, p.entries); !why.empty()) return why;
  const int64_t biases = (p.entries - 1) * p.bias_batch + p.d.rows;
  const std::tuple<const char*, const void*, int64_t> others[] = {
      {"alpha", p.alpha.on_device, bits_of(p.alpha.type) / 8},
      {"beta", p.beta.on_device, bits_of(p.beta.type) / 8},
      {"the bias", p.bias, biases * bits_of(p.bias_type) / 8},
      {"the largest magnitude", p.largest, 4}};
  for (const auto& [name, at, bytes] : others)
    if (at)
      if (std::string why = missing_bytes(name, at, bytes); !why.empty()) return why;
  return {};
}

void run_any(const Product& p) {
  const bool wide = p.a.type == CUDA_R_64F || p.a.type == CUDA_R_8I;
  wide ? run<double>(p) : run<float>(p);
}

std::string wrong_operand(const char* name, const Matrix& m) {
  if (!bits_of(m.type))
    return fmt::format("{} has cudaDataType {}, which is not emulated", name, int(m.type));
  if (m.type == CUDA_R_4F_E2M1 && m.column != 1)
    return fmt::format("{} of CUDA_R_4F_E2M1 must be contiguous along K", name);
  const bool blocks = m.mode == ScaleMode::vec16_ue4m3 || m.mode == ScaleMode::vec32_ue8m0;
  if (blocks && !m.scale) return fmt::format("{} has block scales, but no pointer to them", name);
  if (m.mode > ScaleMode::outer_vector)
    return fmt::format("scale mode {} of {} is not emulated", int(m.mode), name);
  return {};
}

}  // namespace

std::string missing_bytes(const std::string& name, const void* at, int64_t bytes) {
  CUdeviceptr base = 0;
  size_t size = 0;
  const auto begin = reinterpret_cast<CUdeviceptr>(at);
  if (cuMemGetAddressRange(&base, &size, begin) != CUDA_SUCCESS)
    return fmt::format("{} at {} is not device memory", name, at);
  if (begin + CUdeviceptr(bytes) <= base + size) return {};
  return fmt::format("{} takes {} bytes at {}; the allocation there has {}", name, bytes, at,
                     base + size - begin);
}

Matrix Matrix::transposed() const {
  Matrix t = *this;
  std::swap(t.rows, t.columns);
  std::swap(t.row, t.column);
  return t;
}

std::string why_not(const Product& p) {
  if (std::string why = wrong_operand("A", p.a); !why.empty()) return why;
  if (std::string why = wrong_operand("B", p.b.transposed()); !why.empty()) return why;
  for (const Matrix* m : {&p.a, &p.b})
    if (p.entries > 1 && m->scale && m->mode != ScaleMode::tensor)
      return "block or row scales of batched matrices are not emulated";
  if (!can_store(p.d.type) || !bits_of(p.c.type))
    return fmt::format("results of cudaDataType {} are not emulated", int(p.d.type));
  if (p.a.columns != p.b.rows || p.d.rows != p.a.rows || p.d.columns != p.b.columns)
    return fmt::format("A is {} x {}, B {} x {}, D {} x {}", p.a.rows, p.a.columns, p.b.rows, p.b.columns,
                       p.d.rows, p.d.columns);
  return {};
}

Status explain(Status status, const char* call, const std::string& why) {
  fmt::print(stderr, "fp4lab emulator: {}: {}\n", call, why);
  return status;
}

Status enqueue(const char* call, const Product& p, CUstream stream) {
  if (std::string why = why_not(p); !why.empty()) return explain(kNotSupported, call, why);
  if (p.d.rows <= 0 || p.d.columns <= 0 || p.entries <= 0) return kSuccess;
  if (std::string why = missing_memory(p); !why.empty()) return explain(kInvalidValue, call, why);
  static std::once_flag told;
  std::call_once(told, [call] {
    explain(kSuccess, call, "computed by the CPU, with a rounding other than that of NVIDIA's library");
  });
  return in_stream_order(
      call, stream, [p] { return missing_entries(p); }, [p] { run_any(p); });
}

Status in_stream_order(const char* call, CUstream stream, std::function<std::string()> missing,
                       std::function<void()> work) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (cuStreamIsCapturing(stream, &capture) != CUDA_SUCCESS) return kExecutionFailed;
  // A graph may be launched at any time, so captured work is kept. Without a capture the stream has completed
  // all earlier work, so the arrays of pointers have their final contents.
  struct Ordered {
    std::string call;
    std::function<std::string()> missing;
    std::function<void()> work;
    bool stays;
  };
  const bool stays = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  if (!stays)
    if (std::string why = missing(); !why.empty()) return explain(kInvalidValue, call, why);
  auto ordered = std::make_unique<Ordered>(call, std::move(missing), std::move(work), stays);
  const auto run_ordered = [](void* what) {
    std::unique_ptr<Ordered> o(static_cast<Ordered*>(what));
    const std::string why = o->stays ? o->missing() : "";
    if (why.empty())
      o->work();
    else  // no caller to return an error to
      explain(kInvalidValue, o->call.c_str(), "in a graph, skipped: " + why);
    if (o->stays) o.release();
  };
  if (cuLaunchHostFunc(stream, run_ordered, ordered.get()) != CUDA_SUCCESS) return kExecutionFailed;
  ordered.release();
  return kSuccess;
}

}  // namespace fp4lab::blas
