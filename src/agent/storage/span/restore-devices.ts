// What an interrupted removal may have left is undone: a device that the filesystem uses less of than before the removal began (R1).
// No device is used beyond that: growing is an extend's. A removal that has ended with its member inside is forgotten then: what becomes
// of that device later is no end of it.
import type { MountedSpan } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import { type DeviceUsage, readDeviceUsage } from "./device-usage.ts";
import { membersInside } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { readSpanRecord, removalOf, spanRecordPath, spanRecordText, withoutRemoval } from "./span-record.ts";

export async function restoreDevices(host: SpanHost, volume: MountedSpan): Promise<void> {
  let record = readSpanRecord(host, volume);
  const begun = membersInside(host, volume).filter(({ member }) => removalOf(record, member.name) !== undefined);
  if (begun.length === 0) return;
  const usage = new Map((await readDeviceUsage(host.tools, volume)).map((each) => [each.deviceName, each]));
  for (const { member, device } of begun) {
    const removal = removalOf(record, member.name);
    const used = usage.get(device.name);
    if (record === undefined || removal === undefined || used === undefined || used.devid !== removal.devid) continue;
    if (used.sizeBytes < removal.sizeBytes) await resizeDevice(host, volume, used, removal.sizeBytes);
    const text = spanRecordText(withoutRemoval(record, removal));
    await host.files.writeWhole("span/record-staying", spanRecordPath(host, volume), text);
    record = readSpanRecord(host, volume);
  }
}

export async function resizeDevice(
  { tools }: SpanHost,
  { handle, mountPath }: MountedSpan,
  { devid, deviceName }: DeviceUsage,
  sizeBytes: number,
): Promise<void> {
  const args = ["filesystem", "resize", `${devid}:${sizeBytes}`, mountPath];
  const resized = await tools.run("span/resize-device", "btrfs", args);
  expectSuccess(resized, `using ${sizeBytes} bytes of ${deviceName} for ${handle}`);
}
