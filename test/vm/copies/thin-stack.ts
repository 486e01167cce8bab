// The whole stack over a volume group with a thick class and a thin pool, and what its copies' tests do with it: claims with a source, the
// bytes that they write, and what is left in LVM.
import { createHash, randomBytes } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "@jest/globals";
import { FILESYSTEM_LAYOUTS, type FsType } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../../src/contracts/kinds/logical-volume.ts";
import { STORAGE_CLASSES } from "../../../src/contracts/kubernetes/resources.ts";
import { MIB } from "../../../src/contracts/quantities/quantity.ts";
import { type Stack, startStack } from "../../harness/stack.ts";
import { type ClaimSettings, capacityBytesOf, createVolume, type TestVolume } from "../../harness/volume.ts";
import { waitFor } from "../../harness/wait-for.ts";
import { verifyFiles } from "../../integration/storage/written-files.ts";
import { sh } from "../lvmd/lvmd-under-test.ts";

const GROUP = "copies";
const DEVICE_CLASSES = [
  { name: "thick", "volume-group": GROUP, default: true, "spare-gb": 0 },
  {
    ...{ name: "thin", "volume-group": GROUP, "spare-gb": 0, type: "thin" },
    "thin-pool": { name: "pool", "overprovision-ratio": 20 },
  },
];

/** With a death of the agent and of lvmd at each step, on a busy machine. */
const ARRIVAL_LIMIT_MS = 480_000;

/** Over the first disk of the machine. */
export async function startThinStack(fsTypes: readonly FsType[]): Promise<Stack> {
  sh(`vgcreate -qq ${GROUP} /dev/ubda; lvcreate -qq -y -T ${GROUP}/pool -L 8g`);
  const stack = await startStack({ lvm: { group: GROUP, deviceClasses: DEVICE_CLASSES } });
  for (const deviceClass of ["thick", "thin"])
    for (const fsType of fsTypes)
      await stack.client.create("test/storage-class", STORAGE_CLASSES, {
        apiVersion: "storage.k8s.io/v1",
        kind: "StorageClass",
        metadata: { name: classOf(fsType, deviceClass) },
        provisioner: "local.tidemark.dev",
        parameters: { backend: "lvm", deviceClass, "csi.storage.k8s.io/fstype": fsType },
        reclaimPolicy: "Delete",
        allowVolumeExpansion: true,
        volumeBindingMode: "Immediate",
      });
  return stack;
}

export function classOf(fsType: FsType, deviceClass = "thin"): string {
  return `${deviceClass}-${fsType}`;
}

/** What a claim begins as, by its id in CSI. */
export function copyOf(id: string): NonNullable<ClaimSettings["dataSource"]> {
  return { kind: id.startsWith("snap-") ? "VolumeSnapshot" : "PersistentVolumeClaim", name: id };
}

/** Returns when it is mounted, with a filesystem that fills its size. */
export async function createCopy(
  stack: Stack,
  name: string,
  settings: { readonly of: string; readonly fsType: FsType; readonly sizeBytes: number },
): Promise<TestVolume> {
  const { of, fsType, sizeBytes } = settings;
  const request = String(sizeBytes);
  const claim = { request, storageClassName: classOf(fsType), dataSource: copyOf(of), limitMs: ARRIVAL_LIMIT_MS };
  const copy = await createVolume(stack, name, claim);
  await waitFor(`${name} to fill its ${sizeBytes} bytes`, () => (fills(copy, sizeBytes) ? true : undefined), {
    limitMs: ARRIVAL_LIMIT_MS,
    otherwise: () => stack.tellLogs(),
  });
  return copy;
}

/** ext4's tables and xfs' log take their part. */
function fills(volume: TestVolume, sizeBytes: number): boolean {
  return deviceBytes(volume) === sizeBytes && capacityBytesOf(volume) > 0.9 * sizeBytes;
}

export function deviceBytes({ memberPath }: TestVolume): number {
  return Number(sh(`blockdev --getsize64 ${memberPath}`));
}

/** As it is on the disk; what is mounted holds the same. */
export function uuidOn({ memberPath }: TestVolume): string {
  return sh(`blkid --probe --match-tag UUID --output value ${memberPath}`).trim();
}

/** Files of these names, with other bytes each time, on the disk and in the manifest when it returns. */
export function writeFiles(directory: string, manifest: string, count: number): void {
  writeFileSync(manifest, "");
  for (let index = 0; index < count; index += 1) {
    const content = randomBytes(MIB);
    const file = openSync(join(directory, `s${index}`), "w");
    writeSync(file, content);
    fsyncSync(file);
    closeSync(file);
    appendFileSync(manifest, `s${index} ${createHash("sha1").update(content).digest("hex")}\n`);
  }
}

/** What is read from now on comes from the disks. */
export function forgetCaches(): void {
  sh("sync; echo 3 > /proc/sys/vm/drop_caches");
}

export function linesOf(manifest: string): string[] {
  return readFileSync(manifest, "utf8").split("\n").filter(Boolean);
}

export function expectFiles({ mountPath }: TestVolume, manifest: string): void {
  expect(verifyFiles(mountPath, manifest)).toEqual({ files: linesOf(manifest).length, corrupt: [] });
}

/** In LVM, in the API, and in the agent's records. */
export async function nothingIsLeft(stack: Stack): Promise<void> {
  let left: string[] = [];
  await waitFor(
    "nothing to be left",
    async () => {
      left = await whatIsLeft(stack);
      return left.length === 0 ? true : undefined;
    },
    { intervalMs: 200, otherwise: () => `left are ${left.join(", ")}\n${stack.tellLogs()}` },
  );
}

async function whatIsLeft({ client, stateDirectory }: Stack): Promise<string[]> {
  const objects = [...(await client.list(LOGICAL_VOLUMES)).items, ...(await client.list(FILESYSTEM_LAYOUTS)).items];
  const volumes = sh(`lvs --noheadings -o lv_name ${GROUP}`).split(/\s+/).filter(Boolean);
  const records = readdirSync(join(stateDirectory, "volumes"));
  return [...volumes.filter((name) => name !== "pool"), ...objects.map(({ metadata }) => metadata.name), ...records];
}
