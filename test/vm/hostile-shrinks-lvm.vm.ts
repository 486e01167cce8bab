// Hostile shrinks of logical volumes, thick and thin, by the real lvmd and real LVM. Runs inside the virtual machine that
// test/soak/hostile-lvm-*.test.ts starts.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe } from "@jest/globals";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { makeLvmVolume, openLvmStorage } from "../integration/storage/lvm-fixture.ts";
import { takeDown } from "../integration/storage/storage-fixture.ts";
import { itSurvivesHostileShrinks } from "./hostile/describe-hostile-shrinks.ts";
import { type HostileGround, INITIAL_BYTES, wholeGround } from "./hostile/hostile-ground.ts";
import { callsOf, type LvmdUnderTest, sh, startLvmdUnderTest } from "./lvmd/lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: a, default: true, spare-gb: 0 }
- { name: thin, volume-group: b, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 2 } }
`;

describe("on LVM", () => {
  let lvmd: LvmdUnderTest;

  beforeAll(async () => {
    sh("vgcreate -qq a /dev/ubda; vgcreate -qq b /dev/ubdb; lvcreate -qq -y -T b/pool -L 3g");
    lvmd = await startLvmdUnderTest(CLASSES);
  });
  afterAll(() => lvmd.stop());

  async function lvmGround(deviceClass: string, volumeGroup: string): Promise<HostileGround> {
    const calls = callsOf(lvmd);
    const directory = mkdtempSync(join(tmpdir(), "hostile-"));
    const opened = await openLvmStorage(directory, join(lvmd.directory, "s/lvmd.sock"), directEffects);
    const volume = makeLvmVolume("btrfs", deviceClass);
    const { volumeID, volumeUID } = volume;
    await calls.create(volumeID, INITIAL_BYTES, deviceClass, { tags: [`tidemark.dev/volume-uid=${volumeUID}`] });
    return wholeGround(volume, {
      ...opened,
      directory,
      deviceOf: () => `/dev/${volumeGroup}/${volumeID}`,
      cleanUp: async () => {
        opened.lvm.stop();
        takeDown(directory, join(directory, "none"));
        await calls.remove(volumeID, deviceClass);
      },
    });
  }

  for (const [deviceClass, volumeGroup] of [
    ["thick", "a"],
    ["thin", "b"],
  ] as const)
    itSurvivesHostileShrinks({
      on: `a ${deviceClass} logical volume`,
      makeGround: () => lvmGround(deviceClass, volumeGroup),
      countOfCommit: 3,
      countOfLongRun: 30,
    });
});
