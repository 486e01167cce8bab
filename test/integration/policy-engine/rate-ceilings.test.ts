// Ceilings on rates with the real engine: what waits is said, has its turn, and is counted on by the next leader.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEMS, type Filesystem } from "../../../src/contracts/kinds/filesystem.ts";
import { CLUSTER_VOLUME_POLICIES } from "../../../src/contracts/kinds/volume-policy.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  applyPolicy,
  type Cluster,
  type EngineUnderTest,
  makeVolume,
  reportSize,
  startCluster,
  startEngine,
  untilFilesystem,
} from "./engine-under-test.ts";

const NAMES = ["first", "second", "third"] as const;
type Name = (typeof NAMES)[number];
const EXTENDED = 1417 * MIB;

describe("ceilings on rates", () => {
  let cluster: Cluster;
  let engine: EngineUnderTest | undefined;
  const handles = new Map<Name, string>();
  beforeAll(async () => {
    cluster = await startCluster();
    await applyPolicy(cluster, "growing", {
      limits: { min: "1Gi", max: "10Gi", minAvailable: "64Mi" },
      rules: [{ name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" }],
      behavior: { extend: { minStep: "256Mi" } },
    });
    await cluster.client.create("test/ceilings", CLUSTER_VOLUME_POLICIES, {
      apiVersion: API_VERSION,
      kind: "ClusterVolumePolicy",
      metadata: { name: "guard" },
      spec: { ceilings: { changesPerHourPerNamespace: 2, concurrentOperations: { perCluster: 1 } } },
    });
    for (const name of NAMES) handles.set(name, await makeVolume(cluster, name, GIB));
    // As the operator names it: by this the next leader finds whose times these are.
    for (const [name, volumeHandle] of handles)
      await cluster.client.apply(
        "test/filesystem-status",
        FILESYSTEMS,
        {
          apiVersion: API_VERSION,
          kind: "Filesystem",
          metadata: { namespace: "default", name },
          status: { volumeHandle },
        },
        { fieldManager: FIELD_MANAGERS.operator, subresource: "status" },
      );
  });
  afterEach(() => engine?.stop());
  afterAll(() => cluster.stop());

  const lead = async (): Promise<EngineUnderTest> => {
    const started = await startEngine(cluster);
    engine = started;
    await waitFor("leadership", () => started.leadership.isLeader() || undefined);
    return started;
  };
  const handleOf = (name: Name): string => handles.get(name) ?? "";
  const until = (name: Name, usedBytes: number, what: string, holds: (filesystem: Filesystem) => boolean) =>
    untilFilesystem(cluster, name, what, (filesystem) => {
      engine?.send(handleOf(name), { sizeBytes: GIB, usedBytes });
      return holds(filesystem);
    });
  const carryOut = async (name: Name, { spec: { target } }: Filesystem): Promise<void> => {
    const at = new Date().toISOString();
    const sizes = { from: "1Gi", to: "1417Mi", reached: "1417Mi" };
    const named = { epoch: target?.epoch, decidedAt: target?.decidedAt, startedAt: at, endedAt: at };
    const lastOperation = { kind: "Extend", outcome: "Succeeded", ...sizes, ...named };
    await reportSize(cluster, handleOf(name), EXTENDED, { lastOperation });
  };

  it("hold what rules ask for at once and beyond a namespace's hour, for the next leader, too, and never minAvailable", async () => {
    await lead();
    const isAsked = ({ spec }: Filesystem): boolean => spec.target !== undefined;
    const first = await until("first", 850 * MIB, "an extend", isAsked);
    const waiting = await until("second", 850 * MIB, "a wait", ({ status }) => {
      return status?.scaling?.reason === "OperationsAtLimit";
    });
    expect(waiting.spec.target).toBeUndefined();
    await carryOut("first", first);
    await carryOut("second", await until("second", 850 * MIB, "its turn", isAsked));
    const isHeld = ({ spec, status }: Filesystem): boolean =>
      spec.target === undefined && status?.scaling?.reason === "TooManyChanges";
    const held = await until("third", 850 * MIB, "a hold", isHeld);
    const nextMs = Date.parse(held.status?.scaling?.nextEligibleTime ?? "");
    expect(nextMs).toBeGreaterThan(Date.now() + 3_000_000);
    expect(nextMs).toBeLessThanOrEqual(Date.now() + 3_600_000);
    await engine?.stop();
    const next = await lead();
    const decidedBefore = held.status?.scaling?.decidedAt;
    // More is used: a new leader says it once more.
    await until("third", 900 * MIB, "a hold of the next leader", (filesystem) => {
      return isHeld(filesystem) && filesystem.status?.scaling?.decidedAt !== decidedBefore;
    });
    expect(next.leadership.isLeader()).toBe(true);
    await until("third", 1000 * MIB, "an extend", ({ spec }) => spec.target?.reason === "BelowMinAvailable");
  });
});
