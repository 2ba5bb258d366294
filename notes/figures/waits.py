"""What each kind of warp does and waits for on the emulator, in a rung of the beginning and in later ones."""
from kit import *

KINDS = [("works", "", BLUE), ("waits at an mbarrier", "mbarrier.", AMBER), ("at tcgen05.wait", "tcgen05.wait", SAND),
         ("at bar.sync, barrier.cluster", "bar", MINT), ("elsewhere", None, FAINT)]
ROLES = {"load": "loads", "MMA": "multiplies", "epilogue": "stores"}


def draw():
    figure = page("Who waits for what", "By the emulator, in its steps: a step is one warp instruction of the cluster, not time. Case "
                  "g2k1536 on 148 SMs. Share of the steps in which a kind of warp works, or waits and where.", 4.5)
    rungs = ["v2_warp_specialized", "v10_early_start", "v15_top"]
    chart = axes(figure, 0.95, 0.82, 5.2, 2.8)
    y, ticks, names = 0, [], []
    for rung in rungs:
        said = command(f"profile group --case g2k1536 --kernel {rung}")
        chart.text(0, y - 0.75, rung, weight="bold", va="center")
        shares = {}
        for role, waits, below in re.findall(r"^  (\w+) \(warps? [^)]*\):.* waits ([\d.]+) % of the time\n((?:     .*\n)*)", said, re.M):
            share = dict.fromkeys([k for k, *_ in KINDS], 0.0)
            share["works"], share["elsewhere"] = 100 - float(waits), float(waits)
            for percent, place in re.findall(r"^ +([\d.]+) %  \d+ times at [^ ]+  (.*)$", below, re.M):
                kind = next((k for k, start, _ in KINDS if start and place.startswith(start)), "elsewhere")
                share[kind] += float(percent)
                share["elsewhere"] -= float(percent)
            shares[role] = share
        for role, verb in ROLES.items():
            left = 0
            for kind, _, colour in KINDS:
                width = max(shares[role][kind], 0)
                chart.barh(y, width, left=left, height=0.72, color=colour, ec=GROUND, lw=0.8)
                if width > 7:
                    chart.text(left + width / 2, y, f"{width:.0f}", ha="center", va="center", size=8.5,
                               color=GROUND if kind == "works" or kind == "waits at an mbarrier" else INK)
                left += width
            ticks.append(y)
            names.append(verb)
            y += 1
        y += 1.1
    chart.set(xlim=(0, 100), ylim=(y - 1.3, -1.1), xlabel="% of the steps")
    chart.set_yticks(ticks, names, color=INK)
    chart.tick_params(axis="y", length=0)
    chart.spines["left"].set_visible(False)
    key = drawing(figure, top=4.1, bottom=0.1)
    x = 12
    for kind, _, colour in KINDS:
        key.add_patch(plt.Rectangle((x, 7), 8, 8, color=colour, lw=0))
        key.text(x + 12, 11, kind, va="center", size=8, color=QUIET)
        x += 20 + 4.0 * len(kind)
    return figure
