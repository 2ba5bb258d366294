// What the emulator's library exports beside the CUDA driver API. Look the names up with dlsym: the real
// driver has none of them.
#pragma once

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  unsigned long long launches;  // since cuInit
  unsigned long long warp_instructions;
  unsigned long long async_ops;
  unsigned long long tma_bytes;
  unsigned long long mma_count;
  double seconds;  // host wall time
} fp4lab_emulator_stats;

void fp4lab_emulator_statistics(fp4lab_emulator_stats* out);  // counts of the last launch
// Counts of all launches since cuInit: what a run of several launches did is the difference of two calls.
void fp4lab_emulator_totals(fp4lab_emulator_stats* out);
const char*
fp4lab_emulator_report();  // the latest explanation of a failed call or kernel; empty if there was none
void fp4lab_emulator_quiet(int quiet);  // explanations no longer go to stderr: the caller reads the report
void fp4lab_emulator_forgive();  // a kernel that faulted no longer spoils its context; memory stays as it is
// Which instructions of the last launch are exact, and which measured or modelled; one line.
const char* fp4lab_emulator_fidelity();
// The page that says which PTX instructions there are, in Markdown.
const char* fp4lab_emulator_support();
void fp4lab_emulator_seed(unsigned long long seed);  // of the schedule, for the launches that follow
// A launch that follows ends after so many warp instructions, with a report of where its warps are; 0: never.
void fp4lab_emulator_step_limit(unsigned long long steps);

// Level 1: every launch that follows is checked for accesses whose order the program does not settle (races,
// missing proxy fences, ...); a launch with a finding fails with CUDA_ERROR_LAUNCH_FAILED and the findings
// are its report. 0: off, which is free. FP4LAB_CHECK=1 sets it from the start.
void fp4lab_emulator_check(int level);
// What the last checked launch does against the manual's letter although shipped kernels do so too; empty if
// nothing, or if it was not checked. Valid until the next launch.
const char* fp4lab_emulator_notes();

// The faults and findings of the last launch, notes included, as a JSON array (emulator/driver/findings.h
// says of what). Valid until the next launch.
const char* fp4lab_emulator_findings();
// Attaches a watcher to the launches that follow; null takes all of them off. "trace=FILE" writes the Trace
// Event Format (Perfetto, chrome://tracing); "profile" sums up what each kind of warp did, "profile=json" as
// watch/profile.h has it; "stop-at=LINE" shows registers, mbarriers and the shared memory at its operands
// when a warp comes to that PTX line; "watch=ADDRESS" (or a shared variable) tells every access and barrier
// event there; "tile=PRODUCT,A|B|D,ROW,ROW,COLUMN,COLUMN" a tile as tcgen05.mma number PRODUCT of CTA 0 sees
// it; "lines" the PTX lines that were executed. 0, or 1 with the reason in fp4lab_emulator_report.
int fp4lab_emulator_observe(const char* what);
// What they saw of the last launch. Valid until the next call.
const char* fp4lab_emulator_observed();
// What they were to look for and have not met since they were attached (a line that no warp came to, a
// product that there is not), or could not write; empty: all was met. Valid until the next call.
const char* fp4lab_emulator_unseen();
// What messages call the modules that are loaded from now on ("kernel.ptx").
void fp4lab_emulator_label(const char* name);

// The machine to be, by compute capability, in place of the one that FP4LAB_EMULATOR_DEVICE or the default
// chose. CUDA_ERROR_INVALID_DEVICE: there is no such model; CUDA_ERROR_ILLEGAL_STATE: another machine's
// context exists.
CUresult fp4lab_emulator_select(int major, int minor);
// The same by what a program brings: the machine that can run most of these fatbins (wrappers as
// __cudaRegisterFatBinary gets them), unless FP4LAB_EMULATOR_DEVICE chooses. CUDA_ERROR_NO_BINARY_FOR_GPU:
// none runs any.
CUresult fp4lab_emulator_select_for(const void* const* images, size_t count);
// What cuInit and the making of the first context call beforehand, for the one who knows the program's fat
// binaries: a program may ask the driver for its device, or make a context, before it calls the runtime.
// Null: nothing.
void fp4lab_emulator_select_by(void (*select)(void));

#ifdef __cplusplus
}
#endif
