// From a plan and a problem in device memory to a launch: workspace, packed weights, parameters.
#include <algorithm>

#include "fp4lab/error.h"
#include "fp4lab/sm90.h"

namespace fp4lab::sm90 {
namespace {

template <class T>
T* pointer(const DeviceBuffer& buffer) {
  return reinterpret_cast<T*>(buffer.address());
}

DeviceBuffer zeros(const Device& device, std::size_t bytes) {
  DeviceBuffer buffer(device, bytes);
  buffer.fill(0);
  return buffer;
}

class Persistent final : public Launch {
 public:
  Persistent(const Device& device, const Plan& plan, const DeviceProblem& problem, const Module& module,
             const std::string& entry)
      : kernel_(module.kernel(entry)),
        repack_(module.kernel(kRepackEntry)),
        work_(DeviceBuffer::from(device, plan.work)),
        packed_(device, plan.weight_bytes),
        tokens_(device, plan.token_bytes),
        partial_(device, plan.split ? plan.partial_bytes : 0),
        flags_(zeros(device, plan.flag_bytes)),
        arrived_(zeros(device, (kMaxRanges + 1) * sizeof(unsigned))) {
    config_.grid.x = plan.ctas;
    config_.block.x = plan.threads;
    config_.dynamic_shared = plan.shared_bytes;
    config_.programmatic = plan.options.pdl;

    params_.work = pointer<Work>(work_);
    params_.weights = pointer<unsigned char>(packed_);
    params_.tokens = pointer<unsigned char>(tokens_);
    params_.partial = pointer<float>(partial_);
    params_.flags = pointer<unsigned>(flags_);
    params_.arrived = pointer<unsigned>(arrived_);
    params_.pieces_per_unit = plan.pieces_per_unit;
    params_.group_count = plan.groups.size();
    params_.token_count = plan.token_count;
    params_.ranges = plan.ranges;
    params_.segments = plan.segments;
    params_.items = plan.items;
    std::ranges::copy(plan.first, params_.first);
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const DeviceGroup& from = problem.groups()[g];
      Group& group = params_.groups[g] = plan.groups[g];
      group.a = pointer<const unsigned char>(from.a.codes);
      group.a_scale = pointer<const unsigned char>(from.a.scales);
      group.out = pointer<unsigned short>(from.c);
      Weights w = plan.weights[g];
      w.b = pointer<const unsigned char>(from.b.codes);
      w.b_scale = pointer<const unsigned char>(from.b.scales);
      w.b2 = pointer<const unsigned char>(from.b2.codes);
      w.b2_scale = pointer<const unsigned char>(from.b2.scales);
      weights_.push_back(w);
    }
  }

  void run(CUstream stream) const override {
    LaunchConfig config = config_;
    config.stream = stream;
    launch(kernel_, config, params_);
  }

  std::string_view weight_step() const override { return repack_.name(); }
  std::size_t weight_bytes() const override { return packed_.bytes(); }
  void prepare_weights(CUstream stream) const override {
    for (const Weights& w : weights_) {
      const std::uint64_t blocks = std::uint64_t(w.tiles) * w.steps * w.warpgroups * kChunksPerStep;
      LaunchConfig config;
      config.grid.x = unsigned(std::clamp<std::uint64_t>(blocks, 1, 8192));  // it strides over the rest
      config.block.x = 256;
      config.stream = stream;
      launch(repack_, config, w, packed_.address());
    }
  }

  unsigned grid() const override { return config_.grid.x; }

 private:
  Kernel kernel_, repack_;
  DeviceBuffer work_, packed_, tokens_, partial_, flags_, arrived_;
  LaunchConfig config_;
  Params params_{};
  std::vector<Weights> weights_;
};

}  // namespace

std::unique_ptr<Launch> prepare(const Device& device, const Plan& plan, const DeviceProblem& problem,
                                const Module& module, const std::string& entry) {
  // A CTA waits for what all others have expanded: none may be waiting for its place on an SM.
  if (int(plan.ctas) > device.sms())
    fail("{}: {} CTAs must be resident at once, {} has {} SMs: --set sms={}", entry, plan.ctas, device.name(),
         device.sms(), device.sms());
  auto launch = std::make_unique<Persistent>(device, plan, problem, module, entry);
  launch->prepare_weights(nullptr);
  device.synchronize();  // whatever stream the caller uses
  return launch;
}

}  // namespace fp4lab::sm90
