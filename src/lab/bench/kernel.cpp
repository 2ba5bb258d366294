// The lab's own kernels as contenders.
#include "fp4lab/bench.h"
#include "fp4lab/jit.h"

namespace fp4lab {

Contender kernel_contender(const Timer& timer, const InputSets& sets, const Candidate& candidate) {
  const Device& device = timer.device();
  const auto artifact = artifact_of(candidate);
  const Module module = load(device, *artifact);
  auto launches = std::make_shared<std::vector<std::unique_ptr<Launch>>>();
  for (size_t set = 0; set < sets.size(); ++set)
    launches->push_back(prepare(device, candidate, sets.on_device(set), module));
  device.synchronize();  // weights may still be on their way into the kernel's order
  Contender c;
  c.kernel = kernel_name(candidate);
  c.how = plan_line(candidate);
  c.launch = "stream";
  c.enqueue = [launches](size_t set, CUstream stream) { (*launches)[set]->run(stream); };
  if (const Launch& first = *launches->front(); !first.weight_step().empty()) {
    c.weight_step = first.weight_step();
    c.weight_bytes = first.weight_bytes();
    c.prepare_weights = [launches](size_t set, CUstream stream) {
      (*launches)[set]->prepare_weights(stream);
    };
  }
  return c;
}

Measurement measure_kernel(const Timer& timer, const Nvml& nvml, const InputSets& sets,
                           const Candidate& candidate, LaunchChoice choice) {
  Contender contender;
  contender.kernel = kernel_name(candidate);
  contender.how = plan_line(candidate);
  std::vector<std::pair<std::string, double>> tried;
  try {
    contender = kernel_contender(timer, sets, candidate);
    if (choice != LaunchChoice::kStream) {
      Contender graph = as_graph(timer, sets.size(), contender);
      contender = choice == LaunchChoice::kGraph ? graph : fastest(timer, sets, {contender, graph}, tried);
    }
  } catch (const Error& e) {
    contender.enqueue = [text = std::string(e.what())](size_t, CUstream) { fail("{}", text); };
  }
  Measurement m = measure(timer, nvml, sets, contender);
  m.variants = std::move(tried);
  return m;
}

}  // namespace fp4lab
