// The plan's arithmetic: maps that tile their memory without gaps or overlap, argument bytes equal to the
// struct's.
#include "fp4lab/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>

#include "fp4lab/error.h"
#include "fp4lab/plan_text.h"

using namespace fp4lab;

namespace {

struct Piece {
  int begin, bytes, align;
};

// Pieces lie one after the other, none overlaps, each is aligned.
void check_disjoint(std::vector<Piece> pieces, int end) {
  std::sort(pieces.begin(), pieces.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  int at = 0;
  for (const auto& piece : pieces) {
    CHECK(piece.begin >= at);
    CHECK(piece.begin % piece.align == 0);
    at = piece.begin + piece.bytes;
  }
  CHECK(at <= end);
}

std::vector<Plan> some_plans() {
  std::vector<Plan> plans;
  for (Op op : {Op::kGroup, Op::kDual})
    for (int cta_group : {1, 2})
      for (int mma_n : {64, 128, 192, 256})
        for (int block_k : {256, 512})
          for (int stages : {1, 3})
            for (Epilogue epilogue : {Epilogue::kDirect, Epilogue::kTma})
              for (Schedule schedule : {Schedule::kStatic, Schedule::kDynamic}) {
                Plan plan;
                plan.op = op, plan.cta_group = cta_group, plan.mma_m = 128 * cta_group, plan.mma_n = mma_n;
                plan.block_k = block_k, plan.stages = plan.scale_slots = stages, plan.acc_slots = 2;
                plan.epilogue = epilogue, plan.schedule = schedule;
                plan.scale_copy = cta_group == 2 ? ScaleCopy::kTensor : ScaleCopy::kBulk;
                plans.push_back(plan);
              }
  return plans;
}

}  // namespace

TEST_CASE("the shared-memory map tiles its bytes") {
  for (const Plan& p : some_plans()) {
    CAPTURE(plan_line(p));
    std::vector<Piece> pieces;
    for (int s = 0; s < p.stages; ++s) {
      pieces.push_back({p.left_offset(s), p.left_bytes(), 1024});
      pieces.push_back({p.scales_left_offset(s), p.scale_bytes(), 128});
      for (int product = 0; product < p.products(); ++product) {
        pieces.push_back({p.right_offset(s, product), p.right_bytes(), 1024});
        pieces.push_back({p.scales_right_offset(s, product), p.scales_right_bytes(), 128});
      }
      pieces.push_back({p.full_barrier(s), 8, 8});
      pieces.push_back({p.empty_barrier(s), 8, 8});
    }
    for (int slot = 0; slot < p.acc_slots; ++slot) {
      pieces.push_back({p.acc_full_barrier(slot), 8, 8});
      pieces.push_back({p.acc_empty_barrier(slot), 8, 8});
    }
    for (int slot = 0; slot < p.work_slots(); ++slot) {
      pieces.push_back({p.work_full_barrier(slot), 8, 8});
      pieces.push_back({p.work_empty_barrier(slot), 8, 8});
      pieces.push_back({p.work_offset(slot), 16, 16});
    }
    if (p.staging_bytes() > 0) pieces.push_back({p.staging_offset(), p.staging_bytes(), 1024});
    pieces.push_back({p.tmem_pointer_offset(), 4, 4});
    pieces.push_back({p.last_part_offset(), 4, 4});
    check_disjoint(pieces, p.shared_bytes());
  }
}

TEST_CASE("the TMEM map tiles its columns") {
  for (const Plan& p : some_plans()) {
    CAPTURE(plan_line(p));
    std::vector<Piece> pieces;
    for (int product = 0; product < p.products(); ++product)
      for (int slot = 0; slot < p.acc_slots; ++slot)
        pieces.push_back({p.acc_column(slot, product), p.mma_n, 32});
    for (int slot = 0; slot < p.scale_slots; ++slot)
      for (int kb = 0; kb < p.k_blocks(); ++kb) {
        pieces.push_back({p.scales_left_column(slot, kb), 4, 4});
        for (int product = 0; product < p.products(); ++product)
          pieces.push_back({p.scales_right_column(slot, product, kb), 4 * p.scale_blocks(), 4});
      }
    check_disjoint(pieces, p.tmem_columns_used());
    CHECK(p.tmem_columns() >= p.tmem_columns_used());
    CHECK((p.tmem_columns() & (p.tmem_columns() - 1)) == 0);
  }
}

TEST_CASE("argument bytes are those of the struct") {
  Plan p;
  p.group_capacity = 8;
  CHECK(p.map_count() == 2);
  using Two = GemmArgs<8, 2>;
  CHECK(p.args_group_offset() == int(offsetof(Two, group)));
  CHECK(p.args_tail_offset() == int(offsetof(Two, tail)));
  CHECK(p.args_first_tile_offset() == int(offsetof(Two, first_tile)));
  CHECK(p.args_bytes() == int(sizeof(Two)));
  p.op = Op::kDual, p.scale_copy = ScaleCopy::kTensor, p.epilogue = Epilogue::kTma, p.group_capacity = 1;
  using Seven = GemmArgs<1, 7>;
  CHECK(p.map_count() == 7);
  CHECK(p.map_index(Map::kOutput) == 6);
  CHECK(p.args_group_offset() == int(offsetof(Seven, group)));
  CHECK(p.args_bytes() == int(sizeof(Seven)));
}

TEST_CASE("a plan as text") {
  Plan p;
  CHECK(plan_line(p) == "128x128x256");
  set_knob(p, "stages=4");
  set_knob(p, "schedule", "static");
  CHECK(p.stages == 4);
  CHECK(p.schedule == Schedule::kStatic);
  CHECK(plan_line(p) == "128x128x256 stages=4 schedule=static");
  CHECK(plan_define(p).find(".stages=4,") != std::string::npos);
  CHECK(plan_define(p).find(".schedule=Schedule::kStatic,") != std::string::npos);
  CHECK(knob_value(p, "schedule") == "static");
  CHECK_THROWS_WITH_AS(set_knob(p, "stages", "four"), "knob stages takes 1.., not 'four'", Error);
  CHECK_THROWS_AS(set_knob(p, "stagess", "4"), Error);
  CHECK_THROWS_AS(set_knob(p, "stages"), Error);
}

TEST_CASE("every knob is in the table, in order, and survives a round trip") {
  Plan p;
  p.swap = true, p.stages = 5, p.epilogue = Epilogue::kTma, p.weights = Hint::kEvictFirst,
  p.sort_groups = true;
  Plan copy;
  std::size_t i = 0;
  Plan::visit_knobs(p, [&](const char* name, auto) {
    REQUIRE(i < knob_table().size());
    CHECK(knob_table()[i++].name == name);
    set_knob(copy, name, knob_value(p, name));
  });
  CHECK(i == knob_table().size());
  CHECK(copy == p);
}
