"""PyTorch: torch._grouped_mm on operands expanded to bfloat16 beforehand (its fast path on Hopper takes nothing
else; NVFP4 products are exact in bfloat16), and one torch.mm in float16 per group or, for the dual GEMM, one of
[B1; B2] followed by silu(x) * y, each in a CUDA graph."""

from _peer import Absent, as_graphs, measure, script


def grouped_mm(torch, timer, log, problem):
    shapes = problem.shapes
    if problem.dual or len({(s["n"], s["k"]) for s in shapes}) != 1:
        raise Absent("torch._grouped_mm: one product, groups with the same N and K only")
    call = getattr(torch, "_grouped_mm", None) or getattr(torch.nn.functional, "grouped_mm", None)
    if call is None:
        raise Absent(f"PyTorch {torch.__version__} has no _grouped_mm")
    ends = torch.tensor([s["m"] for s in shapes]).cumsum(0).to(torch.int32).cuda()
    calls = []
    for groups in problem.sets:
        a = torch.cat([g.a.expanded(torch.bfloat16) for g in groups])
        b = torch.stack([g.b.expanded(torch.bfloat16) for g in groups]).transpose(-2, -1)

        def run(a=a, b=b):
            return call(a, b, offs=ends).split([s["m"] for s in shapes])

        calls.append(run)
    variants = {"one call": calls}
    try:
        variants["one call, graph"] = as_graphs(torch, calls)
    except RuntimeError as error:
        print(f"torch._grouped_mm, {problem.case}: no graph: {error}")
    remark = f"PyTorch {torch.__version__}, operands expanded to bfloat16 beforehand; bfloat16 output, whose rounding is its error"
    measure(torch, timer, log, problem, "torch-grouped-mm-bf16", variants, False, remark)


def mm(torch, timer, log, problem):
    calls = []
    for groups in problem.sets:
        a = [g.a.expanded(torch.float16) for g in groups]
        b = [g.b.expanded(torch.float16) for g in groups]
        if problem.dual:
            b = [torch.cat([b[0], groups[0].b2.expanded(torch.float16)])]

        def run(a=a, b=b):
            products = [left @ right.t() for left, right in zip(a, b)]
            if not problem.dual:
                return products
            x, y = products[0].chunk(2, dim=1)
            return [torch.nn.functional.silu(x) * y]

        calls.append(run)
    remark = f"PyTorch {torch.__version__}, operands expanded to float16 beforehand"
    if problem.dual:
        remark += "; the dual GEMM's products are rounded to float16 before silu"
    variants = {"graph": as_graphs(torch, calls)}
    measure(torch, timer, log, problem, "torch-mm-fp16", variants, not problem.dual, remark)


def run(torch, timer, log, problem):
    try:
        grouped_mm(torch, timer, log, problem)
    except Absent as reason:
        log.absent("torch-grouped-mm-bf16", str(reason), problem.case)
    mm(torch, timer, log, problem)


script(["torch-mm-fp16"], run)
