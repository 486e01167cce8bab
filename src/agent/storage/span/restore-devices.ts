// What an interrupted removal may have left is undone: a device that the filesystem uses less of than before the removal began (R1).
// No device is used beyond that: growing is an extend's. A removal that has ended with its member inside is forgotten then: what becomes
// of that device later is no end of it.
import { runMakingWay } from "../btrfs/make-way.ts";
import { metExclusive } from "../btrfs/others-at-work.ts";
import { type MountedSpan, StorageError, type Tell } from "../storage.ts";
import { expectSuccess, type Finished } from "../tools.ts";
import { type DeviceUsage, readDeviceUsage } from "./device-usage.ts";
import { membersInside } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { readSpanRecord, removalOf, spanRecordPath, spanRecordText, withoutRemoval } from "./span-record.ts";

/** As resizeDevice with `tell`. */
export async function restoreDevices(host: SpanHost, volume: MountedSpan, tell: Tell | undefined): Promise<void> {
  let record = readSpanRecord(host, volume);
  const begun = membersInside(host, volume).filter(({ member }) => removalOf(record, member) !== undefined);
  if (begun.length === 0) return;
  const usage = new Map((await readDeviceUsage(host.tools, volume)).map((each) => [each.deviceName, each]));
  for (const { member, device } of begun) {
    const removal = removalOf(record, member);
    const used = usage.get(device.name);
    if (record === undefined || removal === undefined || used === undefined) continue;
    // Given back once, and added again: of that removal nothing is left to undo.
    const isFormer = removal.state === "released";
    if (!isFormer && used.devid !== removal.devid) continue;
    if (!isFormer && used.sizeBytes < removal.sizeBytes)
      await resizeDevice(host, volume, used, removal.sizeBytes, tell);
    const text = spanRecordText(withoutRemoval(record, removal));
    await host.files.writeWhole("span/record-staying", spanRecordPath(host, volume), text);
    record = readSpanRecord(host, volume);
  }
}

/** With `tell`, another exclusive operation is cancelled, and named there; without, it is left alone: DeviceBusy. */
export async function resizeDevice(
  { tools }: SpanHost,
  volume: MountedSpan,
  { devid, deviceName }: DeviceUsage,
  sizeBytes: number,
  tell: Tell | undefined,
): Promise<void> {
  const args = ["filesystem", "resize", `${devid}:${sizeBytes}`, volume.mountPath];
  const task = `using ${sizeBytes} bytes of ${deviceName} for ${volume.handle}`;
  const resize = (): Promise<Finished> => tools.run("span/resize-device", "btrfs", args);
  const resized = tell === undefined ? await resize() : await runMakingWay(tools, volume, tell, task, resize);
  if (metExclusive(resized.stderr))
    throw new StorageError("DeviceBusy", `${task}: ${resized.stderr.trim()}; it is tried again`);
  expectSuccess(resized, task);
}
