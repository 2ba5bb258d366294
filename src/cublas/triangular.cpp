// cublasXtrsm and cublasXtrsmBatched: triangular systems, op(A) X = alpha B (side left) or X op(A) = alpha B
// (side right), X in B's place. The sums are fp64's, rounded when an element of X is stored.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cublas/library.h"

using namespace fp4lab::blas;

namespace {

struct System {
  const char* call;
  int side, fill, op, diagonal;  // cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t
  int64_t m, n, lda, ldb, entries;
  cudaDataType type;
  Scalar alpha;
  const void *a, *b;                  // one system,
  const void *const *as, *const *bs;  // or the device's arrays of pointers

  bool right() const { return side == 1; }
  int64_t order() const { return right() ? n : m; }
};

// One side's equations by substitution: unknown i of a line follows from the earlier ones.
template <class T>
void solve(const System& s, double alpha, const T* a, T* b) {
  const bool right = s.right(), unit = s.diagonal == 1;
  const int64_t order = s.order(), lines = right ? s.m : s.n;
  // Element (row, column) of the matrix on the left of the unknowns: op(A), or its transpose if A is on the
  // right.
  const bool across = (s.op != 0) != right;
  const auto at = [&](int64_t row, int64_t column) {
    return double(across ? a[column + row * s.lda] : a[row + column * s.lda]);
  };
  const bool last_first = (s.fill == 1) != across;
  std::vector<double> x(static_cast<size_t>(order));
  for (int64_t line = 0; line < lines; ++line) {
    T* const begin = right ? b + line : b + line * s.ldb;
    const int64_t step = right ? s.ldb : 1;
    for (int64_t k = 0; k < order; ++k) {
      const int64_t i = last_first ? order - 1 - k : k;
      double sum = alpha * double(begin[i * step]);
      for (int64_t j = last_first ? i + 1 : 0; j < (last_first ? order : i); ++j)
        sum -= at(i, j) * x[size_t(j)];
      x[size_t(i)] = unit ? sum : sum / at(i, i);
    }
    for (int64_t i = 0; i < order; ++i) begin[i * step] = T(x[size_t(i)]);
  }
}

double alpha_of(const System& s) {
  return s.alpha.on_device ? value_at(s.alpha.on_device, s.type, 0) : s.alpha.value;
}

template <class T>
void run(const System& s) {
  const double alpha = alpha_of(s);
  for (int64_t entry = 0; entry < s.entries; ++entry) {
    T* const b = static_cast<T*>(const_cast<void*>(s.bs ? s.bs[entry] : s.b));
    if (alpha != 0)
      solve<T>(s, alpha, static_cast<const T*>(s.as ? s.as[entry] : s.a), b);
    else  // A is not accessed, and B may contain NaNs
      for (int64_t column = 0; column < s.n; ++column) std::fill_n(b + column * s.ldb, s.m, T(0));
  }
}

// Empty, or which of its memory is not device memory.
std::string missing_memory(const System& s) {
  const int64_t bytes = s.type == CUDA_R_64F ? 8 : 4;
  if (s.alpha.on_device)
    if (std::string why = missing_bytes("alpha", s.alpha.on_device, bytes); !why.empty()) return why;
  const bool reads_a = alpha_of(s) != 0;
  for (int64_t entry = 0; entry < s.entries; ++entry) {
    const void *const a = s.as ? s.as[entry] : s.a, *const b = s.bs ? s.bs[entry] : s.b;
    const int64_t bytes_a = bytes * ((s.order() - 1) * s.lda + s.order());
    if (std::string why = reads_a ? missing_bytes("A", a, bytes_a) : ""; !why.empty()) return why;
    if (std::string why = missing_bytes("B", b, bytes * ((s.n - 1) * s.ldb + s.m)); !why.empty()) return why;
  }
  return {};
}

void run_any(const System& s) { s.type == CUDA_R_64F ? run<double>(s) : run<float>(s); }

std::string why_not(const System& s) {
  const auto flag = [](int x) { return x == 0 || x == 1; };
  if (!flag(s.side) || !flag(s.fill) || s.op < 0 || s.op > 2 || !flag(s.diagonal))
    return fmt::format("side {}, fill mode {}, operation {}, diagonal {}", s.side, s.fill, s.op, s.diagonal);
  if (s.m < 0 || s.n < 0 || s.entries < 0) return fmt::format("m {}, n {}, {} systems", s.m, s.n, s.entries);
  if (s.lda < std::max<int64_t>(1, s.order()) || s.ldb < std::max<int64_t>(1, s.m))
    return fmt::format("leading dimensions {} and {} of A, {} x {}, and B, {} x {}", s.lda, s.ldb, s.order(),
                       s.order(), s.m, s.n);
  return {};
}

Status enqueue(void* handle, System s) {
  if (!handle) return kNotInitialized;
  const CUstream stream = static_cast<Handle*>(handle)->stream;
  if (std::string why = why_not(s); !why.empty()) return explain(kInvalidValue, s.call, why);
  if (!s.m || !s.n || !s.entries) return kSuccess;
  for (const auto* array : {s.as, s.bs})
    if (array)
      if (std::string why = missing_bytes("the array of pointers", array, 8 * s.entries); !why.empty())
        return explain(kInvalidValue, s.call, why);
  return in_stream_order(
      s.call, stream, [s] { return missing_memory(s); }, [s] { run_any(s); });
}

System system(const char* call, void* handle, int side, int fill, int op, int diagonal, int m, int n,
              const void* alpha, cudaDataType type, int lda, int ldb) {
  const bool on_device = handle && static_cast<Handle*>(handle)->pointer_mode;
  System s{};
  s.call = call, s.side = side, s.fill = fill, s.op = op, s.diagonal = diagonal;
  s.m = m, s.n = n, s.lda = lda, s.ldb = ldb, s.entries = 1, s.type = type;
  s.alpha = on_device ? Scalar{0, alpha, type} : Scalar{value_at(alpha, type, 0), nullptr, type};
  return s;
}

}  // namespace

extern "C" {
#define TRSM(X, T, kType)                                                                                    \
  Status cublas##X##trsm_v2(void* h, int side, int fill, int op, int diagonal, int m, int n, const T* alpha, \
                            const T* a, int lda, T* b, int ldb) {                                            \
    if (!alpha) return kInvalidValue;                                                                        \
    System s = system("cublas" #X "trsm", h, side, fill, op, diagonal, m, n, alpha, kType, lda, ldb);        \
    s.a = a, s.b = b;                                                                                        \
    return enqueue(h, s);                                                                                    \
  }                                                                                                          \
  Status cublas##X##trsmBatched(void* h, int side, int fill, int op, int diagonal, int m, int n,             \
                                const T* alpha, const T* const a[], int lda, T* const b[], int ldb,          \
                                int count) {                                                                 \
    if (!alpha) return kInvalidValue;                                                                        \
    System s = system("cublas" #X "trsmBatched", h, side, fill, op, diagonal, m, n, alpha, kType, lda, ldb); \
    s.as = reinterpret_cast<const void* const*>(a), s.bs = reinterpret_cast<const void* const*>(b);          \
    s.entries = count;                                                                                       \
    return enqueue(h, s);                                                                                    \
  }
TRSM(S, float, CUDA_R_32F)
TRSM(D, double, CUDA_R_64F)
#undef TRSM
}
