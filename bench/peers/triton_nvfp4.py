"""Triton, NVFP4 unpacked by hand: what a kernel of a hundred lines of Triton gets. Weights are decoded inside the
product kernel, tokens once by a kernel before it that is part of the timed call. e2m1 becomes fp16 by moving its bits, which is exact; the scale is one multiplication.

The even and the odd elements of K go to two dots, so that no nibble has to change its lane: the token kernel writes
its output with even and odd columns apart."""

from _peer import Absent, as_graphs, measure, script


# swapped (weights are the left operand), tokens, weights, K, warps, stages
TILES = [
    (False, 128, 128, 128, 8, 3),
    (False, 64, 128, 128, 4, 3),
    (True, 64, 128, 128, 8, 3),
    (True, 128, 128, 128, 8, 3),
]


def run(torch, timer, log, problem):
    try:
        import triton
        from _triton_kernels import expand_tokens, product, product_swapped
    except ImportError as error:
        raise Absent(f"Triton is not installed: {error}")
    shapes = problem.shapes
    n, k = shapes[0]["n"], shapes[0]["k"]
    if any(s["n"] != n or s["k"] != k for s in shapes):
        raise Absent("groups with the same N and K only")
    rows = sum(s["m"] for s in shapes)
    ends = torch.tensor([s["m"] for s in shapes]).cumsum(0).to(torch.int32)
    starts = [0] + ends.tolist()
    ends_on_gpu = ends.cuda()
    tokens = torch.empty(rows, k, dtype=torch.float16, device="cuda")
    variants = {}
    for swapped, bm, bn, bk, warps, stages in TILES:
        tiles = [(g, first) for g in range(len(shapes)) for first in range(starts[g], starts[g + 1], bm)]
        tiles_on_gpu = torch.tensor(tiles, dtype=torch.int32, device="cuda")
        calls = []
        for groups in problem.sets:
            first, second = groups[0].b, groups[0].b2 or groups[0].b
            a_codes = torch.cat([g.a.codes for g in groups])
            a_scales = torch.cat([g.a.scales.view(torch.uint8) for g in groups])
            codes = torch.cat([g.b.codes for g in groups]) if len(groups) > 1 else first.codes
            scales = torch.cat([g.b.scales.view(torch.uint8) for g in groups])
            arguments = (codes, second.codes, scales, second.scales.view(torch.uint8))
            out = torch.empty(rows, n, dtype=torch.float16, device="cuda")

            def call(a_codes=a_codes, a_scales=a_scales, arguments=arguments, out=out, tiles=tiles_on_gpu,
                     count=len(tiles), kernel=product_swapped if swapped else product,
                     bm=bm, bn=bn, bk=bk, warps=warps, stages=stages):
                expand_tokens[(triton.cdiv(rows, 16), k // 256)](a_codes, a_scales, tokens, rows, k, R=16, B=128)
                kernel[(n // bn, count)](
                    tokens, *arguments, out, tiles, ends_on_gpu, n, k, BM=bm, BN=bn, BK=bk,
                    DUAL=problem.dual, num_warps=warps, num_stages=stages)
                return out.split([s["m"] for s in shapes])

            calls.append(call)
        how = f"{bm} tokens x {bn} weights x {bk}{' swapped' if swapped else ''}, {warps} warps, {stages} stages, graph"
        try:
            variants[how] = as_graphs(torch, calls)
        except Exception as error:  # a tile that does not fit is not the end
            print(f"triton {problem.case} {how}: {type(error).__name__}: {error}")
    if not variants:
        raise Absent("no tile compiles")
    measure(torch, timer, log, problem, "triton-nvfp4", variants, True,
            f"Triton {triton.__version__}, NVFP4 unpacked by hand, decoding of tokens included")


script(["triton-nvfp4"], run)
