// What is computed: the operations, the cases of the public task, and the numbers that fill them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fp4lab/legality.h"
#include "fp4lab/operand.h"

namespace fp4lab {

enum class Operation {
  kGroup,  // C_g = A_g * B_g^T for each group g
  kDual,   // C = silu(A * B1^T) * (A * B2^T)
  kGemm,   // C = A * B^T, a group GEMM of one group
};
std::string_view operation_name(Operation operation);  // "group", "dual", "gemm"

struct Shape {
  int m = 0, n = 0, k = 0;
  bool operator==(const Shape&) const = default;
};

struct Case {
  std::string name;  // stable: records and tests refer to it
  Operation operation = Operation::kGroup;
  std::vector<Shape> shapes;  // one per group
  bool full_size = false;     // a case to be timed; the others check correctness
  // Microseconds on a B200, where known.
  std::optional<double> speed_of_light_us;  // of the public task, at 1.5 GHz
  std::optional<double> best_us;            // best published result that is an honest kernel
  std::optional<double> rounds_us;          // where the rounds of the contest stood

  int products() const { return operation == Operation::kDual ? 2 : 1; }
  double flops() const;               // 2 M N K per product, all groups
  std::int64_t input_bytes() const;   // codes and row-major scales of all operands
  std::int64_t output_bytes() const;  // fp16
};

// Every case of the public task, full sizes first.
const std::vector<Case>& cases();

// A case by name, or a shape in words: "group:M,M,../N,../K,..", "dual:M/N/K", "gemm:M/N/K"; a list of one
// value holds for all groups. Fails on anything else, listing the names.
Case find_case(std::string_view text);

// Why the sizes cannot be computed by any kernel here, one reason per group and rule; empty when they can.
std::vector<Reason> size_reasons(const Case& c);

enum class Distribution {
  kTaskGroup,  // every nibble keeps its sign and two low bits (|v| <= 1.5), scales drawn from {1, 2}
  kTaskDual,   // the same nibbles, scales uniform in [0, 1) rounded to e4m3
  kFull,       // all 16 codes, all 127 finite non-negative scales
  kModerate,   // all 16 codes, scales 0.25 .. 3.75: every accumulator order gives the same bits for K <= 1024
};
std::string_view distribution_name(
    Distribution distribution);                         // "task-group", "task-dual", "full", "moderate"
Distribution find_distribution(std::string_view name);  // fails with the list of names
const std::vector<Distribution>& distributions();
// What the public task uses for this operation.
Distribution task_distribution(Operation operation);

// 64 random bits, a function of its arguments only: splitmix64's output function applied to a counter, on a
// key mixed from seed and stream. So bits depend neither on the machine nor on the number of threads, and any
// part can be made alone.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

// One operand's numbers, blocked scales included. Code word w (16 codes, low nibble first) is
// random_word(seed, 2 * tensor, w) counted over the whole packed matrix; scales use stream 2 * tensor + 1,
// see problem.cpp. threads 0 means one per core.
Operand random_operand(int rows, int k, Distribution distribution, std::uint64_t seed, std::uint64_t tensor,
                       int threads = 0);

struct GroupData {
  Shape shape;
  Operand a;   // [m][k]
  Operand b;   // [n][k]; B1 of a dual GEMM
  Operand b2;  // empty unless dual
};
struct Problem {
  Case spec;
  Distribution distribution = Distribution::kModerate;
  std::uint64_t seed = 0;
  std::vector<GroupData> groups;
};
// Tensor numbers are 3 * group for A, + 1 for B, + 2 for B2. Fails, with the reasons, on sizes that cannot
// be.
Problem make_problem(const Case& c, Distribution distribution, std::uint64_t seed, int threads = 0);

}  // namespace fp4lab
