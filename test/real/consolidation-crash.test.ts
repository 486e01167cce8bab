// Members that are merged for a pod's attach slots, while a process dies by SIGKILL in the very middle of it: at the decision, at each
// step that carries it out, and on the node. On real btrfs, by all three processes: the merge is finished, with every file, and no
// slot is lost.
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../src/api/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../src/api/filesystem-size.ts";
import { VOLUME_POLICIES } from "../../src/api/volume-policy.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, type PodVolume } from "../../src/kube/resources.ts";
import { GIB } from "../../src/units/quantity.ts";
import { buildClaim } from "../builders/claim.ts";
import { aPolicySpec, EXTEND_AT_80 } from "../builders/policy.ts";
import { MEMBER_DRIVER } from "../fakes/member-sidecars.ts";
import { deathRecord } from "../harness/death-notes.ts";
import { releaseLeaseOfDead } from "../harness/kill-points.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { SHOP, type SpanStack, startSpanStack } from "../harness/span-stack.ts";
import { NODE_NAME, type StackProcess } from "../harness/stack.ts";
import { waitFor } from "../harness/wait-for.ts";
import { scatterFiles, verifyFiles } from "../integration/storage/written-files.ts";

const LIMIT_MS = 300_000;
const MEMBERS = 3;

/** Of the merge itself: the process is started anew when everything else is done, and passes the point for the first time in it. */
const DEATHS: readonly (readonly [way: "grows" | "replaces", owner: StackProcess, passage: string])[] = [
  ["grows", "policy-engine", "target/apply-filesystem/before"],
  ["grows", "policy-engine", "target/apply-filesystem/after"],
  ["grows", "operator", "carry-target/layout/after"],
  ["grows", "operator", "carry-target/layout/before#2"],
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
      const { stack } = tested;
      await tested.expandsMembers(false);
      await tested.setSlots(100);
      const span = await tested.mountedSpan(name, MEMBERS);
      const manifest = join(stack.directory, `${name}.sums`);
      scatterFiles(span.path, manifest, 40, 4);
      const used = await tested.usedSlots();
      await tested.expandsMembers(way === "grows");
      await applyPolicy(name);
      await stack.processes[owner].stop();
      await stack.start(owner, { TIDEMARK_FAULT: passage });

      // With a slot that is free, which the larger member needs, the pod has two volumes.
      await tested.setSlots(way === "grows" ? used : used + 1);
      const volumes = way === "grows" ? [`${name}-a`] : [`${name}-a`, `${name}-b`];
      await waitingPod(`waits-for-${name}`, volumes);
      await waitFor(`${owner} to die at ${passage}`, () => !stack.processes[owner].running() || undefined, {
        otherwise: whatIsThere,
      });
      expect((await stack.processes[owner].ended()).signal).toBe("SIGKILL");
      deaths.killedAt(passage);
      await releaseLeaseOfDead(stack, owner);
      await stack.start(owner, {});

      // What they hold decides which of them leaves.
      const sizes = (members: readonly { readonly size?: string | undefined; readonly state?: string }[] = []) =>
        members.map(({ size, state }) => `${size} ${state}`).sort();
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
      await waitFor("the slot", async () => (await tested.usedSlots()) === used - 1 || undefined);
      const { files, corrupt } = verifyFiles(span.path, manifest);
      expect({ files, corrupt }).toEqual({ files: 10, corrupt: [] });
      expect(await tested.span.claims(span.handle)).toHaveLength(MEMBERS - 1);
      await waitFor("nothing more to be wanted", async () => {
        const filesystem = await stack.client.get(FILESYSTEMS, { namespace: SHOP, name });
        return filesystem?.status?.consolidation === undefined || undefined;
      });
      await stack.client.delete("test/pod", PODS, { namespace: SHOP, name: `waits-for-${name}` });
      await stack.client.delete("test/policy", VOLUME_POLICIES, { namespace: SHOP, name });
    },
    LIMIT_MS,
  );

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
    const behavior = { extend: { cooldown: "0s", minStep: "256Mi" }, shrink: { cooldown: "0s", minStep: "256Mi" } };
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
