/** The series of routing by caches; all 0, or absent, in other modes. */
import type { Collectors } from "../observe/metrics.ts";
import type { Routing } from "./routing.ts";

/** Adds them; once per shard. */
export function addRoutingMetrics(collectors: Collectors, { caches, router }: Routing): void {
  if (caches === null) return;
  const { stats } = router.policy;
  const { reported, approximate } = caches;
  const counters = [
    ["prompt_blocks_total", "Full blocks of the prompts that were placed.", () => stats?.promptBlocks ?? 0],
    ["overlap_blocks_total", "Of these, blocks that the chosen worker had.", () => stats?.overlapBlocks ?? 0],
    ["report_gaps_total", "Times that reports of a worker's cache were missed.", () => reported.stats.gaps],
    ["reports_refused_total", "Reports that could not be read.", () => reported.stats.malformed],
    [
      "blocks_refused_total",
      "Blocks that were not remembered for want of room.",
      () => reported.index.refused + approximate.index.refused,
    ],
  ] as const;
  for (const [name, help, read] of counters) {
    collectors.add(`tokenplane_router_${name}`, help, "counter", read);
  }
  collectors.add("tokenplane_router_index_blocks", "Different blocks remembered.", "gauge", (emit) => {
    emit(reported.index.blocks, { source: "reported" });
    emit(approximate.index.blocks, { source: "guessed" });
  });
  collectors.add("tokenplane_router_index_bytes", "Memory that they take.", "gauge", (emit) => {
    emit(reported.index.bytes, { source: "reported" });
    emit(approximate.index.bytes, { source: "guessed" });
  });
}
