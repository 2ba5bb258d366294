// What most tests include, compiled once for them (see the Makefile).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "emulator/core/machine.h"
#include "emulator/isa/opcode.h"
#include "fp4lab/error.h"
