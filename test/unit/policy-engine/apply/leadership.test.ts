// Under which epoch a new leader writes, by each record that an older one may have left.
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { Filesystem, SizeTarget } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { EPOCH_ANNOTATION } from "../../../../src/contracts/names.ts";
import { EPOCH_MAX } from "../../../../src/contracts/schema/schema.ts";
import { createLeadership, type Leadership } from "../../../../src/policy-engine/apply/leadership.ts";
import { readConfig } from "../../../../src/policy-engine/config.ts";
import { buildFilesystem, buildLayout } from "../../../builders/volume.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";
import { createLeaseServer, type LeaseServer } from "../../../fakes/lease-server.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { waitFor } from "../../../harness/wait-for.ts";

const CONFIG = readConfig(["--lease-namespace", "tidemark-system"], {});
const KNOWN = 1000;

let leases: LeaseServer;
let leadership: Leadership;
let epochs: number[];
beforeEach(() => {
  leases = createLeaseServer();
  // Its last leader has given it back: nobody has to be waited for.
  leases.put({
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      namespace: "tidemark-system",
      name: "tidemark-policy-engine",
      annotations: { [EPOCH_ANNOTATION]: "7" },
    },
    spec: { holderIdentity: "" },
  });
  epochs = [];
});
afterEach(() => leadership.stop());

interface Recorded {
  readonly filesystem?: Filesystem;
  readonly layout?: FilesystemLayout;
}

/** The first epoch of a leader that finds this, and hears nothing more. */
async function firstEpoch({ filesystem, layout }: Recorded): Promise<number> {
  const caches = engineCaches();
  if (filesystem !== undefined) caches.filesystems.put(filesystem);
  if (layout !== undefined) caches.layouts.put(layout);
  const { log } = createRecordingLog();
  const client = leases.client();
  leadership = createLeadership(client, caches, CONFIG, log, () => {
    epochs.push(leadership.epoch() ?? 0);
  });
  leadership.start();
  return waitFor("a leader", () => epochs[0]);
}

const target = (epoch: number): SizeTarget => ({
  size: "2Gi",
  from: "1Gi",
  epoch,
  decidedAt: "2026-01-01T00:00:00Z",
});
const emergency = (epoch: number) => ({ size: "2Gi", minAvailable: "1Gi", expiry: "2026-01-02T00:00:00Z", epoch });

describe("a new leader's epoch", () => {
  it("is one above the Lease's where no record knows of a higher one", async () => {
    expect(await firstEpoch({ layout: buildLayout(), filesystem: buildFilesystem() })).toBe(8);
  });

  it.each<[string, Recorded]>([
    ["a Filesystem's target", { filesystem: buildFilesystem({ target: target(KNOWN) }) }],
    ["a grant", { layout: buildLayout({ spec: { emergency: emergency(KNOWN) } }) }],
    ["a layout's target", { layout: buildLayout({ spec: { target: target(KNOWN) } }) }],
    ["what an agent has reported in a layout's status", { layout: buildLayout({ status: { epoch: KNOWN } }) }],
  ])("is above that of %s from the first on", async (_where, recorded) => {
    expect(await firstEpoch(recorded)).toBe(KNOWN + 1);
  });

  it("is not driven to the last number by an agent that lies", async () => {
    expect(await firstEpoch({ layout: buildLayout({ status: { epoch: EPOCH_MAX - 1 } }) })).toBe(8);
  });

  it("is followed by a higher one when an agent tells that it has seen more, and by none when it has seen less", async () => {
    await firstEpoch({});
    leadership.agentKnows(3);
    leadership.agentKnows(KNOWN);
    await waitFor("another epoch", () => epochs[1], { limitMs: 30_000 });
    expect(epochs).toEqual([8, KNOWN + 1]);
  });
});
