// Lives of one volume in phases, with files whose checksums are known. Each phase ends only when the world shows its end; a phase
// that a process's death interrupts must end all the same. The plain life: made, extended, shrunk, let go and mounted again, deleted.
// The crowded one: data lies all over the device, so that a shrink must repack chunks, and a second shrink is interrupted.
import { execFileSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { loopDevicesUnder, mountsUnder } from "../../demo/show/run/mount-table.ts";
import { MOUNT_ANNOTATION } from "../../demo/stand-ins/kubelet.ts";
import { exclusiveOperation } from "../../src/agent/storage/btrfs/exclusive-operation.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { formatQuantity, GIB, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { scatterFiles, scatterInReserved, verifyFiles } from "../integration/storage/written-files.ts";
import type { Stack } from "./stack.ts";
import {
  applyApproval,
  applyPolicy,
  capacityBytesOf,
  createVolume,
  deleteVolume,
  filesystemOf,
  labelClaim,
  layoutOf,
  NAMESPACE,
  type TestVolume,
  waitForSize,
} from "./volume.ts";
import { waitFor } from "./wait-for.ts";

export const PLAIN_PHASES = ["create", "extend", "shrink", "remount", "delete"] as const;
export type Life = "plain" | "crowded";
export type Phase = (typeof PLAIN_PHASES)[number] | "crowd" | "repack" | "crowd-again" | "interrupt" | "clear";

export const INITIAL_SIZE = "1Gi";
/** A burst of more than this would be taken for a writer whose reserve stops the shrink for a minute. */
const FILES = 8;
const CROWDED_FILES = 430;
/** Every so many files are kept: what stays lies all over the device, so that a shrink has something to move. */
const KEPT_NTH = 4;

/** The sizes that a claim's label asks for. */
const SIZES = { small: GIB, medium: 3 * GIB, large: 2 * GIB, huge: 4 * GIB } as const;
type Size = keyof typeof SIZES;
const NEVER = "2100-01-01T00:00:00Z";
const KINDS = { small: "Shrink", medium: "Shrink", large: "Extend", huge: "Extend" } as const;

/** Sizes follow a label of the claim, so that a life says when its volume grows and shrinks, and the engine decides it. */
async function applySizeByLabel(stack: Stack, life: string): Promise<void> {
  await applyPolicy(stack, "size-by-label", {
    mode: { extend: "Enforce", shrink: "Approve" },
    trim: { every: "24h" },
    limits: { min: "512Mi", max: "8Gi", minAvailable: "64Mi" },
    rules: (Object.keys(SIZES) as Size[]).map((size) => ({
      name: size,
      action: KINDS[size],
      when: `volume.labels["size"] == "${size}"`,
      to: formatQuantity(SIZES[size]),
      messageExpression: `"${life}"`, // a policy edited for each life: its status is written anew
    })),
    behavior: {
      extend: { cooldown: "0s", minStep: "16Mi" },
      shrink: { stabilization: "0s", cooldown: "0s", minStep: "16Mi" },
    },
  });
  await applyApproval(stack, "shrinks", { claims: [life], action: "Shrink", notBelow: "512Mi", notAfter: NEVER });
}

/** Told before and after each phase; what they throw ends the life. */
export interface LifeObserver {
  before(phase: Phase): Promise<void>;
  after(phase: Phase): Promise<void>;
}

/** Lives the whole life. Throws where a phase does not end as it must, or a file does not have its checksum. */
export async function live(stack: Stack, life: Life, name: string, observer: LifeObserver): Promise<void> {
  const subject: Subject = {
    stack,
    name,
    manifest: join(stack.directory, `${name}.sums`),
    volume: undefined,
    files: 0,
  };
  for (const [phase, body] of life === "plain" ? plainLife(subject) : crowdedLife(subject)) {
    await observer.before(phase);
    await body();
    await observer.after(phase);
    if (subject.volume !== undefined) assertIntact(subject, subject.volume, phase);
  }
  await waitForNothingLeft(stack);
}

interface Subject {
  readonly stack: Stack;
  readonly name: string;
  readonly manifest: string;
  volume: TestVolume | undefined;
  /** How many files there must be. */
  files: number;
}

type Step = readonly [Phase, () => Promise<void>];

function plainLife(subject: Subject): Step[] {
  return [
    ["create", () => create(subject)],
    ["extend", () => resize(subject, "large")],
    ["shrink", () => resize(subject, "small")],
    ["remount", () => remount(subject.stack, present(subject))],
    ["delete", () => remove(subject)],
  ];
}

function crowdedLife(subject: Subject): Step[] {
  return [
    ["crowd", () => create(subject).then(() => crowd(subject))],
    ["repack", () => resize(subject, "medium")],
    ["crowd-again", () => crowd(subject)],
    ["interrupt", () => interruptShrink(subject)],
    ["clear", () => remove(subject)],
  ];
}

function present({ volume, name }: Subject): TestVolume {
  if (volume === undefined) throw new Error(`there is no volume ${name}`);
  return volume;
}

async function create(subject: Subject): Promise<void> {
  const { stack, name } = subject;
  await applySizeByLabel(stack, name);
  subject.volume = await createVolume(stack, name, { request: INITIAL_SIZE, labels: { size: "as-it-is" } });
  scatter(subject, FILES, scatterFiles);
}

function scatter(subject: Subject, files: number, write: typeof scatterFiles): void {
  rmSync(subject.manifest, { force: true });
  write(present(subject).mountPath, subject.manifest, files, KEPT_NTH);
  subject.files = Math.ceil(files / KEPT_NTH);
}

/** A new agent has not seen how fast this was written: it keeps no reserve for such a writer. */
async function crowd(subject: Subject): Promise<void> {
  const { stack } = subject;
  await resize(subject, "huge");
  scatter(subject, CROWDED_FILES, scatterInReserved);
  execFileSync("sync", ["--file-system", present(subject).mountPath]);
  await stack.processes.agent.stop();
  await stack.start("agent");
}

/** The pod goes while data is moved: what runs is cancelled, and done again when the pod is back. */
async function interruptShrink(subject: Subject): Promise<void> {
  const { stack } = subject;
  const volume = present(subject);
  await labelClaim(stack, volume, { size: "medium" });
  // Or it is over before it was seen: then there is nothing to interrupt this time.
  const running = (): boolean => exclusiveOperation(volume.fsid) !== "none" || capacityBytesOf(volume) === SIZES.medium;
  await waitFor("the shrink to move data", () => running() || undefined, {
    intervalMs: 1,
    otherwise: () => stack.tellLogs(),
  });
  await remount(stack, volume);
  await resize(subject, "medium");
}

async function remove(subject: Subject): Promise<void> {
  await deleteVolume(subject.stack, present(subject));
  subject.volume = undefined;
}

async function resize(subject: Subject, size: Size): Promise<void> {
  const { stack } = subject;
  const volume = present(subject);
  await labelClaim(stack, volume, { size });
  await waitForSize(stack, volume, SIZES[size]);
  const kind = KINDS[size];
  await waitFor(
    `the ${kind} of ${volume.name} to be told as ended`,
    async () => {
      const { lastOperation } = (await layoutOf(stack, volume)).status ?? {};
      const { scaling, capacity } = (await filesystemOf(stack, volume)).status ?? {};
      if (lastOperation?.kind !== kind || parseQuantity(lastOperation.reached) !== SIZES[size]) return undefined;
      // Cancelled: the pod went in the moment in which the size was reached.
      if (lastOperation.outcome !== "Succeeded" && lastOperation.outcome !== "Cancelled") return undefined;
      return scaling?.reason !== undefined && capacity === lastOperation.reached ? true : undefined;
    },
    {
      otherwise: async () => {
        const [layout, filesystem] = [await layoutOf(stack, volume), await filesystemOf(stack, volume)];
        return `${JSON.stringify(layout.status)} ${JSON.stringify(filesystem.status)}\n${stack.tellLogs()}`;
      },
    },
  );
  await labelClaim(stack, volume, { size: "as-it-is" });
}

/** What is read afterwards comes from the member, not from the page cache. */
export async function remount(stack: Stack, volume: TestVolume): Promise<void> {
  await annotateMount(stack, volume, "false");
  await waitFor(`${volume.name} to be unmounted`, () =>
    loopDevicesUnder(stack.memberDirectory).length === 0 && mountsUnder(stack.kubeletDirectory).length === 0
      ? true
      : undefined,
  );
  await annotateMount(stack, volume, null);
  await waitFor(
    `${volume.name} to be mounted again`,
    () => (mountsUnder(volume.mountPath).length > 0 ? true : undefined),
    { otherwise: () => stack.tellLogs() },
  );
}

async function annotateMount(stack: Stack, { name }: TestVolume, value: string | null): Promise<void> {
  const patch = { metadata: { annotations: { [MOUNT_ANNOTATION]: value } } };
  await stack.client.mergePatch("test/mount", PERSISTENT_VOLUME_CLAIMS, { namespace: NAMESPACE, name }, patch);
}

function assertIntact({ manifest, files: wanted }: Subject, { mountPath }: TestVolume, phase: Phase): void {
  const { files, corrupt } = verifyFiles(mountPath, manifest);
  if (files !== wanted) throw new Error(`after ${phase} there are ${files} of ${wanted} files`);
  if (corrupt.length > 0) throw new Error(`after ${phase} these files are corrupt: ${corrupt.join(", ")}`);
}

async function waitForNothingLeft(stack: Stack): Promise<void> {
  const left = (): string[] => [
    ...mountsUnder(stack.directory),
    ...loopDevicesUnder(stack.directory),
    ...filesBelow(stack.memberDirectory),
    ...filesBelow(join(stack.stateDirectory, "volumes")),
  ];
  await waitFor("nothing to be left behind", () => (left().length === 0 ? true : undefined), {
    otherwise: () => `there are ${left().join(", ")}\n${stack.tellLogs()}`,
  });
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
}
