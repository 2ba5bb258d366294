"""The kernels of triton_nvfp4.py: Triton wants them at the top of a module."""

import triton
import triton.language as tl


@triton.jit
def halves(bits):
    return bits.to(tl.uint16).to(tl.float16, bitcast=True)


@triton.jit
def decode(codes, scales, rows, K, first_row, first_byte, R: tl.constexpr, B: tl.constexpr):
    # [R][B] bytes at (first_row, first_byte) -> their even and odd elements / 128. Every step is exact.
    r = first_row + tl.arange(0, R)
    inside = (r < rows)[:, None]
    row = r[:, None].to(tl.int64)
    at = first_byte + tl.arange(0, B)[None, :]
    packed = tl.load(codes + row * (K // 2) + at, mask=inside, other=0).to(tl.int32)
    block = first_byte // 8 + tl.arange(0, B // 8)[None, :]
    scale = tl.load(scales + row * (K // 16) + block, mask=inside, other=0).to(tl.int32)
    # ue4m3 moved into an fp16's place is the scale / 2^8; with 2^15 it is the scale * 2^7.
    scale = halves(scale << 7) * 32768.0
    scale = tl.reshape(tl.broadcast_to(scale[:, :, None], (R, B // 8, 8)), (R, B))
    # e2m1 likewise is the element / 2^14, the denormal included.
    even = halves(((packed & 8) << 12) | ((packed & 7) << 9))
    odd = halves(((packed & 128) << 8) | ((packed & 112) << 5))
    return even * scale, odd * scale


@triton.jit
def expand_tokens(codes, scales, out, rows, K, R: tl.constexpr, B: tl.constexpr):
    # out: fp16 [rows][2][K / 2], even columns first.
    first_row, first_byte = tl.program_id(0) * R, tl.program_id(1) * B
    even, odd = decode(codes, scales, rows, K, first_row, first_byte, R, B)
    r = first_row + tl.arange(0, R)
    at = out + r[:, None].to(tl.int64) * K + first_byte + tl.arange(0, B)[None, :]
    tl.store(at, even * 128.0, mask=(r < rows)[:, None])
    tl.store(at + K // 2, odd * 128.0, mask=(r < rows)[:, None])


@triton.jit
def product(tokens, codes, codes2, scales, scales2, out, tiles, ends, N, K,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DUAL: tl.constexpr):
    # One tile [BM tokens][BN weights]; tiles: (group, first token of the tile). Decoded weights go through shared
    # memory.
    group, first = tl.load(tiles + 2 * tl.program_id(1)), tl.load(tiles + 2 * tl.program_id(1) + 1)
    end = tl.load(ends + group)
    n0 = tl.program_id(0) * BN
    m = first + tl.arange(0, BM)
    inside = (m < end)[:, None]
    weights = group.to(tl.int64) * N
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    acc2 = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K // 2, BK // 2):
        at = tokens + m[:, None].to(tl.int64) * K + k + tl.arange(0, BK // 2)[None, :]
        even_t = tl.load(at, mask=inside, other=0.0)
        odd_t = tl.load(at + K // 2, mask=inside, other=0.0)
        even, odd = decode(codes + weights * (K // 2), scales + weights * (K // 16), N, K, n0, k, BN, BK // 2)
        acc = tl.dot(even_t, tl.trans(even), acc)
        acc = tl.dot(odd_t, tl.trans(odd), acc)
        if DUAL:
            even, odd = decode(codes2, scales2, N, K, n0, k, BN, BK // 2)
            acc2 = tl.dot(even_t, tl.trans(even), acc2)
            acc2 = tl.dot(odd_t, tl.trans(odd), acc2)
    acc *= 128.0
    if DUAL:
        acc = acc / (1.0 + tl.exp(-acc)) * (acc2 * 128.0)
    at = out + m[:, None].to(tl.int64) * N + n0 + tl.arange(0, BN)[None, :]
    tl.store(at, acc.to(tl.float16), mask=inside)


@triton.jit
def product_swapped(tokens, codes, codes2, scales, scales2, out, tiles, ends, N, K,
                    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DUAL: tl.constexpr):
    # The same tile as [BN weights][BM tokens]: decoded weights are the left operand, which wgmma takes from
    # registers. (Triton 3.6 decodes into registers that a wgmma under way still reads; the PTX manual leaves that
    # undefined, and ptxas has to sort it out. The verification says whether it did.)
    group, first = tl.load(tiles + 2 * tl.program_id(1)), tl.load(tiles + 2 * tl.program_id(1) + 1)
    end = tl.load(ends + group)
    n0 = tl.program_id(0) * BN
    m = first + tl.arange(0, BM)
    inside = m < end
    weights = group.to(tl.int64) * N
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    acc2 = tl.zeros((BN, BM), dtype=tl.float32)
    for k in range(0, K // 2, BK // 2):
        at = tokens + m[None, :].to(tl.int64) * K + k + tl.arange(0, BK // 2)[:, None]
        even_t = tl.load(at, mask=inside[None, :], other=0.0)
        odd_t = tl.load(at + K // 2, mask=inside[None, :], other=0.0)
        even, odd = decode(codes + weights * (K // 2), scales + weights * (K // 16), N, K, n0, k, BN, BK // 2)
        acc = tl.dot(even, even_t, acc)
        acc = tl.dot(odd, odd_t, acc)
        if DUAL:
            even, odd = decode(codes2, scales2, N, K, n0, k, BN, BK // 2)
            acc2 = tl.dot(even, even_t, acc2)
            acc2 = tl.dot(odd, odd_t, acc2)
    acc *= 128.0
    if DUAL:
        acc = acc / (1.0 + tl.exp(-acc)) * (acc2 * 128.0)
    at = out + m[:, None].to(tl.int64) * N + n0 + tl.arange(0, BN)[None, :]
    tl.store(at, tl.trans(acc).to(tl.float16), mask=inside[:, None])
