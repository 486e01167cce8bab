// What a new stream begins with, of claims of other drivers: the sampling thread of the bundle, on a filesystem that is mounted anyway.
import { dirname, join } from "node:path";
import { expect, it } from "@jest/globals";
import { createClaimSlots } from "../../../src/agent/ordinary-claims/claim-measurer.ts";
import type { Sample } from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { BUNDLE_PATH } from "../../harness/bundle-process.ts";
import { describeReal } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";

describeReal("the samples of claims that a new stream begins with", ["bundle"], () => {
  it("are of readings that are recent: an engine counts their age from when they come", async () => {
    let laterMs = 0;
    const offered: Sample[] = [];
    const slots = createClaimSlots({
      samplerWorkerPath: join(dirname(BUNDLE_PATH), "sampler-worker.mjs"),
      offer: (samples) => offered.push(...samples),
      clock: { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + laterMs },
      log: createRecordingLog().log,
    });
    try {
      const claim = { handle: "fs-a", claimRef: { namespace: "shop", name: "data" }, sizeBytes: GIB, server: "memory" };
      slots.setClaims([{ ...claim, mountPaths: ["/dev/shm"] }]);
      await waitFor("a sample", () => (offered.length > 0 ? true : undefined));
      expect(slots.samples().map(({ volumeHandle }) => volumeHandle)).toEqual(["fs-a"]);
      laterMs = 20_000;
      expect(slots.samples()).toEqual([]);
    } finally {
      await slots.stop();
    }
  });
});
