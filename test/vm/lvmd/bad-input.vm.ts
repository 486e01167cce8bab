// What lvmd refuses, with which code and word, and that LVM never hears of it. Runs inside the virtual machine that
// its test in test/real starts.
import { writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import {
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../../src/contracts/gen/grpc/health/v1/health.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  callsOf,
  GIB,
  type LvmdUnderTest,
  MIB,
  refusalOf,
  refusalsOf,
  sh,
  startLvmdUnderTest,
} from "./lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: a, default: true, spare-gb: 0 }
`;

describe("a bad request", () => {
  let lvmd: LvmdUnderTest;
  let calls: ReturnType<typeof callsOf>;

  beforeAll(async () => {
    sh("vgcreate -qq a /dev/ubda");
    lvmd = await startLvmdUnderTest(CLASSES);
    calls = callsOf(lvmd);
    await calls.create("there", 8 * MIB);
    lvmd.recorder.taken();
  });

  afterAll(() => lvmd.stop());

  const healthy = (): Promise<HealthCheckResponse> =>
    new Promise((resolve, reject) => {
      lvmd.health.check({ service: "" }, (error, answer) => (error === null ? resolve(answer) : reject(error)));
    });

  it.each([
    ["-y", "INVALID_ARGUMENT"],
    ["--config=devices{}", "INVALID_ARGUMENT"],
    ["a/b", "INVALID_ARGUMENT"],
    ["a b", "INVALID_ARGUMENT"],
    ["..", "INVALID_ARGUMENT"],
    ["", "INVALID_ARGUMENT"],
    ["$(reboot)", "INVALID_ARGUMENT"],
    ["x\n--yes", "INVALID_ARGUMENT"],
    ["pvmove0", "INVALID_ARGUMENT"],
    ["x_tdata", "INVALID_ARGUMENT"],
    ["ä", "INVALID_ARGUMENT"],
    ["x".repeat(128), "INVALID_ARGUMENT"],
  ])("with the name %j is refused by every call that takes one", async (name, code) => {
    for (const refusal of await refusalsOf([
      calls.create(name, 4 * MIB),
      calls.remove(name),
      calls.resize(name, 4 * MIB),
      calls.wipe(name),
      calls.activate(name),
      calls.rename(name, "other"),
      calls.rename("there", name),
      calls.tag(name, ["x"], []),
    ]))
      expect(refusal).toMatchObject({ code });
    expect(lvmd.recorder.taken()).toEqual([]);
  });

  it.each(["--yes", "a b", "", "a,b", "a\nb", "x".repeat(1025), "ä"])("with the tag %j is refused", async (tag) => {
    expect(await refusalOf(calls.create("new", 4 * MIB, "", { tags: [tag] }))).toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    expect(await refusalOf(calls.tag("there", [tag], []))).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(lvmd.recorder.taken()).toEqual([]);
  });

  it.each([
    [0, "INVALID_ARGUMENT"],
    [-4096, "INVALID_ARGUMENT"],
    [Number.MIN_SAFE_INTEGER, "INVALID_ARGUMENT"],
    [Number.MAX_SAFE_INTEGER, "RESOURCE_EXHAUSTED"],
    [2 ** 62, "INVALID_ARGUMENT"],
    [2 * GIB, "RESOURCE_EXHAUSTED"],
  ])("for %d bytes is refused", async (sizeBytes, code) => {
    expect(await refusalOf(calls.create("new", sizeBytes))).toMatchObject({ code });
    if (sizeBytes !== 0) expect(await refusalOf(calls.resize("there", sizeBytes))).toMatchObject({ code });
    expect(lvmd.recorder.taken()).toEqual([]);
  });

  it("is told what there is no such thing of", async () => {
    expect(await refusalOf(calls.create("new", 4 * MIB, "none"))).toEqual({
      code: "NOT_FOUND",
      message: "device-class not found: none",
    });
    expect(await refusalOf(calls.create("new", 4 * MIB, "", { optionClass: "none" }))).toEqual({
      code: "INTERNAL",
      message: "unsupported lvcreate-option-class target: none",
    });
    for (const refusal of await refusalsOf([
      calls.remove("none"),
      calls.resize("none", 4 * MIB),
      calls.get("none"),
      calls.tag("none", ["x"], []),
    ]))
      expect(refusal).toMatchObject({ code: "NOT_FOUND" });
    expect(await refusalOf(calls.reduce("no-uuid", 8 * MIB, 4 * MIB, "t"))).toMatchObject({ code: "NOT_FOUND" });
  });

  it("for a size that is no multiple of anything gets whole extents, never less", async () => {
    expect((await calls.create("odd", 4 * MIB + 1)).volume?.sizeBytes).toBe(8 * MIB);
    expect(lvmd.recorder.taken()).toEqual([
      ["lvcreate", "-n", "odd", "-L", `${4 * MIB + 4096}b`, "-W", "y", "-y", "a"],
    ]);
  });

  it("does not see a volume that somebody else has made since, and is told of it all the same", async () => {
    sh("lvcreate -qq -y --config 'backup{backup=0}' -n strange -L 4m a");
    expect(await refusalOf(calls.create("strange", 40 * MIB))).toMatchObject({ code: "ALREADY_EXISTS" });
    expect((await calls.create("strange", 4 * MIB)).volume).toMatchObject({ sizeBytes: 4 * MIB });
  });

  it("to a configuration that has become unusable is answered by the one before, and health says so", async () => {
    const good = `${"" /* written as a whole, as kubelet does */}socket-name: /elsewhere\nlvm-command-prefix: [${lvmd.recorder.program}]\n`;
    writeFileSync(lvmd.settingsFile, `${good}${CLASSES}- { name: second, volume-group: b, default: true }\n`);
    await waitFor("health to tell", async () => ((await healthy()).status === Serving.NOT_SERVING ? true : undefined), {
      limitMs: 20_000,
    });
    expect((await calls.create("meanwhile", 4 * MIB)).volume?.name).toBe("meanwhile");
    writeFileSync(lvmd.settingsFile, `${good}${CLASSES}- { name: gone, volume-group: nowhere }\n`);
    await waitFor(
      "the new class",
      async () => {
        const { code } = await refusalOf(calls.create("x", 4 * MIB, "gone"));
        return code === "FAILED_PRECONDITION" ? true : undefined;
      },
      { limitMs: 20_000 },
    );
    expect((await healthy()).status).toBe(Serving.NOT_SERVING);
    for (const refusal of await refusalsOf([
      calls.remove("x", "gone"),
      calls.wipe("x", "gone"),
      calls.list("gone"),
      calls.free("gone"),
    ]))
      expect(refusal).toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringContaining("nowhere"),
      });
    writeFileSync(lvmd.settingsFile, `${good}${CLASSES}`);
    await waitFor("health to be good", async () => ((await healthy()).status === Serving.SERVING ? true : undefined), {
      limitMs: 20_000,
    });
  });
});
