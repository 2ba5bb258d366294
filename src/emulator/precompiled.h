// What most of the emulator's sources include, compiled once for them (see the Makefile).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "emulator/core/machine.h"
#include "emulator/engine/operand.h"
#include "emulator/isa/opcode.h"
#include "fp4lab/error.h"
