// Tensor maps made on the device: the host sends one set of maps, and each CTA turns a copy of it into the
// maps of a group when it comes to that group. Every CTA has a place of its own for every group, so no map is
// changed while a load may still be reading it.
#pragma once
#include "isa/fence.cuh"
#include "isa/memory.cuh"
#include "isa/tensormap.cuh"
#include "isa/warp.cuh"
#include "sm100/parts/kernel.cuh"

namespace fp4lab {

struct Matrix {
  u64 address;
  u32 columns, rows;  // elements
  u64 pitch;          // bytes
};

__device__ __forceinline__ void edit_map(u32 map, const Matrix& x) {
  isa::tensormap_replace_global_address(map, x.address);
  isa::tensormap_replace_global_dim<0>(map, x.columns);
  isa::tensormap_replace_global_dim<1>(map, x.rows);
  isa::tensormap_replace_global_stride<0>(map, x.pitch);
}

// By the whole load warp, before its first load of the group.
__device__ __forceinline__ void edit_maps(const Args& args, int group, u32 shared) {
  const GroupArgs& g = args.group[group];
  const u32 lane = threadIdx.x % 32;
  const u32 edited = shared + plan.map_edit_offset();
  // 8 lanes copy a map of 128 bytes
  for (u32 piece = lane; piece < 8 * plan.map_count(); piece += 32) {
    const u64* from = &args.maps[0][piece / 8].words[piece % 8 * 2];
    isa::st_shared_v4(edited + piece * 16, static_cast<u32>(from[0]), static_cast<u32>(from[0] >> 32),
                      static_cast<u32>(from[1]), static_cast<u32>(from[1] >> 32));
  }
  isa::bar_warp_sync();
  if (lane == 0) {
    const u32 bytes = g.k / 2, scale_columns = g.k;  // scales: 8-byte elements, 512 bytes to K = 64
    const u32 left = edited + plan.map_index(Map::kLeft) * 128,
              right = edited + plan.map_index(Map::kRight) * 128;
    edit_map(left, {g.codes_left, bytes, static_cast<u32>(g.left_rows), bytes});
    edit_map(right, {g.codes_right, bytes, static_cast<u32>(g.right_rows), bytes});
    isa::tensormap_replace_box_dim<1>(right, g.box_rows);
    edit_map(edited + plan.map_index(Map::kScalesLeft) * 128,
             {g.scales_left, scale_columns, static_cast<u32>(g.left_rows + 127) / 128, scale_columns * 8ull});
    edit_map(
        edited + plan.map_index(Map::kScalesRight) * 128,
        {g.scales_right[0], scale_columns, static_cast<u32>(g.right_rows + 127) / 128, scale_columns * 8ull});
  }
  isa::bar_warp_sync();
  TensorMap* const own =
      const_cast<TensorMap*>(tensor_map(args, group, Map::kLeft)) - plan.map_index(Map::kLeft);
  for (int map = 0; map < plan.map_count(); ++map)
    isa::tensormap_cp_fenceproxy(own + map, edited + map * 128);
  for (int map = 0; map < plan.map_count(); ++map) isa::fence_proxy_tensormap_acquire_gpu(own + map);
}

}  // namespace fp4lab
