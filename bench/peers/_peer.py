"""What the peers of this folder share: problems, verification, timing, records.

`fp4lab bench` writes each problem's raw numbers into a folder and runs every script here as
  python3 SCRIPT.py --problems DIR --json FILE --repeats N --warmups N --rounds N --flush BYTES
A script verifies every output, times as the C++ side does (several input sets in rotation, the L2 flushed, one
pair of events around the calls, median over repeats), verifies again and writes the same records. What is not
installed or not possible becomes a record with the reason.
"""

import argparse
import json
import pathlib
import statistics
import sys
import traceback


class Absent(Exception):
    """The peer, or this case of it, cannot be measured; the text says why."""


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", required=True, help="folder with one folder per case")
    parser.add_argument("--json", required=True, help="records are appended here, a line each")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--warmups", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--flush", type=int, default=512 << 20, help="bytes overwritten before each sample")
    return parser.parse_args()


class Log:
    def __init__(self, path):
        self.file = open(path, "a")

    def add(self, record):
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()

    def absent(self, kernel, reason, case=None):
        record = {"type": "absent", "kernel": kernel, "reason": reason}
        if case:
            record["case"] = case
        self.add(record)


def import_torch():
    try:
        import torch
    except ImportError as error:
        raise Absent(f"PyTorch is not installed: {error}")
    if not torch.cuda.is_available():
        raise Absent(f"PyTorch {torch.__version__} finds no GPU")
    return torch


class Operand:
    """codes uint8 [rows][k/2], low nibble = even k; scales float8_e4m3fn [rows][k/16]."""

    VALUES = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]

    def __init__(self, torch, stem, rows, k):
        def read(suffix):
            data = pathlib.Path(f"{stem}.{suffix}").read_bytes()
            return torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda()

        self.torch, self.rows, self.k = torch, rows, k
        self.codes = read("codes").view(rows, k // 2)
        self.scales = read("scales").view(rows, k // 16).view(torch.float8_e4m3fn)

    def expanded(self, dtype):
        """code * scale [rows][k]: exact in float16, bfloat16 (6 significant bits) and wider."""
        torch = self.torch
        values = torch.tensor(self.VALUES, dtype=torch.float32, device="cuda")
        out = torch.empty(self.rows, self.k, dtype=dtype, device="cuda")
        for first in range(0, self.rows, 512):  # float32 on the way: not more than needed at once
            codes = self.codes[first : first + 512]
            pairs = torch.stack([values[(codes & 15).long()], values[(codes >> 4).long()]], -1)
            scales = self.scales[first : first + 512].float()
            out[first : first + 512] = (pairs.view(len(codes), -1, 16) * scales[..., None]).view(len(codes), -1)
        return out


class Group:
    def __init__(self, torch, stem, shape, dual):
        self.m, self.n, self.k = shape["m"], shape["n"], shape["k"]
        self.a = Operand(torch, stem + "a", self.m, self.k)
        self.b = Operand(torch, stem + "b", self.n, self.k)
        self.b2 = Operand(torch, stem + "b2", self.n, self.k) if dual else None
        want = bytearray(pathlib.Path(stem + "want").read_bytes())
        self.want = torch.frombuffer(want, dtype=torch.float16).view(self.m, self.n).cuda()


class Problem:
    def __init__(self, torch, folder):
        self.about = json.loads((folder / "problem.json").read_text())
        self.case, self.dual = self.about["case"], self.about["operation"] == "dual"
        self.shapes = self.about["groups"]
        self.sets = [
            [
                Group(torch, str(folder / f"set{s}_group{g}_"), shape, self.dual)
                for g, shape in enumerate(self.shapes)
            ]
            for s in range(self.about["sets"])
        ]


def check(torch, sets, outputs):
    """outputs[set][group], any float type; within 1e-3 + 1e-3 |want| of the exact result? An infinity agrees with the
    same infinity only, and is left out of the sums."""
    count = outside = equal = 0
    largest = relative = difference = size = 0.0
    for groups, outs in zip(sets, outputs):
        for group, out in zip(groups, outs):
            got, want = out.double(), group.want.double()
            error = (got - want).abs()
            count += error.numel()
            outside += int((~((error <= 1e-3 + 1e-3 * want.abs()) | (got == want))).sum())
            equal += int((out.half() == group.want).sum())
            finite = got.isfinite() & want.isfinite()
            error, want = error[finite], want[finite]
            if not error.numel():
                continue
            largest = max(largest, float(error.max()))
            nonzero = want != 0
            if nonzero.any():
                relative = max(relative, float((error[nonzero] / want[nonzero].abs()).max()))
            difference += float((error**2).sum())
            size += float((want**2).sum())
    return {
        "passed": outside == 0,
        "outside_tolerance_share": outside / count,
        "bit_equal_share": equal / count,
        "max_abs_error": largest,
        "max_rel_error": relative,
        "relative_rms_error": (difference / size) ** 0.5 if size else 0.0,
    }


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


class Clocks:
    """Readings through NVML while the GPU works; none where pynvml is missing."""

    SLOWDOWN = {4: "power cap", 8: "hardware", 32: "thermal (software)", 64: "thermal (hardware)", 128: "power brake"}

    def __init__(self, torch):
        self.readings = []
        try:
            import pynvml

            pynvml.nvmlInit()
            self.nvml = pynvml
            bus = torch.cuda.get_device_properties(0)
            address = f"{bus.pci_domain_id:08x}:{bus.pci_bus_id:02x}:{bus.pci_device_id:02x}.0"
            self.device = pynvml.nvmlDeviceGetHandleByPciBusId(address)
        except Exception:
            self.nvml = None

    def read(self):
        if not self.nvml:
            return
        n, d = self.nvml, self.device
        reasons = getattr(n, "nvmlDeviceGetCurrentClocksEventReasons", None)
        reasons = reasons or n.nvmlDeviceGetCurrentClocksThrottleReasons
        clock, power = n.nvmlDeviceGetClockInfo(d, n.NVML_CLOCK_SM), n.nvmlDeviceGetPowerUsage(d) / 1e3
        self.readings.append((clock, power, reasons(d)))

    def record(self):
        if not self.readings:
            return None
        clocks = [r[0] for r in self.readings]
        return {
            "readings": len(clocks),
            "sm_mhz_min": min(clocks),
            "sm_mhz_median": int(statistics.median(clocks)),
            "sm_mhz_max": max(clocks),
            "watts_max": max(r[1] for r in self.readings),
            "slowdown": ", ".join(name for bit, name in self.SLOWDOWN.items() if any(r[2] & bit for r in self.readings))
            or "none",
        }


class Timer:
    def __init__(self, torch, args):
        self.torch, self.args = torch, args
        self.flush = torch.empty(args.flush // 4, dtype=torch.int32, device="cuda")
        self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def samples(self, calls, repeats, warmups, during=None):
        """us per call of each sample; calls: one function per input set."""
        times = []
        for sample in range(-warmups, repeats):
            self.flush.fill_(sample)
            self.start.record()
            for _ in range(self.args.rounds):
                for call in calls:
                    call()
            self.stop.record()
            if sample >= 0 and during:
                during()
            self.stop.synchronize()
            if sample >= 0:
                times.append(1e3 * self.start.elapsed_time(self.stop) / (self.args.rounds * len(calls)))
        return times


def as_graphs(torch, calls):
    """The same calls, each a CUDA graph that writes the same outputs every time."""
    out = []
    side = torch.cuda.Stream()
    for call in calls:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compiles and loads what is used for the first time
            call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            written = call()

        def replay(graph=graph, written=written, keep=call):  # the graph reads what `call` holds
            graph.replay()
            return written

        out.append(replay)
    return out


def poison(outputs):
    for outs in outputs:
        for out in outs:
            out.fill_(float("nan"))


def measure(torch, timer, log, problem, kernel, variants, must_pass, remark=""):
    """variants: {how: calls}, one call per input set, each giving its output per group. The fastest is the peer.
    A wrong one is not timed where must_pass; otherwise its error is stated. So it is for the distribution full, where
    products cancel and fp32 accumulation alone may cost more than the tolerance."""
    about = problem.about
    must_pass = must_pass and about["distribution"] != "full"
    record = {
        "type": "time",
        "case": problem.case,
        "kernel": kernel,
        "peer": True,
        "distribution": about["distribution"],
        "seed": about["seed"],
        "sets": about["sets"],
        "flops": about["flops"],
        "bytes": about["bytes"],
        "remark": remark,
    }
    best, tried, trouble = None, [], None
    for how, calls in variants.items():
        us = None
        try:
            poison([call() for call in calls])
            outputs = [call() for call in calls]
            torch.cuda.synchronize()
            before = check(torch, problem.sets, outputs)
            numbers = not any(bool(o.isnan().any()) for outs in outputs for o in outs)
            if numbers and (before["passed"] or not must_pass):
                us = statistics.median(timer.samples(calls, 5, 1))
                if best is None or us < best[0]:
                    best = (us, how, calls, before)
            else:
                trouble = trouble or f"{how}: wrong before timing: {before}"
        except Exception as error:
            trouble = trouble or f"{how}: {type(error).__name__}: {error}"
        tried.append({"how": how, "us": us})
    record["variants"] = tried
    if best is None:
        log.add({**record, "passed": False, "error": trouble or "no variant"})
        return
    _, how, calls, before = best
    latest = [call() for call in calls]
    poison(latest)  # what the timed calls do not write shows afterwards

    def keeping(index):
        def call():
            latest[index] = calls[index]()

        return call

    clocks = Clocks(torch)
    timed = [keeping(index) for index in range(len(calls))]
    times = timer.samples(timed, timer.args.repeats, timer.args.warmups, clocks.read)
    after = check(torch, problem.sets, latest)
    record.update(
        how=how,
        passed=before["passed"] and after["passed"],
        us={
            "median": quantile(times, 0.5),
            "p10": quantile(times, 0.1),
            "p90": quantile(times, 0.9),
            "min": min(times),
            "max": max(times),
            "count": len(times),
        },
        samples_us=times,
        calls_per_sample=timer.args.rounds * len(calls),
        check_before=before,
        check_after=after,
        gpu=clocks.record(),
    )
    if must_pass and not after["passed"]:
        record["error"] = f"wrong after timing: {after}"
    log.add(record)


def main(kernels, run):
    """run(torch, timer, log, problem) measures one problem; Absent from it is recorded for that case."""
    args = arguments()
    log = Log(args.json)
    try:
        torch = import_torch()
    except Absent as reason:
        for kernel in kernels:
            log.absent(kernel, str(reason))
        return 0
    timer = Timer(torch, args)
    status = 0
    for folder in sorted(pathlib.Path(args.problems).iterdir()):
        if not (folder / "problem.json").exists():
            continue
        problem = None
        try:
            problem = Problem(torch, folder)
            run(torch, timer, log, problem)
        except Absent as reason:
            for kernel in kernels:
                log.absent(kernel, str(reason), folder.name)
        except Exception as error:
            traceback.print_exc()
            log.absent(kernels[0], f"{type(error).__name__}: {error}", folder.name)
            status = 1
        del problem
        torch.cuda.empty_cache()
    return status


def script(kernels, run):
    sys.exit(main(kernels, run))
