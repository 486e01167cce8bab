// What becomes of the turn for a merge by the write that it was taken for, on an API server that is slow or fails.
import { beforeEach, expect, it } from "@jest/globals";
import type { Filesystem } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { carryTarget } from "../../../../src/operator/apply/carry-target.ts";
import { createLayoutWriter } from "../../../../src/operator/apply/volume-objects.ts";
import { createMergeTurns, type MergeTurns } from "../../../../src/operator/consolidation/merge-turns.ts";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { createKeyedQueue } from "../../../../src/platform/process/async/keyed-queue.ts";
import { buildFilesystem } from "../../../builders/volume.ts";
import { type FilledCache, filledCache } from "../../../fakes/filled-cache.ts";
import { servedClient } from "../../../fakes/served-client.ts";
import { mounted } from "../../../harness/span-steps.ts";

const DECIDED_AT = "2030-01-01T00:10:00.000Z";
const SLOW_MS = 60_000;
const NODE = "node-a";
const target = { size: "4Gi", from: "4Gi", epoch: 3, decidedAt: DECIDED_AT, members: 1 };
const filesystem: Filesystem = buildFilesystem({ target });
const three = mounted("2Gi", "2Gi");
const LAYOUT: FilesystemLayout = {
  ...three,
  metadata: { ...three.metadata, uid: "layout-1", generation: 4, resourceVersion: "1" },
  spec: { ...three.spec, nodeName: NODE },
  status: { ...three.status, nodeName: NODE },
};
const OTHER = { handle: "other", node: NODE, pod: "shop/b" };

let nowMs = 0;
let cache: FilledCache<FilesystemLayout>;
let turns: MergeTurns;
beforeEach(() => {
  nowMs = Date.parse(DECIDED_AT) + 1000;
  cache = filledCache<FilesystemLayout>({}, [LAYOUT]);
  turns = createMergeTurns(cache.store);
});

/** Carries a merge into the layout while the API server answers a write as `answer` has it. */
async function carryMerge(
  answer: (written: FilesystemLayout) => FilesystemLayout,
): Promise<FilesystemLayout | undefined> {
  const client = servedClient({
    get: async ({ plural }) => (plural === "filesystems" ? filesystem : undefined),
    list: async ({ plural }) => (plural === "filesystemlayouts" ? [LAYOUT] : []),
    apply: async (_point, _resource, { spec }) => {
      nowMs += SLOW_MS;
      expect(turns.isFree(OTHER, nowMs)).toBe(false);
      const metadata = { ...LAYOUT.metadata, generation: 5, resourceVersion: "2" };
      return answer({ ...LAYOUT, metadata, spec: { ...LAYOUT.spec, ...(spec as FilesystemLayout["spec"]) } });
    },
  });
  const carrying = {
    client,
    layouts: createLayoutWriter(client),
    events: { record: () => undefined, flush: () => Promise.resolve() },
    turns: createKeyedQueue(),
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    budgetBytes: 100 * 2 ** 30,
    consolidations: {
      reserve: () => {
        const ends = turns.begin({ handle: LAYOUT.metadata.name, node: NODE, pod: "shop/a" });
        return { node: NODE, way: "replace" as const, end: (end: Parameters<typeof ends>[0]) => ends(end, nowMs) };
      },
      isPodGone: () => false,
    },
  };
  return (await carryTarget(carrying, { layout: LAYOUT, filesystem })).layout;
}

it("no other filesystem of the node is merged before the cache shows a merge that was slow to write", async () => {
  const written = await carryMerge((layout) => layout);
  expect(written?.spec.members?.at(-1)).toMatchObject({ name: "m2", state: "Spare" });
  expect(turns.isFree(OTHER, nowMs + SLOW_MS)).toBe(false);
  cache.put(written as FilesystemLayout);
  expect(turns.isFree(OTHER, nowMs + SLOW_MS)).toBe(true);
});

it("nor right after a write that failed late, by which it may have begun", async () => {
  const failed = carryMerge(() => {
    throw new KubeError("Unreachable", 504, "no answer in time");
  });
  await expect(failed).rejects.toThrow("no answer in time");
  expect(turns.isFree(OTHER, nowMs + 5000)).toBe(false);
  expect(turns.isFree(OTHER, nowMs + SLOW_MS)).toBe(true);
});
