// A stream's writes to memory and waits for values in memory. A stream's work runs at submission, so a wait
// for a value that is not there yet would never end: it is refused, with the reason.
#include <fmt/format.h>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

// 32 or 64 bits at an address.
template <class T>
CUresult write(CUdeviceptr address, T value) {
  return cuMemcpyHtoD(address, &value, sizeof value);
}

template <class T>
CUresult wait(CUdeviceptr address, T value, unsigned flags) {
  T there;
  if (CUresult r = cuMemcpyDtoH(&there, address, sizeof there)) return r;
  const unsigned how = flags & ~unsigned(CU_STREAM_WAIT_VALUE_FLUSH);
  if (how > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
  const T ahead = T(there - value);
  const bool holds = how == CU_STREAM_WAIT_VALUE_GEQ   ? ahead >> (8 * sizeof ahead - 1) == 0
                     : how == CU_STREAM_WAIT_VALUE_EQ  ? there == value
                     : how == CU_STREAM_WAIT_VALUE_AND ? (there & value) != 0
                                                       : T(~(there | value)) != 0;
  if (holds) return CUDA_SUCCESS;
  return explain(
      CUDA_ERROR_NOT_SUPPORTED,
      fmt::format("a stream waits for the value {:#x} at {:#x}, which holds {:#x}: calls on streams are "
                  "serialised, so later writes by another stream or the host cannot arrive",
                  value, address, there));
}

CUresult carry_out(const CUstreamBatchMemOpParams& p) {
  switch (p.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return wait<uint32_t>(p.waitValue.address, p.waitValue.value, p.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return wait<uint64_t>(p.waitValue.address, p.waitValue.value64, p.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return write<uint32_t>(p.writeValue.address, p.writeValue.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return write<uint64_t>(p.writeValue.address, p.writeValue.value64);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      return CUDA_SUCCESS;
    default:
      return explain(CUDA_ERROR_NOT_SUPPORTED,
                     fmt::format("cuStreamBatchMemOp: operation {} is not emulated", int(p.operation)));
  }
}

}  // namespace

#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamBatchMemOp
extern "C" {
CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* list,
                                       unsigned) {
  if (count && !list) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [work = std::vector(list, list + count)] {
    for (const auto& p : work)
      if (CUresult r = carry_out(p)) return r;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [=] { return write<uint32_t>(address, value); });
}
CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [=] { return write<uint64_t>(address, value); });
}
CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                        unsigned flags) {
  return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                [=] { return wait<uint32_t>(address, value, flags); });
}
CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                        unsigned flags) {
  return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                [=] { return wait<uint64_t>(address, value, flags); });
}
}
