import { beforeEach, describe, expect, it } from "@jest/globals";
import { WAITING_LIMIT } from "../../../../src/lvmd/lvm/lvm.ts";
import { LvmError } from "../../../../src/lvmd/lvm/lvm-error.ts";
import { type Report, withOwnChange } from "../../../../src/lvmd/lvm/report.ts";
import { changeTags } from "../../../../src/lvmd/volumes/change-attributes.ts";
import type { TagChange, VolumeHost } from "../../../../src/lvmd/volumes/volume-host.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, volume } from "../lvm-facts.ts";

const ADD: TagChange = { add: ["x"], remove: [] };
const volumes = ["a", "b", "c"].map((name) => volume({ name, tags: ["old"] }));

let commands: string[];
let reports: number;
let host: VolumeHost;
/** What LVM has, and what lvmd knows of it. */
let there: Report;
let known: Report;
/** Of LVM, which refuses whatever names this volume. */
let broken: string | undefined;
/** Comes while a command of LVM runs. */
let meanwhile: () => void;
/** Comes while a report is made, which shows what was there at its beginning. */
let whileReported: () => void;

beforeEach(() => {
  [commands, reports, broken, meanwhile, whileReported] = [[], 0, undefined, () => undefined, () => undefined];
  const bare = hostWithReport(deviceClass({ name: "class" }), [groupOf([GIB], volumes)]);
  there = known = new Map([["g", groupOf([GIB], volumes)]]);
  host = {
    ...bare,
    reports: {
      ...bare.reports,
      latest: () => known,
      note: (change) => {
        [there, known] = [withOwnChange(there, change), withOwnChange(known, change)];
      },
      fresh: async () => {
        reports += 1;
        const seen = there;
        whileReported();
        known = seen;
        return seen;
      },
    },
    lvm: {
      ...bare.lvm,
      run: async (_point, command, words) => {
        commands.push([command, ...words].join(" "));
        meanwhile();
        if (broken !== undefined && words.includes(`g/${broken}`))
          throw new LvmError("Failed", `${broken} is not as it should be`);
        return "";
      },
    },
  };
});

const tag = (name: string, change = ADD): ReturnType<typeof changeTags> => changeTags(host, "class", name, change);

describe("tags that are asked for at the same time", () => {
  it("are written by one command of LVM, which nobody has to ask before or after", async () => {
    const [one, other] = await Promise.all([tag("a"), tag("b")]);
    expect(commands).toEqual(["lvchange --addtag x g/a g/b"]);
    expect(reports).toBe(0);
    for (const found of [one, other]) expect(found).toMatchObject({ volume: { tags: ["old", "x"] } });
  });

  it("are written one after the other where they differ", async () => {
    await Promise.all([tag("a"), tag("b", { add: [], remove: ["old"] })]);
    expect(commands).toEqual(["lvchange --addtag x g/a", "lvchange --deltag old g/b"]);
  });

  it("are written one by one where LVM refuses them together, and only the volume at fault goes without", async () => {
    broken = "b";
    const [first, second, third] = await Promise.allSettled([tag("a"), tag("b"), tag("c")]);
    expect(second).toMatchObject({ status: "rejected", reason: { message: "b is not as it should be" } });
    for (const settled of [first, third]) expect(settled).toMatchObject({ value: { volume: { tags: ["old", "x"] } } });
    expect(commands.slice(1)).toEqual([
      "lvchange --addtag x g/a",
      "lvchange --addtag x g/b",
      "lvchange --addtag x g/c",
    ]);
  });

  it("are not tried one by one where the command for all of them hangs", async () => {
    meanwhile = () => {
      throw new LvmError("TimedOut", "lvchange has not ended");
    };
    const settled = await Promise.allSettled([tag("a"), tag("b")]);
    expect(settled.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(commands).toEqual(["lvchange --addtag x g/a g/b"]);
  });

  it("are all in the answer of each who asked for some of the same volume, and none that another one took off", async () => {
    const answers = await Promise.all([
      tag("a", { add: ["x"], remove: [] }),
      tag("a", { add: ["y"], remove: [] }),
      tag("a", { add: [], remove: ["old"] }),
      tag("b", { add: ["old"], remove: [] }),
    ]);
    expect(commands).toEqual(["lvchange --addtag x g/a", "lvchange --addtag y g/a", "lvchange --deltag old g/a"]);
    const tags = answers.map(({ volume: { tags: own } }) => own);
    expect(tags).toEqual([["x", "y"], ["x", "y"], ["x", "y"], ["old"]]);
  });

  it("are in the answer of a volume that a report lacks meanwhile", async () => {
    meanwhile = () => {
      there = known = new Map();
    };
    expect(await tag("a")).toMatchObject({ volume: { name: "a", tags: ["old", "x"] } });
  });

  it("wait for the next turn where the first has begun", async () => {
    let late: ReturnType<typeof changeTags> | undefined;
    meanwhile = () => {
      late ??= tag("b");
    };
    await tag("a");
    expect(await late).toMatchObject({ volume: { tags: ["old", "x"] } });
    expect(commands).toEqual(["lvchange --addtag x g/a", "lvchange --addtag x g/b"]);
  });

  it("are asked of LVM before anybody is told that they are there already", async () => {
    expect(await tag("a", { add: ["old"], remove: ["none"] })).toMatchObject({ volume: { tags: ["old"] } });
    expect([commands, reports]).toEqual([[], 1]);
  });

  it("are asked of LVM once for all for whom nothing is to be done, who are told of another's change as well", async () => {
    const many = Array.from({ length: 20 }, (_, index) => volume({ name: `v${index}`, tags: ["old"] }));
    known = new Map([["g", groupOf([GIB], many)]]);
    there = new Map([["g", groupOf([GIB], [...many.slice(1), volume({ name: "v0", tags: ["old", "other's"] })])]]);
    const answers = await Promise.all(many.map(({ name }) => tag(name, { add: ["old"], remove: ["none"] })));
    expect([commands, reports]).toEqual([[], 1]);
    const tags = answers.map(({ volume: { tags: own } }) => own);
    expect(tags).toEqual([["old", "other's"], ...many.slice(1).map(() => ["old"])]);
  });

  it("are asked of LVM once more for who comes while it is asked: what went meanwhile is written again", async () => {
    let late: ReturnType<typeof changeTags> | undefined;
    whileReported = () => {
      late ??= tag("b", { add: ["old"], remove: [] });
      there = withOwnChange(there, { kind: "Tagged", group: "g", name: "b", add: [], remove: ["old"] });
    };
    await Promise.all([tag("a", { add: ["old"], remove: [] }), tag("c", { add: ["old"], remove: [] })]);
    expect(await late).toMatchObject({ volume: { name: "b", tags: ["old"] } });
    expect([commands, reports]).toEqual([["lvchange --addtag old g/b"], 2]);
  });

  it("are refused for a volume that is not there, and written for the others", async () => {
    const [absent, present] = await Promise.allSettled([tag("none"), tag("a")]);
    expect(absent).toMatchObject({ status: "rejected", reason: { code: "NOT_FOUND" } });
    expect(present).toMatchObject({ value: { volume: { tags: ["old", "x"] } } });
  });

  it("wait in a line that is not endless", async () => {
    const many = Array.from({ length: WAITING_LIMIT + 1 }, () => tag("a"));
    const last = await Promise.allSettled(many).then((all) => all.at(-1));
    expect(last).toMatchObject({ status: "rejected", reason: { code: "Busy" } });
  });

  it("leave nothing waiting behind where the group takes no more calls", async () => {
    host = { ...host, queues: { ...host.queues, run: async () => Promise.reject(new LvmError("Busy", "too many")) } };
    await expect(tag("a")).rejects.toThrow("too many");
    expect(host.waitingTags.size).toBe(0);
  });
});
