// libcublasLt.so.13, the part for matrix products: layouts, operation descriptors and cublasLtMatmul.
// Enumerators and structure sizes are those of cublasLt.h of CUDA 13.0.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

#include "cublas/library.h"
#include "cublas/product.h"

using namespace fp4lab::blas;

namespace {

// The contents of cublasLtMatrixLayoutOpaque_t (8 words) and cublasLtMatmulDescOpaque_t (32).
struct Layout {
  uint32_t type;
  int32_t order;  // 0 column-major, 1 row-major
  uint64_t rows, columns;
  int64_t pitch;
  int32_t entries;
  int64_t batch;
};
struct Description {
  int32_t compute, scale_type, pointer_mode, transposed_a, transposed_b, transposed_c;
  uint32_t epilogue;
  int32_t bias_type;
  const void* bias;
  int64_t bias_batch;
  const void *scale_a, *scale_b, *scale_c, *scale_d;
  float* largest;
  int32_t mode_a, mode_b, mode_c, mode_d;
  int32_t sm_count;
  int8_t fast;
};
static_assert(sizeof(Layout) <= 64 && sizeof(Description) <= 256);

// cublasLtMatmulHeuristicResult_t
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int32_t state;
  float waves;
  int32_t reserved[4];
};

struct Attribute {
  int number;
  size_t offset, bytes;
};
constexpr Attribute kOfLayout[] = {{0, offsetof(Layout, type), 4},  {1, offsetof(Layout, order), 4},
                                   {2, offsetof(Layout, rows), 8},  {3, offsetof(Layout, columns), 8},
                                   {4, offsetof(Layout, pitch), 8}, {5, offsetof(Layout, entries), 4},
                                   {6, offsetof(Layout, batch), 8}};
constexpr Attribute kOfDescription[] = {
    {0, offsetof(Description, compute), 4},      {1, offsetof(Description, scale_type), 4},
    {2, offsetof(Description, pointer_mode), 4}, {3, offsetof(Description, transposed_a), 4},
    {4, offsetof(Description, transposed_b), 4}, {5, offsetof(Description, transposed_c), 4},
    {7, offsetof(Description, epilogue), 4},     {8, offsetof(Description, bias), 8},
    {10, offsetof(Description, bias_batch), 8},  {15, offsetof(Description, sm_count), 4},
    {17, offsetof(Description, scale_a), 8},     {18, offsetof(Description, scale_b), 8},
    {19, offsetof(Description, scale_c), 8},     {20, offsetof(Description, scale_d), 8},
    {21, offsetof(Description, largest), 8},     {25, offsetof(Description, fast), 1},
    {26, offsetof(Description, bias_type), 4},   {31, offsetof(Description, mode_a), 4},
    {32, offsetof(Description, mode_b), 4},      {33, offsetof(Description, mode_c), 4},
    {34, offsetof(Description, mode_d), 4}};

Status set(const char* call, std::span<const Attribute> all, void* object, int number, const void* from,
           size_t bytes) {
  if (!object || !from) return kInvalidValue;
  for (const Attribute& a : all)
    if (a.number == number) {
      if (bytes != a.bytes)
        return explain(kInvalidValue, call,
                       fmt::format("attribute {} has {} bytes, not {}", number, a.bytes, bytes));
      std::memcpy(static_cast<char*>(object) + a.offset, from, bytes);
      return kSuccess;
    }
  return explain(kNotSupported, call, fmt::format("attribute {} is not emulated", number));
}

Status get(std::span<const Attribute> all, const void* object, int number, void* to, size_t bytes,
           size_t* written) {
  for (const Attribute& a : all)
    if (object && a.number == number) {
      if (written) *written = a.bytes;
      if (!bytes) return written ? kSuccess : kInvalidValue;
      if (!to || bytes < a.bytes) return kInvalidValue;
      std::memcpy(to, static_cast<const char*>(object) + a.offset, a.bytes);
      return kSuccess;
    }
  return kInvalidValue;
}

template <class T>
Status create(T** out, const T& initial) {
  if (!out) return kInvalidValue;
  *out = new (std::nothrow) T(initial);
  return *out ? kSuccess : kAllocFailed;
}
template <class T>
Status initialise(T* out, size_t bytes, const T& initial) {
  if (!out) return kInvalidValue;
  if (bytes < sizeof(T)) return kAllocFailed;
  *out = initial;
  return kSuccess;
}

Matrix matrix(const void* data, const Layout& l, bool transposed, const void* scale, int mode) {
  Matrix m;
  m.data = const_cast<void*>(data), m.type = cudaDataType(l.type);
  m.rows = int64_t(l.rows), m.columns = int64_t(l.columns), m.batch = l.batch;
  m.row = l.order ? l.pitch : 1, m.column = l.order ? 1 : l.pitch;
  m.scale = scale, m.mode = ScaleMode(mode);
  return transposed ? m.transposed() : m;
}

// Fills the product from the layouts and the descriptor. Returns an empty string, or why it is not possible.
std::string product(const Description& d, const void* alpha, const void* a, const Layout& la, const void* b,
                    const Layout& lb, const void* beta, const void* c, const Layout& lc, void* out,
                    const Layout& ld, Product* p) {
  for (const Layout* l : {&la, &lb, &lc, &ld})
    if (l->order < 0 || l->order > 1) return fmt::format("matrix order {} is not emulated", l->order);
  constexpr uint32_t kRelu = 2, kBias = 4, kGelu = 32;
  const uint32_t epilogue = d.epilogue == 1 ? 0 : d.epilogue;
  if (epilogue & ~(kRelu | kBias | kGelu)) return fmt::format("epilogue {} is not emulated", d.epilogue);
  if (d.transposed_c || d.pointer_mode > 1)
    return fmt::format("operation {} on C, pointer mode {} are not emulated", d.transposed_c, d.pointer_mode);
  p->a = matrix(a, la, d.transposed_a, d.scale_a, d.mode_a);
  p->b = matrix(b, lb, d.transposed_b, d.scale_b, d.mode_b);
  p->c = matrix(c, lc, false, d.scale_c, d.mode_c);
  p->d = matrix(out, ld, false, d.scale_d, d.mode_d);
  p->entries = ld.entries;
  const auto type = cudaDataType(d.scale_type);
  const auto scalar = [&](const void* at) {
    return d.pointer_mode ? Scalar{0, at, type} : Scalar{at ? value_at(at, type, 0) : 0, nullptr, type};
  };
  p->alpha = scalar(alpha), p->beta = scalar(beta);
  p->activation = epilogue & kRelu   ? Activation::relu
                  : epilogue & kGelu ? Activation::gelu
                                     : Activation::none;
  if (epilogue & kBias) p->bias = d.bias;
  p->bias_type = d.bias_type < 0 ? p->d.type : cudaDataType(d.bias_type);
  p->bias_batch = d.bias_batch, p->largest = d.largest;
  if (d.mode_c || d.mode_d) return "block or row scales of C and D are not emulated";
  return why_not(*p);
}

// Empty, or what is wrong with a layout, by itself or compared with the result's.
std::string wrong_layout(const char* name, const Layout& l, const Layout& result) {
  const uint64_t least = l.order ? l.columns : l.rows;
  if (l.pitch < 0 || uint64_t(l.pitch) < least)
    return fmt::format("{} is {} x {}, {}: its leading dimension {} is less than {}", name, l.rows, l.columns,
                       l.order ? "row-major" : "column-major", l.pitch, least);
  if (l.entries != result.entries)
    return fmt::format("{} has {} matrices, D {}", name, l.entries, result.entries);
  return {};
}

Layout initial_layout(int type, uint64_t rows, uint64_t columns, int64_t pitch) {
  return {uint32_t(type), 0, rows, columns, pitch, 1, 0};
}
Description initial_description(int compute, int scale_type) {
  Description d{};
  d.compute = compute, d.scale_type = scale_type, d.epilogue = 1, d.bias_type = -1;
  return d;
}

struct Preference {
  uint64_t unused[8];
};

}  // namespace

extern "C" {

Status cublasLtCreate(void** handle) {
  if (!handle) return kInvalidValue;
  if (!have_context()) return kNotInitialized;
  *handle = new char;
  return kSuccess;
}
Status cublasLtDestroy(void* handle) {
  delete static_cast<char*>(handle);
  return kSuccess;
}
size_t cublasLtGetVersion() { return kVersion; }
size_t cublasLtGetCudartVersion() { return 13000; }
Status cublasLtGetProperty(int type, int* value) { return property(type, value); }
const char* cublasLtGetStatusName(int status) { return status_name(status); }
const char* cublasLtGetStatusString(int status) { return status_text(status); }

Status cublasLtMatrixLayoutCreate(Layout** out, int type, uint64_t rows, uint64_t columns, int64_t pitch) {
  return create(out, initial_layout(type, rows, columns, pitch));
}
Status cublasLtMatrixLayoutInit_internal(Layout* out, size_t bytes, int type, uint64_t rows, uint64_t columns,
                                         int64_t pitch) {
  return initialise(out, bytes, initial_layout(type, rows, columns, pitch));
}
Status cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return kSuccess;
}
Status cublasLtMatrixLayoutSetAttribute(Layout* l, int number, const void* from, size_t bytes) {
  return set("cublasLtMatrixLayoutSetAttribute", kOfLayout, l, number, from, bytes);
}
Status cublasLtMatrixLayoutGetAttribute(const Layout* l, int number, void* to, size_t bytes,
                                        size_t* written) {
  return get(kOfLayout, l, number, to, bytes, written);
}

Status cublasLtMatmulDescCreate(Description** out, int compute, int scale_type) {
  return create(out, initial_description(compute, scale_type));
}
Status cublasLtMatmulDescInit_internal(Description* out, size_t bytes, int compute, int scale_type) {
  return initialise(out, bytes, initial_description(compute, scale_type));
}
Status cublasLtMatmulDescDestroy(Description* d) {
  delete d;
  return kSuccess;
}
Status cublasLtMatmulDescSetAttribute(Description* d, int number, const void* from, size_t bytes) {
  return set("cublasLtMatmulDescSetAttribute", kOfDescription, d, number, from, bytes);
}
Status cublasLtMatmulDescGetAttribute(const Description* d, int number, void* to, size_t bytes,
                                      size_t* written) {
  return get(kOfDescription, d, number, to, bytes, written);
}

// Preferences are hints for choosing a kernel; here there is only one.
Status cublasLtMatmulPreferenceCreate(Preference** out) { return create(out, Preference{}); }
Status cublasLtMatmulPreferenceInit_internal(Preference* out, size_t bytes) {
  return initialise(out, bytes, Preference{});
}
Status cublasLtMatmulPreferenceDestroy(Preference* p) {
  delete p;
  return kSuccess;
}
Status cublasLtMatmulPreferenceSetAttribute(Preference* p, int, const void* from, size_t) {
  return p && from ? kSuccess : kInvalidValue;
}

Status cublasLtMatmulAlgoGetHeuristic(void* handle, const Description* d, const Layout* a, const Layout* b,
                                      const Layout* c, const Layout* out, const Preference*, int wanted,
                                      Heuristic* results, int* count) {
  if (!handle) return kNotInitialized;
  if (!d || !a || !b || !c || !out || wanted < 1 || !results || !count) return kInvalidValue;
  Product p;
  Description asked = *d;  // the scales' addresses may be set later
  for (auto [mode, scale] : {std::pair{asked.mode_a, &asked.scale_a}, {asked.mode_b, &asked.scale_b}})
    if (mode && !*scale) *scale = d;
  const std::string why =
      product(asked, nullptr, nullptr, *a, nullptr, *b, nullptr, nullptr, *c, nullptr, *out, &p);
  *count = why.empty();
  if (!why.empty()) return explain(kNotSupported, "cublasLtMatmulAlgoGetHeuristic", why);
  results[0] = {{}, 0, kSuccess, 1, {}};
  return kSuccess;
}
Status cublasLtMatmulAlgoGetIds(void* handle, int, int, int, int, int, int, int wanted, int* ids,
                                int* count) {
  if (!handle) return kNotInitialized;
  if (wanted < 1 || !ids || !count) return kInvalidValue;
  ids[0] = 0, *count = 1;
  return kSuccess;
}
Status cublasLtMatmulAlgoInit(void* handle, int, int, int, int, int, int, int id, uint64_t* algorithm) {
  if (!handle) return kNotInitialized;
  if (id || !algorithm) return kInvalidValue;
  std::memset(algorithm, 0, sizeof Heuristic::algorithm);
  return kSuccess;
}

Status cublasLtMatmul(void* handle, const Description* d, const void* alpha, const void* a, const Layout* la,
                      const void* b, const Layout* lb, const void* beta, const void* c, const Layout* lc,
                      void* out, const Layout* ld, const void*, void*, size_t, CUstream stream) {
  constexpr const char* kCall = "cublasLtMatmul";
  if (!handle) return kNotInitialized;
  if (!d || !la || !lb || !lc || !ld || !alpha || !beta) return kInvalidValue;
  for (const auto& [name, layout] : {std::pair{"A", la}, {"B", lb}, {"C", lc}, {"D", ld}})
    if (std::string why = wrong_layout(name, *layout, *ld); !why.empty())
      return explain(kInvalidValue, kCall, why);
  Product p;
  const std::string why = product(*d, alpha, a, *la, b, *lb, beta, c, *lc, out, *ld, &p);
  if (!why.empty()) return explain(kNotSupported, kCall, why);
  return enqueue(kCall, p, stream);
}
}
