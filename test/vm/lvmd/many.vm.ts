// A thousand volumes, changes that others make, and an idle lvmd that leaves LVM alone. Runs inside the virtual machine that
// its test in test/real starts.
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { eventually, waitFor } from "../../harness/wait-for.ts";
import { callsOf, type LvmdUnderTest, MIB, sh, startLvmdUnderTest } from "./lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: a, default: true, spare-gb: 0 }
- { name: thin, volume-group: b, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 4 } }
`;
const COUNT = 1000;
const IDLE_MS = 70_000;
/** Longer than lvmd waits between two looks at what others changed. */
const QUIET_MS = 6000;

describe("a group of a thousand volumes", () => {
  let lvmd: LvmdUnderTest;
  let calls: ReturnType<typeof callsOf>;

  beforeAll(async () => {
    sh(
      "pvcreate -qq --metadatasize 8m /dev/ubda; vgcreate -qq -s 1m a /dev/ubda; lvcreate -qq -y -an -Zn -Wn -l 1 -n seed a",
    );
    sh("vgcreate -qq b /dev/ubdb; lvcreate -qq -y -T b/pool -L 400m; lvcreate -qq -y -V 100m -T b/pool -n t");
    multiplySeed();
    lvmd = await startLvmdUnderTest(CLASSES);
    calls = callsOf(lvmd);
  }, 120_000);

  afterAll(() => lvmd.stop());

  /** LVM would take minutes to make them one by one. */
  function multiplySeed(): void {
    sh("vgcfgbackup -qq -f /tmp/seed a");
    const text = readFileSync("/tmp/seed", "utf8");
    const block = /\n\t\tseed \{[\s\S]*?\n\t\t\}\n/.exec(text)?.[0];
    if (block === undefined) throw new Error(`no volume in ${text}`);
    const blocks = Array.from({ length: COUNT }, (_, index) =>
      block
        .replace("seed {", `v${index} {`)
        .replace(/id = "[^"]{6}/, `id = "${String(index).padStart(6, "A")}`)
        .replace(/"pv0", \d+/, `"pv0", ${index}`),
    );
    writeFileSync("/tmp/many", text.replace(block, blocks.join("")));
    sh("vgcfgrestore -qq -f /tmp/many a");
  }

  it("is listed whole, and from what is known already", async () => {
    const volumes = await calls.list();
    expect(volumes).toHaveLength(COUNT);
    expect(new Set(volumes.map(({ name }) => name)).size).toBe(COUNT);
    // The first report writes a backup of what was restored, which is a change to look at.
    const startsNothing = async (): Promise<boolean> => {
      await calls.list();
      return lvmd.recorder.begun() === 0;
    };
    await eventually("lvmd to have seen that backup", startsNothing, { intervalMs: QUIET_MS });
    await Promise.all(Array.from({ length: 50 }, async () => calls.list()));
    expect(lvmd.recorder.begun()).toBe(0);
  });

  it("takes one more", async () => {
    const { volume } = await calls.create("more", MIB);
    expect(volume?.name).toBe("more");
    expect(await calls.list()).toHaveLength(COUNT + 1);
    expect(await calls.get("v999")).toMatchObject({ name: "v999", deviceClass: "thick" });
  });

  it("is seen to change at once when somebody else changes it", async () => {
    sh("lvremove -qq -f a/v0");
    await waitFor("the volume to be gone", async () => ((await calls.list()).length === COUNT ? true : undefined), {
      limitMs: 20_000,
    });
  });

  it("costs no command while nothing happens, and a change that LVM keeps to itself is seen within a minute or so", async () => {
    await pause(5000);
    lvmd.recorder.begun();
    await pause(IDLE_MS);
    expect(lvmd.recorder.begun()).toBe(0);
    sh("lvremove -qq -f --config 'backup { backup=0 }' a/v1");
    await waitFor("the volume to be gone", async () => ((await calls.list()).length === COUNT - 1 ? true : undefined), {
      limitMs: 90_000,
      intervalMs: 1000,
    });
    // Where a report finds a backup that is old it writes a new one, which is a change to look at.
    expect(lvmd.recorder.begun()).toBeLessThanOrEqual(2);
  }, 240_000);

  it("hears of a thin pool that fills, by what its volumes write", async () => {
    sh("dd if=/dev/urandom of=/dev/b/t bs=1M count=40 oflag=direct status=none");
    await waitFor(
      "the pool to be fuller",
      async () => ((await calls.get("t", "thin")).dataPercent >= 39 ? true : undefined),
      {
        limitMs: 30_000,
        intervalMs: 500,
      },
    );
  });
});
