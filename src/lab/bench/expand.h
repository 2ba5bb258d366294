// The kernels of ptx/peers/expand.cu.
#pragma once

#include "fp4lab/device_problem.h"

namespace fp4lab {

class ExpandKernels {
 public:
  explicit ExpandKernels(const Device& device);  // compiles them for the device
  // [rows][k] elements to `out`.
  void to_f16(const DeviceOperand& x, CUdeviceptr out, CUstream stream) const;
  void to_e4m3(const DeviceOperand& x, CUdeviceptr out, float factor, CUstream stream) const;
  // C [m][n] from [m][2 n], fp32 or fp16; n is a multiple of 8.
  void silu_mul(CUdeviceptr xy, bool half, CUdeviceptr c, int m, int n, CUstream stream) const;

 private:
  Module module_;
  Kernel f16_, e4m3_, silu_f32_, silu_f16_;
};

}  // namespace fp4lab
