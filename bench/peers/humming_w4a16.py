"""Humming (PyPI humming-kernels, github.com/vllm-project/humming): NVFP4 weights in its own order, repacked before
the timing, times fp16 activations, expanded before the timing: less work than NVFP4 on both sides."""

import json

from _peer import Absent, as_graphs, measure, script


def layer_of(torch, n, k, experts, tensors):
    from humming.layer import HummingLayer

    layer = HummingLayer(
        shape_n=n,
        shape_k=k,
        num_experts=experts,
        weight_config={"quant_method": "modelopt", "quant_algo": "nvfp4"},
        torch_dtype=torch.float16,
    ).cuda()
    layer.load_from_tensors(tensors)
    layer.transform()
    return layer


def run(torch, timer, log, problem):
    try:
        import humming
        import humming.layer
    except ImportError as error:
        raise Absent(f"Humming is not installed: {error}")
    shapes = problem.shapes
    n, k = shapes[0]["n"], shapes[0]["k"]
    if any(s["n"] != n or s["k"] != k for s in shapes):
        raise Absent("groups with the same N and K only")
    grouped = len(shapes) > 1
    offsets = torch.tensor([0] + [s["m"] for s in shapes]).cumsum(0).cuda()
    config = json.dumps({"gemm_type": "grouped_contiguous" if grouped else "dense"})
    calls = []
    for groups in problem.sets:
        weights = [groups[0].b, groups[0].b2] if problem.dual else [g.b for g in groups]
        codes = torch.stack([w.codes for w in weights])
        scales = torch.stack([w.scales.view(torch.uint8) for w in weights]).view(torch.float8_e4m3fn)
        rows = n * len(weights) if problem.dual else n
        if not grouped:
            codes, scales = codes.view(rows, -1), scales.view(torch.uint8).view(rows, -1).view(torch.float8_e4m3fn)
        experts = len(shapes) if grouped else None
        one = torch.ones(experts or 1, dtype=torch.float32, device="cuda")
        layer = layer_of(torch, rows, k, experts, {"weight": codes, "weight_scale": scales, "weight_scale_2": one})
        a = torch.cat([g.a.expanded(torch.float16) for g in groups])
        raw = torch.empty(a.shape[0], rows, dtype=torch.float16, device="cuda")

        def call(layer=layer, a=a, raw=raw):
            layer(a, outputs=raw, expert_layout=offsets if grouped else None, compute_config=config)
            if not problem.dual:
                return raw.split([s["m"] for s in shapes])
            x, y = raw.chunk(2, dim=1)
            return [torch.nn.functional.silu(x) * y]

        calls.append(call)
    for call in calls:
        call()
    torch.cuda.synchronize()
    variants = {"as called": calls}
    try:
        variants["graph"] = as_graphs(torch, calls)
    except RuntimeError as error:
        print(f"humming {problem.case}: no graph: {error}")
    remark = f"Humming {humming.__version__}, weights repacked and activations expanded to fp16 beforehand: half of the decoding"
    if problem.dual:
        remark += "; the dual GEMM's products are rounded to fp16 before silu"
    measure(torch, timer, log, problem, "humming-w4a16", variants, False, remark)


script(["humming-w4a16"], run)
