// What most sources that the fuzzers instrument include, read once for all of them (the Makefile has more).
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emulator/core/ir.h"
#include "emulator/isa/opcode.h"
#include "emulator/isa/table.h"
#include "emulator/ptx/image.h"
