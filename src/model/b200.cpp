// NVIDIA B200. SA: github.com/SemiAnalysisAI/microbench-blackwell @9a068d8. HB:
// github.com/hbarclay/gemm-model
// @0de20a8. QR: github.com/ademeure/QuickRunCUDA @3a9f5f2, a B300 (same SM, TMEM and tcgen05). LC:
// github.com/gau-nernst/learn-cuda @1454f8b, traces. "fitted": notes/records/2026-11-28-model.
#include "model/chip.h"

namespace fp4lab::model {

constexpr Chip kB200{
    .name = "B200",
    .arch = "sm_100a",
    .sms = {148, "SMs", "device query, github.com/pytorch/ao PR 4002"},
    .pairs = {74, "clusters", "148 SMs; HB's times step at multiples of 74"},
    .quads = {33, "clusters", "SA: fewer than 37; GPCs of 20 and 18 SMs; HB fits 33 better than 34 or 32"},
    .shared_bytes = {232448, "B", "CUDA Blackwell tuning guide: 227 KB of a CTA"},
    .sm_mhz = {1850, "MHz", "1.845 sustained (Modal); 2.25 PFLOP/s / (148 SMs x 8192) = 1856"},
    .sm_mhz_low = {1550, "MHz", "Modal: 1.55 to 1.78 under load"},
    .sm_mhz_high = {1965, "MHz", "highest clock, github.com/stas00/ml-engineering"},
    .sm_mhz_loaded = {1366, "MHz", "tilus, NCU: 1599.8 TFLOP/s at 96.6 % of the tensor rate"},
    .dram_peak = {7672, "B/ns", "7680-bit HBM3e at 3996 MHz, github.com/pytorch/ao PR 4002"},
    .flops_peak = {9.0, "PFLOP/s", "NVIDIA data sheet, dense FP4"},
    .tma_row = {1.014, "cy", "SA main loop at 1300 MHz: a row of up to 128 bytes a cycle"},
    .round_trip = {544, "cy", "SA main loop, fitted on 279 loops"},
    .round_trip_row = {0.72, "cy/row", "SA main loop, fitted"},
    .round_trip_kb = {5.3, "cy/KB", "SA main loop, fitted; Triton's table has 6"},
    .round_trip_mma = {0.83, "cy/cy", "SA main loop, fitted: a stage is free after its MMAs"},
    .round_trip_load = {10.9, "cy/load", "SA main loop, fitted, beyond two TMA instructions"},
    .miss = {290, "ns", "SA main loop beyond 60 MB: 367 to 380 cy at 1300 MHz; pointer chase +297 ns"},
    .stage_least = {121, "cy", "SA main loop: no k-tile is shorter"},
    .l2_bytes = {126.5, "MB", "device query, github.com/pytorch/ao PR 4002"},
    .l2_effective = {60, "MB", "SA main loop breaks between 50 and 67 MB, HB 60 to 67"},
    .l2_sharpness = {0.5, "", "fitted on HB"},
    .fill = {17650, "B/ns", "SA sweep 16.9 TB/s; fitted on HB"},
    .drift = {0.46, "", "fitted on HB"},
    .dram = {7280, "B/ns", "SA tma2d_throughput 7.26 to 7.29 TB/s"},
    .queue = {8, "", "fitted on HB"},
    .port = {128, "B/cy", "SA umma_throughput: 32 + N/4 cycles for M = 128; QR 38.4 TB/s"},
    .scale_copy =
        {31, "cy",
         "fitted on flashinfer 2540; QR: 22 (N = 128 with one copy 88 cycles, N = 256 with two 140)"},
    .scale_copy_pair = {18.3, "cy", "fitted on HB"},
    .mma_stage = {9, "cy", "SA main loop, fitted"},
    .set_up = {650, "ns", "LC: barriers, TMEM, cluster 544 to 768"},
    .first_fill = {930, "ns", "LC: least until the first full stage"},
    .slot_reuse = {1200, "cy", "github.com/FlashGPU-Sim/FlashGPU-Sim"},
    .tail = {230, "cy", "SA umma_latency: 132 to 182; commit to wait 52 to 92"},
    .tma_store = {{630, "cy", "fitted on HB fp16 and fp8"},
                  {1.22, "cy/column", "fitted on HB fp16 and fp8"},
                  {15.2, "cy/KB", "fitted on HB fp16 and fp8"},
                  {0.68, "", "fitted on HB fp16 and fp8"}},
    .fp32_store = {{0, "cy", "fitted on HB nvfp4"},
                   {8.4, "cy/column", "fitted on HB nvfp4"},
                   {22.7, "cy/KB", "fitted on HB nvfp4"},
                   {0.79, "", "fitted on HB nvfp4"}},
    .direct_store = {{200, "cy", "assumed"},
                     {17, "cy/column", "LC: 256 columns in 2.3 to 3.3 us"},
                     {0, "cy/KB", "in the columns"},
                     {0.68, "", "as tma_store"}},
    .part_exchange = {1500, "cy",
                      "an atomic and a trip to L2, assumed; the split-K rows of flashinfer allow 0 to 3200"},
    .launch = {2050, "ns", "QR: back to back in a stream"},
    .graph_node = {540, "ns", "QR: 100 nodes"},
    .pdl_saves = {500, "ns", "github.com/flashinfer-ai/flashinfer PR 2277, 2070: 0.44 to 0.67 us"},
};

}  // namespace fp4lab::model
