// LVM in trouble: full, without a device, read-only, locked, hanging. Every call gets an answer in time, with LVM's own words, and
// nothing piles up. Runs inside the virtual machine that its test in test/real starts.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { HealthCheckResponse } from "../../../src/contracts/gen/grpc/health/v1/health.ts";
import { waitFor } from "../../harness/wait-for.ts";
import { callsOf, type LvmdUnderTest, MIB, refusalOf, refusalsOf, sh, startLvmdUnderTest } from "./lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: a, default: true, spare-gb: 0 }
- { name: two, volume-group: b, spare-gb: 0 }
`;
const LIMIT_MS = 5000;
/** For as long as the test wants, however slow the machine is. */
const HELD = "while [ -e /tmp/hold ]; do sleep 0.1; done";

describe("LVM in trouble", () => {
  let lvmd: LvmdUnderTest;
  let calls: ReturnType<typeof callsOf>;

  beforeAll(async () => {
    sh(
      "modprobe loop 2>/dev/null || true; truncate -s 512M /tmp/pv1 /tmp/pv2; losetup /dev/loop0 /tmp/pv1; losetup /dev/loop1 /tmp/pv2",
    );
    sh("vgcreate -qq a /dev/ubda; vgcreate -qq b /dev/loop0 /dev/loop1");
    lvmd = await startLvmdUnderTest(CLASSES, ["--command-time-limit", `${LIMIT_MS}ms`]);
    calls = callsOf(lvmd);
    await calls.create("there", 40 * MIB);
  });

  afterAll(() => lvmd.stop());

  const status = async (): Promise<number> =>
    (
      await new Promise<HealthCheckResponse>((resolve, reject) => {
        lvmd.health.check({ service: "" }, (error, answer) => (error === null ? resolve(answer) : reject(error)));
      })
    ).status;
  const healthy = (wanted: number): Promise<true> =>
    waitFor(`health ${wanted}`, async () => ((await status()) === wanted ? true : undefined), { limitMs: 30_000 });

  it("says RESOURCE_EXHAUSTED where LVM itself finds no room", async () => {
    // Room that is not side by side: lvmd's figures allow what this option forbids.
    lvmd.recorder.before(
      "lvcreate",
      'echo "  Volume group \\"a\\" has insufficient free space (1 extents): 2 required." >&2; exit 5',
    );
    const refusal = await refusalOf(calls.create("full", 8 * MIB));
    expect(refusal).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("insufficient free space (1 extents)"),
    });
    lvmd.recorder.before("lvcreate", "");
    const free = await calls.free();
    await calls.create("most", free);
    expect(await refusalOf(calls.create("more", 4 * MIB))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(await refusalOf(calls.resize("there", 44 * MIB))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await calls.remove("most");
  });

  it("says FAILED_PRECONDITION, in LVM's words, where the metadata are read-only", async () => {
    sh(
      'vgcfgbackup -qq -f /tmp/metadata b; sed -i \'0,/"READ", "WRITE"/s//"READ"/\' /tmp/metadata; vgcfgrestore -qq -f /tmp/metadata b',
    );
    const refusals = await refusalsOf([calls.create("ro", 4 * MIB, "two"), calls.create("ro", 4 * MIB, "two")]);
    for (const refusal of refusals)
      expect(refusal).toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringMatching(/group b is read-only/),
      });
    await healthy(2);
    sh('sed -i \'0,/"READ"/s//"READ", "WRITE"/\' /tmp/metadata; vgcfgrestore -qq -f /tmp/metadata b');
    sh("vgchange -qq --addtag touched b"); // a restore makes no backup
    await healthy(1);
  });

  it("says FAILED_PRECONDITION where a device takes no writes", async () => {
    sh("blockdev --setro /dev/loop0 /dev/loop1");
    expect(await refusalOf(calls.create("ro", 4 * MIB, "two"))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("Failed to write metadata"),
    });
    sh("blockdev --setrw /dev/loop0 /dev/loop1");
    expect((await calls.create("rw", 4 * MIB, "two")).volume?.name).toBe("rw");
  });

  it("says DEADLINE_EXCEEDED behind a lock that nobody releases, and works on once it is gone", async () => {
    // LVM removes the file when it lets go of it: held is held only where it is still the one of that name.
    sh(`
      touch /tmp/hold
      file=/run/lock/lvm/V_a
      until exec 9>$file; flock 9; [ "$(stat -Lc %i /proc/$$/fd/9)" = "$(stat -c %i $file)" ]; do :; done
      ( ${HELD} ) </dev/null >/dev/null 2>&1 &
    `);
    const answers = await Promise.all(["l1", "l2"].map((name) => refusalOf(calls.create(name, 4 * MIB))));
    expect(answers[0]).toMatchObject({ code: "DEADLINE_EXCEEDED", message: expect.stringContaining("lvcreate") });
    // What is known is told meanwhile.
    expect((await calls.list()).map(({ name }) => name)).toContain("there");
    sh("rm /tmp/hold");
    await waitFor(
      "the lock to be free",
      async () => {
        const { code } = await refusalOf(calls.create("after", 4 * MIB));
        return code === "OK" ? true : undefined;
      },
      { limitMs: 40_000 },
    );
    await healthy(1);
  }, 90_000);

  it("begins nothing behind a command that hangs and cannot be killed, and health says so", async () => {
    // Its descendant leaves the group that is killed, as one in uninterruptible sleep outlives every signal.
    sh("touch /tmp/hold");
    lvmd.recorder.before("lvresize", `setsid sh -c '${HELD}'; exit 1`);
    expect(await refusalOf(calls.resize("there", 120 * MIB))).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    lvmd.recorder.taken();
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) => refusalOf(calls.create(`h${index}`, 4 * MIB))),
    );
    expect(new Set(answers.map(({ code }) => code))).toEqual(new Set(["UNAVAILABLE"]));
    expect(answers[0]?.message).toContain("lvresize");
    expect(lvmd.recorder.taken()).toEqual([]);
    expect((await calls.create("elsewhere", 4 * MIB, "two")).volume?.name).toBe("elsewhere");
    lvmd.recorder.before("lvresize", "");
    sh("rm /tmp/hold");
    await waitFor(
      "the group to be free again",
      async () => {
        const { code } = await refusalOf(calls.resize("there", 120 * MIB));
        return code === "OK" ? true : undefined;
      },
      { limitMs: 40_000 },
    );
  }, 90_000);

  it("says that it does not know where reports hang, and never has two of them", async () => {
    lvmd.recorder.before("fullreport", "echo x >>/tmp/reports; sleep 30");
    sh("vgchange -qq --addtag touched a");
    await healthy(2);
    await Promise.all(Array.from({ length: 20 }, () => refusalOf(calls.get("none"))));
    expect(Number(sh("pgrep -fc '[l]vm fullreport' || true"))).toBeLessThanOrEqual(1);
    lvmd.recorder.before("fullreport", "");
    await healthy(1);
  }, 90_000);

  it("says FAILED_PRECONDITION where a device is missing, NOT_SERVING, and loses no volume over it", async () => {
    sh("losetup -d /dev/loop1; vgs b || true; vgchange -qq --addtag touched a");
    await healthy(2);
    for (const refusal of await refusalsOf([
      calls.create("m", 4 * MIB, "two"),
      calls.wipe("elsewhere", "two"),
      calls.resize("elsewhere", 40 * MIB, "two"),
    ]))
      expect(refusal).toMatchObject({ code: "FAILED_PRECONDITION" });
    expect((await calls.create("fine", 4 * MIB)).volume?.name).toBe("fine");
    sh("losetup /dev/loop1 /tmp/pv2; vgchange -qq --addtag back a");
    await healthy(1);
    expect(await calls.resize("elsewhere", 40 * MIB, "two")).toEqual({ sizeBytes: 40 * MIB });
  }, 90_000);

  it("says FAILED_PRECONDITION where the whole group is gone, also to whoever removes", async () => {
    sh(
      "losetup -d /dev/loop0 /dev/loop1; dmsetup remove_all --force >/dev/null 2>&1 || true; vgchange -qq --addtag again a",
    );
    await healthy(2);
    for (const refusal of await refusalsOf([
      calls.remove("elsewhere", "two"),
      calls.wipe("elsewhere", "two"),
      calls.list("two"),
    ]))
      expect(refusal).toMatchObject({ code: "FAILED_PRECONDITION" });
  });
});
