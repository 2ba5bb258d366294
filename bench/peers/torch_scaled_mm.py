"""PyTorch: torch._scaled_mm on float4_e2m1fn_x2 with blocked e4m3 scales, the call that the optimisation rounds
argued about. Where the device has no FP4 tensor core its error is what there is to report."""

from _peer import Absent, as_graphs, measure, script


def blocked(torch, scales):
    """e4m3 [rows][k/16] to the 128x4 layout that cuBLAS documents, flat."""
    rows, columns = scales.shape
    padded_rows, padded = -(-rows // 128) * 128, -(-columns // 4) * 4
    out = torch.zeros(padded_rows, padded, dtype=torch.uint8, device="cuda")
    out[:rows, :columns] = scales.view(torch.uint8)
    tiles = out.view(padded_rows // 128, 4, 32, padded // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.contiguous().view(torch.float8_e4m3fn).flatten()


def run(torch, timer, log, problem):
    kernel = "torch-scaled-mm-fp4"
    fp4 = getattr(torch, "float4_e2m1fn_x2", None)
    if fp4 is None:
        raise Absent(f"PyTorch {torch.__version__} has no float4_e2m1fn_x2")
    if problem.dual:
        raise Absent("the dual GEMM is not written for it")
    calls = []
    for groups in problem.sets:
        operands = [
            (g.a.codes.view(fp4), g.b.codes.view(fp4).t(), blocked(torch, g.a.scales), blocked(torch, g.b.scales))
            for g in groups
        ]

        def call(operands=operands):
            return [
                torch._scaled_mm(a, b, scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16)
                for a, b, sa, sb in operands
            ]

        calls.append(call)
    try:
        calls[0]()
        torch.cuda.synchronize()
    except Exception as error:
        where = f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}"
        raise Absent(f"torch._scaled_mm on float4_e2m1fn_x2, {where}: {type(error).__name__}: {error}")
    remark = f"PyTorch {torch.__version__}; bfloat16 output, whose rounding is its error"
    measure(torch, timer, log, problem, kernel, {"graph": as_graphs(torch, calls)}, False, remark)


script(["torch-scaled-mm-fp4"], run)
