// Claims of another driver, as the policy-engine sees them; the test plays the operator, the agent and that driver's resizer.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { volumeHandleOf } from "../../../src/contracts/identity.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES } from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS, RECORDS } from "../../../src/contracts/names.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { buildClaim } from "../../builders/claim.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  applyPolicy,
  type Cluster,
  type EngineUnderTest,
  layoutOf,
  startCluster,
  startEngine,
  untilFilesystem,
} from "./engine-under-test.ts";

const namespace = "default";
const EXTENDING = {
  claimBackend: "Enabled" as const,
  limits: { max: "100Gi" },
  rules: [{ name: "extend-at-80", action: "Extend" as const, when: "volume.usedRatio >= 0.8", targetUsed: "75%" }],
};

describe("the policy-engine, of a claim of another driver", () => {
  let cluster: Cluster;
  let engine: EngineUnderTest;

  beforeAll(async () => {
    cluster = await startCluster();
    await cluster.client.create("test/class", STORAGE_CLASSES, {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: "fast" },
      provisioner: "block.example.com",
      allowVolumeExpansion: true,
    });
  });
  beforeEach(async () => {
    await applyPolicy(cluster, "claims", EXTENDING);
    engine = await startEngine(cluster);
    await waitFor("leadership", () => (engine.leadership.isLeader() ? true : undefined));
  });
  afterEach(() => engine.stop());
  afterAll(() => cluster.stop());

  const driverSays = (name: string, status: object) =>
    cluster.client.mergePatch("test/status", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, { status }, "status");
  const raise = (name: string, storage: string) =>
    cluster.client.mergePatch(
      "test/raise",
      PERSISTENT_VOLUME_CLAIMS,
      { namespace, name },
      {
        spec: { resources: { requests: { storage } } },
      },
    );
  const held = (name: string, reason: string) =>
    untilFilesystem(cluster, name, reason, ({ status }) => status?.scaling?.reason === reason);

  /** 10Gi, as the operator adopts it. */
  async function adopt(name: string, annotations: Record<string, string> = {}): Promise<string> {
    const { client } = cluster;
    const claim = buildClaim({ name, storageClassName: "fast", annotations, spec: { volumeName: `pv-${name}` } });
    const { metadata } = await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claim);
    const uid = metadata.uid ?? "";
    await driverSays(name, { phase: "Bound", capacity: { storage: "10Gi" } });
    const handle = volumeHandleOf(uid);
    const member = { name, uid, volumeName: `pv-${name}`, driver: "block.example.com", capacity: "10Gi" };
    const apply = { fieldManager: FIELD_MANAGERS.operator };
    await client.apply(
      "test/filesystem",
      FILESYSTEMS,
      { apiVersion: API_VERSION, kind: "Filesystem", metadata: { namespace, name }, spec: { claimRef: { name, uid } } },
      apply,
    );
    await client.apply(
      "test/layout",
      FILESYSTEM_LAYOUTS,
      {
        apiVersion: API_VERSION,
        kind: "FilesystemLayout",
        metadata: { name: handle, annotations: { [RECORDS.requestedSize]: "10Gi" } },
        spec: {
          claimRef: { namespace, name, uid },
          backend: "claim",
          nodeName: "node-1",
          members: [{ name: "claim", source: { claim: member } }],
        },
      },
      apply,
    );
    // Sent until it is heard: a layout that the engine has not seen yet has no samples.
    await waitFor("a decision", async () => {
      engine.send(handle, { sizeBytes: 10 * GIB, usedBytes: GIB });
      const seen = await client.get(FILESYSTEMS, { namespace, name });
      return seen?.status?.scaling?.plan;
    });
    return handle;
  }

  it("decides on the agent's sample, as of any volume, and grants its node nothing", async () => {
    const handle = await adopt("crossing");
    engine.send(handle, { sizeBytes: 10 * GIB, usedBytes: 9 * GIB });
    const { spec } = await untilFilesystem(cluster, "crossing", "an extend", (one) => one.spec.target !== undefined);
    expect(spec.target).toMatchObject({ size: "12Gi", from: "10Gi" });
    expect((await layoutOf(cluster, handle))?.spec.emergency).toBeUndefined();
  });

  it("asks for one extend while the driver lags, and for the next on a sample that shows the larger filesystem", async () => {
    const handle = await adopt("lagging");
    const fill = (capacity: number) =>
      engine.send(handle, { sizeBytes: capacity * GIB, usedBytes: Math.round(0.9 * capacity * GIB) });
    fill(10);
    const first = await untilFilesystem(cluster, "lagging", "an extend", (one) => one.spec.target !== undefined);
    await raise("lagging", "12Gi");
    fill(10);
    await held("lagging", "OperationInProgress");
    await driverSays("lagging", { capacity: { storage: "12Gi" } });
    // The volume is larger; what is sampled is the filesystem from before.
    await waitFor("a doubt", async () => {
      fill(10);
      const seen = await cluster.client.get(FILESYSTEMS, { namespace, name: "lagging" });
      return seen?.status?.scaling?.reason === "MetricsInconsistent" || undefined;
    });
    const later = await cluster.client.get(FILESYSTEMS, { namespace, name: "lagging" });
    expect(later?.spec.target).toEqual(first.spec.target);
    fill(12);
    const second = await untilFilesystem(cluster, "lagging", "the next", (one) => one.spec.target?.from === "12Gi");
    expect(second.status?.scaling?.extendedAt ?? []).toHaveLength(1);
  });

  it("holds a claim whose driver cannot do what is asked for, and names the driver", async () => {
    await adopt("infeasible");
    await raise("infeasible", "15Gi");
    await driverSays("infeasible", {
      allocatedResourceStatuses: { storage: "ControllerResizeInfeasible" },
      conditions: [{ type: "ControllerResizeError", status: "True", message: "the pool is full" }],
    });
    const { status } = await held("infeasible", "ResizeInfeasible");
    expect(status?.scaling?.message).toContain(
      "driver block.example.com cannot expand the volume from 10Gi to 15Gi: the pool is full",
    );
  });

  it("holds a claim that another autoscaler raises", async () => {
    await adopt("theirs", { "resize.topolvm.io/storage_limit": "1Ti" });
    await held("theirs", "OtherAutoscaler");
  });

  it("holds a claim that its policy does not opt in, and says how to", async () => {
    await adopt("disabled");
    await applyPolicy(cluster, "claims", { ...EXTENDING, claimBackend: "Disabled" });
    const { status } = await held("disabled", "ClaimBackendDisabled");
    expect(status?.scaling?.message).toContain("claimBackend");
  });
});
