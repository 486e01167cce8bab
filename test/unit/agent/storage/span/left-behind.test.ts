// What proves that a device which carries a filesystem's superblock is none that the mounted filesystem needs.
import { expect, it } from "@jest/globals";
import {
  type DeviceIdentity,
  hasGoneOnWithout,
  isLeftBehind,
  type MountedDevices,
} from "../../../../../src/agent/storage/span/decide-mount.ts";

const device = (devid: number, deviceUUID: string, fields: Partial<DeviceIdentity> = {}): DeviceIdentity => ({
  ...{ devid, deviceUUID, generation: 20, deviceCount: 2, valid: true },
  ...fields,
});
const found = device(2, "former", { generation: 10 });
const mounted: MountedDevices = {
  generation: 20,
  devids: [1, 2],
  isMissingOne: false,
  identities: [device(1, "first"), device(2, "present")],
};

it.each<[string, DeviceIdentity, MountedDevices]>([
  ["its number is not in use", { ...found, devid: 3 }, { ...mounted, identities: [] }],
  ["its number is another one's, and all of them are here", found, mounted],
])("it is left behind where %s", (_what, one, by) => {
  expect(isLeftBehind(one, by)).toBe(true);
});

const [first, second] = mounted.identities as [DeviceIdentity, DeviceIdentity];

it.each<[string, DeviceIdentity, MountedDevices]>([
  ["it is of the same commit", { ...found, generation: 20 }, mounted],
  ["it is newer", { ...found, generation: 21, devid: 3 }, mounted],
  ["nobody knows the commit", found, { ...mounted, generation: Number.NaN }],
  ["it is a copy of a device that is in use", { ...found, deviceUUID: "present" }, mounted],
  ["a device of another number has its UUID", { ...found, deviceUUID: "first" }, mounted],
  ["a device is missing", found, { ...mounted, isMissingOne: true }],
  ["a device was not read", found, { ...mounted, identities: [first] }],
  ["the device of its number was not read", found, { ...mounted, identities: [first, device(3, "third")] }],
  ["two say that they are the same device", found, { ...mounted, identities: [first, first] }],
  ["a device has no whole superblock", found, { ...mounted, identities: [first, { ...second, valid: false }] }],
  ["the filesystem has more devices", found, { ...mounted, identities: [first, { ...second, deviceCount: 3 }] }],
  ["a device is being replaced", found, { ...mounted, devids: [0, 1, 2] }],
])("that is not proven where %s", (_what, one, by) => {
  expect(isLeftBehind(one, by)).toBe(false);
});

it("the filesystem has gone on without a device that was reported of it where it is whole, and has another of its number", () => {
  expect(hasGoneOnWithout({ deviceUUID: "former" }, mounted)).toBe(true);
});

it.each<[string, string, MountedDevices]>([
  ["it has that very device", "present", mounted],
  ["a device is missing", "former", { ...mounted, isMissingOne: true }],
  ["a device was not read, or is no member's", "former", { ...mounted, identities: [first] }],
  ["a device has no whole superblock", "former", { ...mounted, identities: [first, { ...second, valid: false }] }],
  ["it has more devices", "former", { ...mounted, identities: [first, { ...second, deviceCount: 3 }] }],
  ["a device is being replaced", "former", { ...mounted, devids: [0, 1, 2] }],
  ["the kernel shows none", "former", { ...mounted, devids: [], identities: [] }],
])("that it has gone on without it is not proven where %s", (_what, deviceUUID, by) => {
  expect(hasGoneOnWithout({ deviceUUID }, by)).toBe(false);
});
