// The volumes of an agent under test over the real lvmd: ordered as the operator does, staged as kubelet does, resized, and compared with what
// LVM has. All that is in LVM is in `wanted`, and nothing else.
import { randomUUID } from "node:crypto";
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "@jest/globals";
import type { FilesystemLayoutSpec } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolumeSpec } from "../../../src/contracts/kinds/logical-volume.ts";
import { API_VERSION } from "../../../src/contracts/names.ts";
import { formatQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { blockCapability } from "../../builders/create-volume-request.ts";
import { waitFor as waitForValue } from "../../harness/wait-for.ts";
import {
  type AgentUnderTest,
  NODE_NAME,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "../../integration/agent/agent-under-test.ts";
import { scatterFiles, verifyFiles } from "../../integration/storage/written-files.ts";
import { sh } from "../lvmd/lvmd-under-test.ts";

/** The volume group of each class. */
export const GROUPS = { thick: "a", thin: "b" } as const;
type ClassName = keyof typeof GROUPS;

const RETRY_MS = 200;
const PATTERN = Buffer.from("kept through everything".padEnd(4096, "."));

/** `sizeBytes` is what LVM and the layout begin with; `volumeID` is "" before it is ordered. */
export interface VolumeOverLvm {
  readonly volume: VolumeUnderTest;
  readonly deviceClass: ClassName;
  readonly sizeBytes: number;
  readonly name: string;
  volumeID: string;
}

export type VolumesOverLvm = ReturnType<typeof createVolumesOverLvm>;

export function createVolumesOverLvm(agent: AgentUnderTest, socketDirectory: string) {
  const wanted = new Set<string>();
  const expectWanted = (): void => expect(volumesOfLvm()).toEqual([...wanted].sort());

  const subjectOf = (deviceClass: ClassName, sizeBytes: number): VolumeOverLvm => {
    const volume = volumeUnderTest(agent, randomUUID(), formatQuantity(sizeBytes));
    return { volume, deviceClass, sizeBytes, name: volume.handle, volumeID: "" };
  };
  const order = async (subject: VolumeOverLvm, spec: Partial<LogicalVolumeSpec> = {}): Promise<void> => {
    const { name, deviceClass, sizeBytes } = subject;
    const whole = { nodeName: NODE_NAME, deviceClass, size: formatQuantity(sizeBytes), ...spec };
    const object = { apiVersion: API_VERSION, kind: "LogicalVolume" as const, metadata: { name }, spec: whole };
    const { metadata } = await agent.client.create("test/logical-volume", LOGICAL_VOLUMES, object);
    subject.volumeID = metadata.uid ?? "";
    wanted.add(subject.volumeID);
  };
  const made = async (subject: VolumeOverLvm): Promise<void> => {
    const { name, volumeID } = subject;
    const live = () => agent.client.get(LOGICAL_VOLUMES, { name });
    await waitForValue(
      `volume ${name}`,
      async () => ((await live())?.status?.volumeID === volumeID ? true : undefined),
      { otherwise: async () => JSON.stringify(await live()) },
    );
    expect(lvBytes(subject)).toBe(subject.sizeBytes);
    expectWanted();
  };
  const gone = async ({ volumeID }: VolumeOverLvm): Promise<void> => {
    wanted.delete(volumeID);
    await waitFor("the volume to be gone", () => !volumesOfLvm().includes(volumeID));
    expectWanted();
  };

  let epoch = 0;
  const sizes = new Map<string, number>();
  const sizeOf = (subject: VolumeOverLvm): number => sizes.get(subject.name) ?? subject.sizeBytes;
  const manifestOf = ({ name }: VolumeOverLvm): string => join(agent.directory, `${name}.manifest`);
  const isReducing = ({ volumeID }: VolumeOverLvm): boolean =>
    [join(agent.directory, "state", "lvm"), socketDirectory].some((directory) =>
      existsSync(join(directory, `${volumeID}.reduction.json`)),
    );

  return {
    subjectOf,
    order,
    made,
    gone,
    expectWanted,
    /** Made, and named by a layout. */
    provide: async (
      deviceClass: ClassName,
      sizeBytes: number,
      change: Partial<FilesystemLayoutSpec> = {},
    ): Promise<VolumeOverLvm> => {
      const subject = subjectOf(deviceClass, sizeBytes);
      await order(subject, change.volumeMode === undefined ? {} : { volumeMode: change.volumeMode });
      await made(subject);
      await subject.volume.applyLayout(layoutOf(subject, change));
      return subject;
    },
    /** As kubelet, which asks again whoever has died. */
    persist: (ask: () => Promise<unknown>): Promise<void> =>
      waitFor("the agent to have done it", () =>
        ask().then(
          () => true,
          () => pause(RETRY_MS, false),
        ),
      ),
    /** Of its last askSize, or its first. */
    sizeOf,
    /** By so many bytes more, or fewer, than it was asked for last. */
    askSize: async (
      subject: VolumeOverLvm,
      byBytes: number,
      change: Partial<FilesystemLayoutSpec> = {},
    ): Promise<void> => {
      const fromBytes = sizeOf(subject);
      sizes.set(subject.name, fromBytes + byBytes);
      epoch += 1;
      const decidedAt = new Date().toISOString();
      const target = { size: formatQuantity(fromBytes + byBytes), from: formatQuantity(fromBytes), epoch, decidedAt };
      await subject.volume.applyLayout(layoutOf(subject, { ...change, target }));
    },
    /** In LVM, and told; no reduction is left that could still be carried out. */
    reachedSize: async (subject: VolumeOverLvm): Promise<void> => {
      const sizeBytes = sizeOf(subject);
      await waitFor(`${subject.name} to have ${formatQuantity(sizeBytes)}`, async () => {
        const { status } = await subject.volume.layout();
        const isTold = status?.operation === undefined && status?.lastOperation?.reached === formatQuantity(sizeBytes);
        return isTold && lvBytes(subject) === sizeBytes;
      });
      expect(isReducing(subject)).toBe(false);
    },
    writeFiles: (subject: VolumeOverLvm): void => scatterFiles(subject.volume.stagingPath, manifestOf(subject), 8, 2),
    expectFiles: (subject: VolumeOverLvm): void =>
      expect(verifyFiles(subject.volume.stagingPath, manifestOf(subject))).toEqual({ files: 4, corrupt: [] }),
    stageRaw: (subject: VolumeOverLvm): Promise<void> => {
      mkdirSync(subject.volume.stagingPath, { recursive: true });
      return agent.node.stage(blockRequest(subject));
    },
    publishRaw: (subject: VolumeOverLvm): Promise<void> => {
      mkdirSync(join(subject.volume.targetPath, ".."), { recursive: true });
      return agent.node.publish({ ...blockRequest(subject), targetPath: subject.volume.targetPath, readonly: false });
    },
  };
}

export function layoutOf(
  { name, deviceClass, sizeBytes, volumeID }: VolumeOverLvm,
  change: Partial<FilesystemLayoutSpec> = {},
  state: "Present" | "Removed" = "Present",
): Partial<FilesystemLayoutSpec> {
  const source = { logicalVolume: { name, volumeID, deviceClass } };
  const members = [{ name: "member-0", size: formatQuantity(sizeBytes), state, source }];
  return { backend: "lvm", members, ...change };
}

/** 0: there is none. */
function lvBytes({ deviceClass, volumeID }: VolumeOverLvm): number {
  const name = `${GROUPS[deviceClass]}/${volumeID}`;
  return Number(sh(`lvs --noheadings --units b --nosuffix -o lv_size ${name} 2>/dev/null || echo 0`));
}

function volumesOfLvm(): string[] {
  return sh(`lvs --noheadings -o lv_name ${Object.values(GROUPS).join(" ")}`)
    .split("\n")
    .map((line) => line.trim())
    .filter((name) => name !== "" && name !== "pool")
    .sort();
}

function blockRequest({ volume }: VolumeOverLvm) {
  return {
    ...{ volumeId: volume.handle, stagingTargetPath: volume.stagingPath, volumeCapability: blockCapability() },
    ...{ publishContext: {}, secrets: {}, volumeContext: {} },
  };
}

/** Through what its pod is shown. */
export function writePattern({ volume }: VolumeOverLvm): void {
  const file = openSync(volume.targetPath, "r+");
  writeSync(file, PATTERN, 0, PATTERN.length, 0);
  fsyncSync(file);
  closeSync(file);
}

export function expectPattern({ volume }: VolumeOverLvm): void {
  const file = openSync(volume.targetPath, "r");
  const read = Buffer.alloc(PATTERN.length);
  readSync(file, read, 0, read.length, 0);
  closeSync(file);
  expect(read).toEqual(PATTERN);
}
