// Members that are merged for a pod's attach slots, while a process dies by SIGKILL in the very middle of it: at the decision, at each
// step that carries it out, and on the node. On real btrfs, by all three processes: the merge is finished, with every file, and no
// slot is lost.
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { filesystemSizeBytes } from "../../src/contracts/formulas/filesystem-size.ts";
import { FILESYSTEMS, type Filesystem, type WantedTarget } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import { VOLUME_POLICIES, type VolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  PODS,
  type PodVolume,
} from "../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { buildClaim } from "../builders/claim.ts";
import { aPolicySpec, EXTEND_AT_80 } from "../builders/policy.ts";
import { MEMBER_DRIVER } from "../fakes/member-sidecars.ts";
import { deathRecord } from "../harness/death-notes.ts";
import { releaseLeaseOfDead } from "../harness/kill-points.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { type MountedSpan, SHOP, type SpanStack, startSpanStack } from "../harness/span-stack.ts";
import { NODE_NAME, type StackProcess } from "../harness/stack.ts";
import { waitFor } from "../harness/wait-for.ts";
import { scatterFiles, verifyFiles } from "../integration/storage/written-files.ts";

const LIMIT_MS = 300_000;
const MEMBERS = 3;
/** The member has grown, and the operator has not asked others to leave. */
const GROWN = "carry-target/layout/before#2";

/** Of the merge itself: the process is started anew when everything else is done, and passes the point for the first time in it. */
const DEATHS: readonly (readonly [way: "grows" | "replaces", owner: StackProcess, passage: string])[] = [
  ["grows", "policy-engine", "target/apply-filesystem/before"],
  ["grows", "policy-engine", "target/apply-filesystem/after"],
  ["grows", "operator", "carry-target/layout/after"],
  ["grows", "operator", GROWN],
  ["grows", "agent", "span/remove-device/after"],
  ["replaces", "operator", "member/create-claim/after"],
  ["replaces", "operator", "carry-target/layout/after#2"],
  ["replaces", "operator", "carry-target/layout/after#3"],
  ["replaces", "agent", "span/add-device/after"],
  ["replaces", "agent", "span/record-released/before"],
];

describeReal("a process that dies by SIGKILL while members are merged", STACK_PARTS, () => {
  const deaths = deathRecord("consolidation-crash");
  let tested: SpanStack;

  beforeAll(async () => {
    tested = await startSpanStack();
  }, LIMIT_MS);
  afterAll(() => {
    deaths.note();
    return tested.close();
  }, LIMIT_MS);

  it.each(DEATHS.map((death, index) => [...death, `case-${index}`] as const))(
    "where a member %s, the %s at %s: it is finished after the restart, every file is intact, and no slot is lost",
    async (way, owner, passage, name) => {
      const wide = await wideFilesystem(name, way);
      await tested.stack.processes[owner].stop();
      await tested.stack.start(owner, { TIDEMARK_FAULT: passage });
      await lacksSlots(wide);
      await diesAt(owner, passage);
      await tested.stack.start(owner, {});
      await untilMerged(wide);
    },
    LIMIT_MS,
  );

  it(
    "whose leader is deposed twice, while the policy holds shrinks for a while: it ends at the size that it had before",
    async () => {
      const { stack } = tested;
      const wide = await wideFilesystem("deposed", "grows");
      await stack.processes.operator.stop();
      await stack.start("operator", { TIDEMARK_FAULT: GROWN });
      await lacksSlots(wide);
      await diesAt("operator", GROWN);
      expect(filesystemSizeBytes(await wide.span.layout())).toBe(4 * GIB);
      // The operator, which is away, carries none of their decisions.
      const first = await wide.target();
      await deposeEngine();
      const second = await waitFor("the second leader to decide", async () => {
        const target = await wide.target();
        return target !== undefined && target.epoch > (first?.epoch ?? 0) ? target : undefined;
      });
      expect(second).toMatchObject({ members: MEMBERS - 1, size: "3Gi", from: "4Gi" });
      await changePolicy("deposed", { mode: { shrink: "Recommend" } });
      await deposeEngine();
      await waitFor("the node to know the third leader", async () => {
        const { spec, status } = await wide.span.layout();
        return Math.max(spec.emergency?.epoch ?? 0, status?.epoch ?? 0) > second.epoch || undefined;
      });
      await stack.start("operator", {});
      await waitFor("the second leader's decision to be refused", async () => {
        const { conditions } = (await wide.filesystem())?.status ?? {};
        return conditions?.some(({ type, reason }) => type === "Stalled" && reason === "StaleEpoch") || undefined;
      });
      // Said after it was refused, so it has been decided since.
      await changePolicy("deposed", { suspend: true });
      await waitFor("the third leader to hold it", async () => {
        return (await wide.filesystem())?.status?.scaling?.reason === "PolicySuspended" || undefined;
      });
      expect(await wide.target()).toMatchObject({ members: MEMBERS - 1, size: "3Gi" });
      await changePolicy("deposed", { suspend: false, mode: { shrink: "Enforce" } });
      await untilMerged(wide);
    },
    LIMIT_MS,
  );

  interface WideFilesystem {
    readonly name: string;
    readonly way: "grows" | "replaces";
    readonly span: MountedSpan;
    readonly manifest: string;
    readonly usedSlots: number;
    filesystem(): Promise<Filesystem | undefined>;
    target(): Promise<WantedTarget | undefined>;
  }

  /** Three members of 1 GiB, with files in it, and a policy that lets it shrink. */
  async function wideFilesystem(name: string, way: WideFilesystem["way"]): Promise<WideFilesystem> {
    const { stack } = tested;
    await tested.expandsMembers(false);
    await tested.setSlots(100);
    const span = await tested.mountedSpan(name, MEMBERS);
    const manifest = join(stack.directory, `${name}.sums`);
    scatterFiles(span.path, manifest, 40, 4);
    const usedSlots = await tested.usedSlots();
    await tested.expandsMembers(way === "grows");
    await applyPolicy(name);
    const filesystem = () => stack.client.get(FILESYSTEMS, { namespace: SHOP, name });
    return { name, way, span, manifest, usedSlots, filesystem, target: async () => (await filesystem())?.spec.target };
  }

  /** With a slot that is free, which a larger member needs, the pod has two volumes. */
  async function lacksSlots({ name, way, usedSlots }: WideFilesystem): Promise<void> {
    await tested.setSlots(way === "grows" ? usedSlots : usedSlots + 1);
    await waitingPod(`waits-for-${name}`, way === "grows" ? [`${name}-a`] : [`${name}-a`, `${name}-b`]);
  }

  async function diesAt(owner: StackProcess, passage: string): Promise<void> {
    const { stack } = tested;
    await waitFor(`${owner} to die at ${passage}`, () => !stack.processes[owner].running() || undefined, {
      otherwise: whatIsThere,
    });
    expect((await stack.processes[owner].ended()).signal).toBe("SIGKILL");
    deaths.killedAt(passage);
    await releaseLeaseOfDead(stack, owner);
  }

  async function deposeEngine(): Promise<void> {
    await tested.stack.processes["policy-engine"].stop();
    await releaseLeaseOfDead(tested.stack, "policy-engine");
    await tested.stack.start("policy-engine", {});
  }

  /** One member less, of the size that it had, with every file; nothing more is wanted. */
  async function untilMerged({ name, span, manifest, usedSlots, filesystem }: WideFilesystem): Promise<void> {
    const { client } = tested.stack;
    // What they hold decides which of them leaves.
    const sizes = (
      members: readonly { readonly size?: string | undefined; readonly state?: string | undefined }[] = [],
    ) => members.map(({ size, state }) => `${size} ${state}`).sort();
    await waitFor(
      "one member of 1 GiB and one of 2 GiB",
      async () => {
        const { spec, status } = await span.layout();
        const isSo = [spec.members, status?.members].every(
          (members) => sizes(members).join() === "1Gi Present,2Gi Present",
        );
        return isSo || undefined;
      },
      { otherwise: whatIsThere },
    );
    expect(filesystemSizeBytes(await span.layout())).toBe(MEMBERS * GIB);
    const isMarked = async () => (await span.layout()).spec.members?.some(({ replaces }) => replaces !== undefined);
    await waitFor("members like any others", async () => (await isMarked()) === false || undefined, {
      otherwise: async () => JSON.stringify(await span.layout()),
    });
    await waitFor("the slot", async () => (await tested.usedSlots()) === usedSlots - 1 || undefined);
    const { files, corrupt } = verifyFiles(span.path, manifest);
    expect({ files, corrupt }).toEqual({ files: 10, corrupt: [] });
    expect(await tested.span.claims(span.handle)).toHaveLength(MEMBERS - 1);
    const isOver = async () => (await filesystem())?.status?.consolidation === undefined || undefined;
    await waitFor("nothing more to be wanted", isOver);
    await client.delete("test/pod", PODS, { namespace: SHOP, name: `waits-for-${name}` });
    await client.delete("test/policy", VOLUME_POLICIES, { namespace: SHOP, name });
  }

  async function whatIsThere(): Promise<string> {
    const { client } = tested.stack;
    const { items } = await client.list(FILESYSTEM_LAYOUTS);
    const pods = (await client.list(PODS)).items.map(({ metadata, status }) => `${metadata.name} ${status?.phase}`);
    const layouts = items.map(({ spec }) => [
      spec.claimRef?.name,
      spec.members?.map(({ source: _its, ...one }) => one),
    ]);
    return JSON.stringify({ used: await tested.usedSlots(), pods, layouts });
  }

  /** Of the case's filesystem alone: the others there have none, and stay. */
  async function applyPolicy(name: string): Promise<void> {
    const behavior = {
      extend: { cooldown: "0s", minStep: "256Mi" },
      shrink: { stabilization: "0s", cooldown: "0s", minStep: "256Mi" },
    };
    await tested.stack.client.create("test/policy", VOLUME_POLICIES, {
      apiVersion: "tidemark.dev/v1alpha1",
      kind: "VolumePolicy",
      metadata: { namespace: SHOP, name },
      spec: aPolicySpec({
        selector: { matchLabels: { case: name } },
        mode: { extend: "Enforce", shrink: "Enforce" },
        limits: { min: "1Gi", max: "20Gi" },
        rules: [EXTEND_AT_80],
        behavior,
      }),
    });
  }

  async function changePolicy(name: string, spec: Partial<VolumePolicySpec>): Promise<void> {
    await tested.stack.client.mergePatch("test/policy", VOLUME_POLICIES, { namespace: SHOP, name }, { spec });
  }

  /** On the node for long, with ordinary volumes of the members' driver. */
  async function waitingPod(name: string, volumeNames: readonly string[]): Promise<void> {
    const { client } = tested.stack;
    const volumes: PodVolume[] = [];
    for (const claimName of volumeNames) {
      const csi = { driver: MEMBER_DRIVER, volumeHandle: `device-of-${claimName}` };
      const metadata = { namespace: SHOP, name: claimName };
      await client.create("test/volume", PERSISTENT_VOLUMES, {
        ...{ apiVersion: "v1", kind: "PersistentVolume", metadata: { name: claimName } },
        spec: { csi, capacity: { storage: "10Gi" }, accessModes: ["ReadWriteOnce"] },
      });
      const claim = buildClaim({ ...metadata, spec: { volumeName: claimName } });
      await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claim);
      volumes.push({ name: claimName, persistentVolumeClaim: { claimName } });
    }
    const metadata = { namespace: SHOP, name };
    const spec = { nodeName: NODE_NAME, containers: [{ name: "main", image: "none" }], volumes };
    await client.create("test/pod", PODS, { apiVersion: "v1", kind: "Pod", metadata, spec });
    const lastTransitionTime = new Date(Date.now() - 3_600_000).toISOString();
    const conditions = [{ type: "PodScheduled", status: "True", reason: "", message: "", lastTransitionTime }];
    await client.mergePatch("test/pod", PODS, metadata, { status: { phase: "Pending", conditions } }, "status");
  }
});
