#include "device/cublas_lt.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace fp4lab {
namespace fs = std::filesystem;

void CublasLt::Api::check(const char* call, int status, const std::string& of) const {
  if (status == lt::kSuccess) return;
  fail("cuBLASLt: {} failed for {}: {} ({})", call, of, status_name ? status_name(status) : "status", status);
}

// -- finding the library

namespace {

std::error_code ignored;
constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
// In a toolkit; in a Python environment (wheels nvidia-cublas of CUDA 13, nvidia-cublas-cu12).
constexpr const char* kToolkitFolders[] = {"", "lib64", "lib", "targets/x86_64-linux/lib"};
constexpr const char* kWheelFolders[] = {"nvidia/cu13/lib", "nvidia/cublas/lib"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// site-packages of the environments that may hold CUDA wheels: ROOT/lib/python3*/{site,dist}-packages.
void add_wheel_folders(const fs::path& root, std::vector<fs::path>& folders) {
  for (const fs::path& lib : {root / "lib", root / "local/lib"})
    for (const auto& python : fs::directory_iterator(lib, ignored)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const char* wheel : kWheelFolders) folders.push_back(python.path() / packages / wheel);
    }
}

std::vector<fs::path> usual_folders() {
  std::vector<fs::path> folders;
  for (const std::string& home :
       {environment("CUDA_HOME"), environment("CUDA_PATH"), std::string("/usr/local/cuda")})
    if (!home.empty())
      for (const char* folder : kToolkitFolders) folders.push_back(fs::path(home) / folder);
  if (const std::string venv = environment("VIRTUAL_ENV"); !venv.empty()) add_wheel_folders(venv, folders);
  std::istringstream path(environment("PATH"));
  for (std::string folder; std::getline(path, folder, ':');)
    if (!folder.empty() && access((fs::path(folder) / "python3").c_str(), X_OK) == 0)
      add_wheel_folders(fs::path(folder).parent_path(), folders);
  return folders;
}

}  // namespace

std::shared_ptr<CublasLt> CublasLt::open(const std::string& where) {
  std::vector<std::string> looked_at;
  const auto try_file = [&](const std::string& file) -> std::shared_ptr<CublasLt> {
    if (file.find('/') != file.npos && !fs::exists(file, ignored)) return nullptr;
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      looked_at.push_back(dlerror());
      return nullptr;
    }
    auto api = std::make_shared<Api>();
    const char* missing = nullptr;
    const auto find = [&](auto& call, const char* name) {
      call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(handle, name));
      if (!call) missing = name;
    };
    find(api->create, "cublasLtCreate");
    find(api->destroy, "cublasLtDestroy");
    find(api->version, "cublasLtGetVersion");
    find(api->status_name, "cublasLtGetStatusName");
    find(api->desc_create, "cublasLtMatmulDescCreate");
    find(api->desc_destroy, "cublasLtMatmulDescDestroy");
    find(api->desc_set, "cublasLtMatmulDescSetAttribute");
    find(api->layout_create, "cublasLtMatrixLayoutCreate");
    find(api->layout_destroy, "cublasLtMatrixLayoutDestroy");
    find(api->pref_create, "cublasLtMatmulPreferenceCreate");
    find(api->pref_destroy, "cublasLtMatmulPreferenceDestroy");
    find(api->pref_set, "cublasLtMatmulPreferenceSetAttribute");
    find(api->heuristic, "cublasLtMatmulAlgoGetHeuristic");
    find(api->matmul, "cublasLtMatmul");
    if (missing) {
      looked_at.push_back(fmt::format("{}: exports no {}", file, missing));
      return nullptr;
    }
    std::shared_ptr<CublasLt> out(new CublasLt);
    link_map* map = nullptr;
    out->path_ = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map
                     ? fs::canonical(map->l_name, ignored).string()
                     : file;
    out->api_ = std::move(api);
    return out;
  };
  const auto try_folder = [&](const fs::path& folder) -> std::shared_ptr<CublasLt> {
    looked_at.push_back(folder.string());
    for (const char* name : kNames)
      if (auto found = try_file((folder / name).lexically_normal().string())) return found;
    return nullptr;
  };

  const std::string asked = where.empty() ? environment("FP4LAB_CUBLAS") : where;
  if (!asked.empty()) {
    if (fs::is_directory(asked, ignored)) {
      for (const char* folder : kToolkitFolders)
        if (auto found = try_folder(fs::path(asked) / folder)) return found;
    } else {
      looked_at.push_back(asked);
      if (auto found = try_file(asked)) return found;
    }
  } else {
    for (const fs::path& folder : usual_folders())
      if (auto found = try_folder(folder)) return found;
    for (const char* name : kNames)
      if (auto found = try_file(name)) return found;
  }
  fail("no cuBLASLt; looked at\n  {}\n  name the library or its folder with --cublas or FP4LAB_CUBLAS",
       fmt::join(looked_at, "\n  "));
}

// cublasLtDestroy is not called: this runs as the process ends, when the context may be gone already.
CublasLt::~CublasLt() = default;

std::string CublasLt::version() const {
  const size_t v = api_->version();  // 13.1.0 is 130100 (cublas_api.h: major * 10000 + minor * 100 + patch)
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

void* CublasLt::handle() {
  if (!handle_) api_->check("cublasLtCreate", api_->create(&handle_), path_);
  return handle_;
}

// -- products

namespace {

int cuda_type(GemmType type) {
  switch (type) {
    case GemmType::kF16:
      return lt::kR16F;
    case GemmType::kE4m3:
      return lt::kR8FE4M3;
    case GemmType::kF32:
      return lt::kR32F;
  }
  return -1;
}

const char* type_name(GemmType type) {
  return type == GemmType::kF16 ? "fp16" : type == GemmType::kE4m3 ? "e4m3" : "fp32";
}

std::string describe(const GemmSpec& s) {
  return fmt::format("[{}x{}] = [{}x{}] [{}x{}]^T, {} to {}", s.m, s.n, s.m, s.k, s.n, s.k,
                     type_name(s.input), type_name(s.output));
}

}  // namespace

struct CublasGemm::State {
  std::shared_ptr<CublasLt> lt;
  Device device;
  GemmSpec spec;
  size_t workspace_bytes = 0;
  void *desc = nullptr, *weights = nullptr, *tokens = nullptr, *result = nullptr, *preference = nullptr;
  std::vector<lt::HeuristicResult> algorithms;

  ~State() {
    const CublasLt::Api& api = lt->api();
    if (desc) api.desc_destroy(desc);
    for (void* layout : {weights, tokens, result})
      if (layout) api.layout_destroy(layout);
    if (preference) api.pref_destroy(preference);
  }
};

CublasGemm::CublasGemm(std::shared_ptr<CublasLt> library, const Device& device, const GemmSpec& spec,
                       size_t workspace_bytes, int most_algorithms)
    : state_(new State{std::move(library), device, spec, workspace_bytes, {}, {}, {}, {}, {}, {}}) {
  State& s = *state_;
  const CublasLt::Api& api = s.lt->api();
  const std::string what = describe(spec);
  device.make_current();
  // cuBLAS is column-major: a row-major matrix is its transpose there. C^T [n x m] = B [n x k] A^T [k x m],
  // so B comes first, transposed, and every leading dimension is a row's length ("TN", the only form that
  // Hopper's fp8 takes).
  const int in = cuda_type(spec.input), out = cuda_type(spec.output);
  const int pitch = spec.c_pitch ? spec.c_pitch : spec.n;
  const std::int32_t transpose = lt::kOpT, plain = lt::kOpN;
  api.check("cublasLtMatmulDescCreate", api.desc_create(&s.desc, lt::kCompute32F, lt::kR32F), what);
  api.check("TRANSA", api.desc_set(s.desc, lt::kDescTransA, &transpose, sizeof transpose), what);
  api.check("TRANSB", api.desc_set(s.desc, lt::kDescTransB, &plain, sizeof plain), what);
  if (spec.input == GemmType::kE4m3) {
    const std::int8_t fast = 1;
    api.check("FAST_ACCUM", api.desc_set(s.desc, lt::kDescFastAccum, &fast, sizeof fast), what);
  }
  api.check("cublasLtMatrixLayoutCreate", api.layout_create(&s.weights, in, spec.k, spec.n, spec.k), what);
  api.check("cublasLtMatrixLayoutCreate", api.layout_create(&s.tokens, in, spec.k, spec.m, spec.k), what);
  api.check("cublasLtMatrixLayoutCreate", api.layout_create(&s.result, out, spec.n, spec.m, pitch), what);
  api.check("cublasLtMatmulPreferenceCreate", api.pref_create(&s.preference), what);
  const std::uint64_t bytes = workspace_bytes;
  api.check("MAX_WORKSPACE_BYTES",
            api.pref_set(s.preference, lt::kPrefMaxWorkspaceBytes, &bytes, sizeof bytes), what);
  s.algorithms.resize(size_t(most_algorithms));
  int found = 0;
  api.check("cublasLtMatmulAlgoGetHeuristic",
            api.heuristic(s.lt->handle(), s.desc, s.weights, s.tokens, s.result, s.result, s.preference,
                          most_algorithms, s.algorithms.data(), &found),
            what);
  s.algorithms.resize(size_t(found));
  std::erase_if(s.algorithms, [&](const lt::HeuristicResult& r) {
    return r.state != lt::kSuccess || r.workspace_bytes > workspace_bytes;
  });
  if (s.algorithms.empty()) fail("cuBLASLt {} has no algorithm for {}", s.lt->version(), what);
}

CublasGemm::~CublasGemm() = default;
CublasGemm::CublasGemm(CublasGemm&&) noexcept = default;
const GemmSpec& CublasGemm::spec() const { return state_->spec; }
size_t CublasGemm::algorithms() const { return state_->algorithms.size(); }

void CublasGemm::run(size_t algorithm, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUdeviceptr workspace,
                     CUstream stream) const {
  const State& s = *state_;
  const float beta = 0;
  s.device.make_current();
  const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
  s.lt->api().check(
      "cublasLtMatmul",
      s.lt->api().matmul(s.lt->handle(), s.desc, &s.spec.alpha, pointer(b), s.weights, pointer(a), s.tokens,
                         &beta, pointer(c), s.result, pointer(c), s.result, &s.algorithms.at(algorithm).algo,
                         pointer(workspace), s.workspace_bytes, stream),
      describe(s.spec));
}

}  // namespace fp4lab
