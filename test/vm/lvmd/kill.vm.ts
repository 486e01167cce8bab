// lvmd dies by SIGKILL right before and right after each of its side effects, is started again, and gets the same call again: the work is
// finished, once. Runs inside the virtual machine that its test in test/real starts.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { CancelReduceResponse_Outcome as Outcome } from "../../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { type BundleProcess, createBundleProcess } from "../../harness/bundle-process.ts";
import { noteDeaths } from "../../harness/death-notes.ts";
import { isSampled } from "../../harness/sample.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  callsOf,
  connect,
  createRecorder,
  createZeroingGate,
  type LvmdClients,
  type LvmRecorder,
  MIB,
  refusalOf,
  refusalsOf,
  sh,
  writeSettings,
  type ZeroingGate,
} from "./lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: a, default: true, spare-gb: 0 }
- { name: thin, volume-group: b, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 4 } }
- { name: raw, volume-group: b, spare-gb: 0, type: thin, thin-pool: { name: raw, overprovision-ratio: 4 } }
`;
const LARGE = 300 * MIB;
const SMALL = 200 * MIB;
const KILL_LIMIT_MS = 600_000;
const listed = (JSON.parse(readFileSync("test/effect-points.json", "utf8")) as string[]).filter((point) =>
  point.startsWith("lvmd-"),
);

/** After one of these a wiped volume is not whole any more. */
const MARKED = /^lvmd-wipe\/(mark\/after|zero\/.*)$|^lvmd-remove\/lvremove\/before$/;

/** What writes over data is died at by every commit; so many commits in a row die at the rest. */
const ALWAYS = /^lvmd-(reduce|wipe)\//;
const COMMITS = 3;
const isTaken = (passage: string): boolean => ALWAYS.test(passage) || isSampled(passage, COMMITS);

type Calls = ReturnType<typeof callsOf>;

interface Operation {
  readonly name: string;
  /** Made with LVM itself, so that only the operation passes lvmd's effects. */
  readonly prepare: (volume: string) => void;
  /** The call that is repeated; `uuid` is LVM's of the prepared volume. */
  readonly call: (calls: Calls, volume: string, uuid: string) => Promise<unknown>;
  /** A repeated call may be answered with this, too. */
  readonly orElse?: string;
  /** Before it is repeated: what else is asked of what the crash has left. */
  readonly meanwhile?: (calls: Calls, volume: string, passage: string) => Promise<void>;
  /** What must be there afterwards, as lvs tells it. */
  readonly ends: (volume: string) => void;
}

const lvs = (target: string, field: string): string =>
  sh(`lvs --noheadings --units m --nosuffix -o ${field} ${target} 2>/dev/null || echo none`).trim();
const make = (volume: string): void => void sh(`lvcreate -qq -y -L 300m -n ${volume} a`);
const formatted = (volume: string): void => {
  make(volume);
  sh(`mkfs.btrfs -q -f -b 200M /dev/a/${volume}`);
};
const guarded = (volume: string): void =>
  void sh(`lvcreate -qq -y -V 40m -T b/pool -n ${volume}
    echo before | dd of=/dev/b/${volume} conv=fsync status=none
    lvcreate -qq -s -k n -n guard-${volume} b/${volume}
    echo after | dd of=/dev/b/${volume} conv=fsync status=none`);
const expectMerged = (volume: string): void => {
  expect(sh(`head -n 1 /dev/b/${volume}`)).toBe("before\n");
  expect(lvs(`b/${volume}`, "lv_attr")).toBe("Vwi-a-tz--");
  expect(lvs(`b/guard-${volume}`, "lv_name")).toBe("none");
};

const OPERATIONS: readonly Operation[] = [
  {
    name: "create",
    prepare: () => undefined,
    call: (calls, volume) => calls.create(volume, LARGE, "", { tags: ["x"] }),
    ends: (volume) => expect(lvs(`a/${volume}`, "lv_size,lv_tags")).toMatch(/^300\.00 +x$/),
  },
  {
    name: "resize",
    prepare: make,
    call: (calls, volume) => calls.resize(volume, LARGE + 40 * MIB),
    ends: (volume) => expect(lvs(`a/${volume}`, "lv_size")).toBe("340.00"),
  },
  {
    name: "snapshot",
    prepare: (volume) => void sh(`lvcreate -qq -y -V 100m -T b/pool -n of-${volume}`),
    call: (calls, volume) => calls.snapshot(volume, `of-${volume}`, "ro", 120 * MIB, "thin"),
    ends: (volume) => expect(lvs(`b/${volume}`, "lv_size,origin,lv_attr")).toMatch(/^120\.00 +of-\S+ Vri-a-tz/),
  },
  {
    name: "writable-snapshot",
    prepare: (volume) => void sh(`lvcreate -qq -y -V 100m -T b/pool -n of-${volume}`),
    call: (calls, volume) => calls.snapshot(volume, `of-${volume}`, "rw", 0, "thin"),
    ends: (volume) => expect(lvs(`b/${volume}`, "lv_size,origin,lv_attr")).toMatch(/^100\.00 +of-\S+ Vwi-a-tz/),
  },
  {
    name: "reduce",
    prepare: formatted,
    call: (calls, volume, uuid) => calls.reduce(uuid, LARGE, SMALL, `reduce-${volume}`),
    ends: (volume) => expect(lvs(`a/${volume}`, "lv_size")).toBe("200.00"),
  },
  {
    name: "reduce-thin",
    prepare: (volume) =>
      void sh(`lvcreate -qq -y -V 300m -T b/pool -n ${volume}; mkfs.btrfs -q -f -K -b 200M /dev/b/${volume}`),
    call: (calls, volume, uuid) => calls.reduce(uuid, LARGE, SMALL, `reduce-${volume}`),
    ends: (volume) => {
      expect(lvs(`b/${volume}`, "lv_size")).toBe("200.00");
      sh(`btrfs check --readonly /dev/b/${volume}`);
    },
  },
  {
    name: "cancel",
    prepare: formatted,
    call: async (calls, volume, uuid) => {
      expect(await calls.cancel(`cancel-${volume}`)).toMatchObject({ outcome: Outcome.BURNT });
      expect(await refusalOf(calls.reduce(uuid, LARGE, SMALL, `cancel-${volume}`))).toMatchObject({ code: "ABORTED" });
    },
    ends: (volume) => expect(lvs(`a/${volume}`, "lv_size")).toBe("300.00"),
  },
  {
    name: "merge",
    prepare: guarded,
    call: (calls, volume) => calls.merge(volume, `guard-${volume}`, "thin"),
    ends: expectMerged,
  },
  {
    name: "merge-put-off",
    prepare: (volume) => {
      guarded(volume);
      sh(`exec 9</dev/b/${volume}; lvconvert -qq -y --merge b/guard-${volume} 9<&9`);
      expect(lvs(`b/${volume}`, "lv_attr")).toMatch(/^O/);
    },
    call: (calls, volume) => calls.merge(volume, `guard-${volume}`, "thin"),
    ends: expectMerged,
  },
  {
    name: "activate",
    prepare: (volume) => {
      make(volume);
      sh(`lvchange -a n a/${volume}`);
    },
    call: (calls, volume) => calls.activate(volume),
    ends: (volume) => expect(lvs(`a/${volume}`, "lv_active")).toBe("active"),
  },
  {
    name: "wipe",
    prepare: (volume) => {
      make(volume);
      sh(`lvchange -p r a/${volume}; lvchange -a n a/${volume}`);
    },
    call: (calls, volume) => calls.wipe(volume),
    meanwhile: async (calls, volume, passage) => {
      if (!MARKED.test(passage)) return;
      expect(lvs(`a/${volume}`, "lv_tags")).toBe("tidemark.dev/wipe-begun");
      const refusals = [
        calls.create(volume, LARGE),
        calls.resize(volume, LARGE + 4 * MIB),
        calls.rename(volume, "whole"),
      ];
      for (const refusal of await refusalsOf(refusals))
        expect(refusal).toMatchObject({ code: "FAILED_PRECONDITION", message: expect.stringContaining("has begun") });
    },
    ends: (volume) => expect(lvs(`a/${volume}`, "lv_size")).toBe("none"),
  },
  {
    name: "wipe-thin",
    prepare: (volume) => void sh(`lvcreate -qq -y -V 20m -T b/raw -n ${volume}`),
    call: (calls, volume) => calls.wipe(volume, "raw"),
    ends: (volume) => expect(lvs(`b/${volume}`, "lv_size")).toBe("none"),
  },
  {
    name: "remove",
    prepare: make,
    call: (calls, volume) => calls.remove(volume),
    orElse: "NOT_FOUND",
    ends: (volume) => expect(lvs(`a/${volume}`, "lv_size")).toBe("none"),
  },
  {
    name: "rename",
    prepare: make,
    call: (calls, volume) => calls.rename(volume, `new-${volume}`),
    ends: (volume) => expect(lvs(`a/new-${volume}`, "lv_size")).toBe("300.00"),
  },
  {
    name: "tag",
    prepare: make,
    call: (calls, volume) => calls.tag(volume, ["x=y"], []),
    ends: (volume) => expect(lvs(`a/${volume}`, "lv_tags")).toBe("x=y"),
  },
];

describe("an lvmd that is killed", () => {
  let directory: string;
  let recorder: LvmRecorder;
  let lvmd: BundleProcess;
  let clients: LvmdClients;
  let calls: Calls;
  let socket: string;
  /** Where some commit dies, and where it has died in this run. */
  const killsAt = new Set<string>();
  const diedAt = new Set<string>();

  beforeAll(() => {
    sh(
      "vgcreate -qq a /dev/ubda; vgcreate -qq b /dev/ubdb; lvcreate -qq -y -T b/pool -L 400m; lvcreate -qq -y -T b/raw -L 100m",
    );
    directory = mkdtempSync(join(tmpdir(), "lvmd-"));
    recorder = createRecorder(directory);
    const written = writeSettings(directory, recorder, CLASSES);
    socket = written.socket;
    mkdirSync(join(directory, "state"), { mode: 0o700 });
    lvmd = createBundleProcess(directory, "lvmd", ["lvmd", ...written.args]);
  });

  afterAll(async () => {
    clients?.close();
    await lvmd.kill();
    rmSync(directory, { recursive: true, force: true });
  });

  async function start(environment: Readonly<Record<string, string>>): Promise<void> {
    clients?.close();
    rmSync(socket, { force: true });
    lvmd.start(environment);
    await waitFor("lvmd to serve", () => (sh(`[ -S ${socket} ] && echo yes || true`) === "yes\n" ? true : undefined), {
      limitMs: 60_000,
      intervalMs: 200,
      otherwise: () => lvmd.log(),
    });
    clients = connect(socket);
    calls = callsOf(clients);
  }

  /** A reduction that was done long ago is forgotten with the next one. */
  function plantOldToken(): void {
    const record = { token: "old", end: { state: "Burnt" }, atMs: 0 };
    writeFileSync(join(directory, "state", "token-old.json"), JSON.stringify(record));
  }

  async function perform(operation: Operation, fault: string | undefined, volume: string): Promise<string[]> {
    const log = join(directory, `${volume}.effects`);
    writeFileSync(log, "");
    operation.prepare(volume);
    if (operation.name === "reduce") plantOldToken();
    const uuid = sh(`lvs --noheadings -o lv_uuid -S lv_name=${volume}`).trim();
    try {
      await start({ TIDEMARK_EFFECT_LOG: log, ...(fault === undefined ? {} : { TIDEMARK_FAULT: fault }) });
      await callUntilDone(operation, fault, volume, uuid);
    } finally {
      await lvmd.kill();
    }
    const left = sh(`ls /dev/a /dev/b | grep -- '${volume}' || true`).split("\n").filter(Boolean);
    for (const found of new Set(left))
      sh(`lvremove -qq -f a/${found} 2>/dev/null || lvremove -qq -f b/${found} 2>/dev/null || true`);
    return readFileSync(log, "utf8").split("\n").filter(Boolean);
  }

  async function callUntilDone(
    { call, orElse, meanwhile, ends }: Operation,
    fault: string | undefined,
    volume: string,
    uuid: string,
  ): Promise<void> {
    const first = await refusalOf(call(calls, volume, uuid));
    if (fault === undefined) expect(first).toMatchObject({ code: "OK" });
    else {
      expect((await lvmd.ended()).signal).toBe("SIGKILL");
      await start({});
      await meanwhile?.(calls, volume, fault);
      const second = await refusalOf(call(calls, volume, uuid));
      if (second.code !== orElse) expect(second).toMatchObject({ code: "OK" });
    }
    ends(volume);
  }

  it.each(OPERATIONS)(
    "during $name finishes it",
    async (operation) => {
      const passages = await perform(operation, undefined, `k-${operation.name}-clean`);
      expect(passages.length).toBeGreaterThan(0);
      for (const [index, passage] of [...new Set(passages)].entries()) {
        killsAt.add(passage);
        if (!isTaken(passage)) continue;
        await perform(operation, passage, `k-${operation.name}-${index}`);
        diedAt.add(passage);
      }
    },
    KILL_LIMIT_MS,
  );

  it(
    "while it extends a pool finishes it",
    async () => {
      const log = join(directory, "pool.effects");
      for (const [index, step] of ["metadata", "data"]
        .flatMap((part) => [`${part}/before`, `${part}/after`])
        .entries()) {
        const passage = `lvmd-pool/extend-${step}`;
        killsAt.add(passage);
        if (!isTaken(passage)) continue;
        await start({ TIDEMARK_FAULT: passage, TIDEMARK_EFFECT_LOG: log });
        const sizes = [(404 + 4 * index) * MIB, (8 + 4 * index) * MIB] as const;
        await refusalOf(calls.extendPool("thin", ...sizes));
        expect((await lvmd.ended()).signal).toBe("SIGKILL");
        await start({});
        expect(await calls.extendPool("thin", ...sizes)).toEqual({ sizeBytes: sizes[0], metadataSizeBytes: sizes[1] });
        await lvmd.kill();
        diedAt.add(passage);
      }
    },
    KILL_LIMIT_MS,
  );

  it(
    "while it makes a pool ready at its start finishes it",
    async () => {
      for (const passage of ["zero", "activate"].flatMap((step) => [
        `lvmd-pool/${step}/before`,
        `lvmd-pool/${step}/after`,
      ])) {
        killsAt.add(passage);
        if (!isTaken(passage)) continue;
        sh("lvchange -qq -Z n b/raw; lvchange -qq -a n b/raw");
        lvmd.start({ TIDEMARK_FAULT: passage });
        expect((await lvmd.ended()).signal).toBe("SIGKILL");
        await start({});
        await waitFor("the pool to be ready", () =>
          /^zero +active$/.test(lvs("b/raw", "zero,lv_active")) ? true : undefined,
        );
        await lvmd.kill();
        diedAt.add(passage);
      }
    },
    KILL_LIMIT_MS,
  );

  it("has been killed before and after every effect that lvmd has, of those that this commit takes", () => {
    noteDeaths("lvmd-kill", { killsAt: [...killsAt], diedAt: [...diedAt] });
    const all = listed.flatMap((point) => [`${point}/before`, `${point}/after`]);
    expect(all.filter((passage) => !killsAt.has(passage))).toEqual([]);
    expect(all.filter((passage) => isTaken(passage) && !diedAt.has(passage))).toEqual([]);
  });

  it(
    "while LVM is at work says nothing of a reduction before that has ended, and then the truth",
    async () => {
      formatted("slow");
      const uuid = lvs("a/slow", "lv_uuid");
      const hold = join(directory, "hold");
      writeFileSync(hold, "");
      recorder.before("lvreduce", `while [ -e ${hold} ]; do sleep 0.1; done`);
      await start({});
      const unanswered = refusalOf(calls.reduce(uuid, LARGE, SMALL, "slow"));
      await waitFor("LVM to be at work", () =>
        sh("pgrep -fc '[l]vm lvreduce' || true").trim() === "0" ? undefined : true,
      );
      await lvmd.kill();
      expect((await unanswered).code).toBe("UNAVAILABLE");
      recorder.before("lvreduce", "");
      await start({});
      expect(await refusalOf(calls.cancel("slow"))).toMatchObject({
        code: "UNAVAILABLE",
        message: expect.stringContaining("is still running"),
      });
      expect((await refusalOf(calls.resize("slow", LARGE + 40 * MIB))).code).toBe("UNAVAILABLE");
      rmSync(hold);
      await waitFor("it to grow", async () => {
        const answer = await refusalOf(calls.resize("slow", LARGE));
        return answer.code === "OK" ? true : undefined;
      });
      expect(await calls.cancel("slow")).toEqual({ outcome: Outcome.REDUCED, sizeBytes: SMALL });
      expect(lvs("a/slow", "lv_size")).toBe("300.00");
    },
    KILL_LIMIT_MS,
  );

  describe("while what is to be cut off is zeroed", () => {
    let gate: ZeroingGate;
    beforeAll(() => {
      gate = createZeroingGate();
    });
    afterEach(() => gate.open());

    /** A mounted filesystem that has made place, and its reduction, whose second piece goes on without its lvmd. */
    async function killAtSecondPiece(name: string): Promise<string> {
      await lvmd.kill();
      formatted(name);
      const uuid = lvs(`a/${name}`, "lv_uuid");
      sh(`mkdir -p /tmp/z; mount /dev/a/${name} /tmp/z; dd if=/dev/urandom of=/tmp/z/f bs=1M count=20 status=none`);
      sh("sha256sum /tmp/z/f >/tmp/z.sum; sync -f /tmp/z");
      gate.hold(2);
      await start({});
      const unanswered = refusalOf(calls.reduce(uuid, LARGE, SMALL, name));
      await waitFor("the second piece", () => (gate.pieces().length === 2 ? true : undefined));
      await lvmd.kill();
      expect((await unanswered).code).toBe("UNAVAILABLE");
      return uuid;
    }

    const notEnded = expect.objectContaining({
      code: "UNAVAILABLE",
      message: expect.stringContaining("is still running (/bin/bash /usr/sbin/blkdiscard"),
    });

    /** Once the piece has ended; and the filesystem may grow over all that was zeroed. */
    async function isBurntAndWhole(name: string): Promise<void> {
      gate.open();
      const outcome = await waitFor("the outcome", async () => {
        const answer = await refusalOf(calls.cancel(name));
        return answer.code === "OK" ? answer.message : undefined;
      });
      expect(JSON.parse(outcome)).toEqual({ outcome: Outcome.BURNT, sizeBytes: 0 });
      expect(lvs(`a/${name}`, "lv_size")).toBe("300.00");
      sh("btrfs filesystem resize max /tmp/z; dd if=/dev/urandom of=/tmp/z/g bs=1M count=120 conv=fsync status=none");
      sh(`sha256sum /tmp/z/g >>/tmp/z.sum; umount /tmp/z; btrfs check --readonly /dev/a/${name}`);
      sh(`mount /dev/a/${name} /tmp/z; sha256sum -c /tmp/z.sum; umount /tmp/z`);
      expect(gate.pieces()).toHaveLength(2);
      await calls.wipe(name);
    }

    it(
      "says nothing before that has ended, and leaves the filesystem whole",
      async () => {
        const uuid = await killAtSecondPiece("zeroed");
        await start({});
        for (const call of [calls.cancel("zeroed"), calls.reduce(uuid, LARGE, SMALL, "zeroed")])
          expect(await refusalOf(call)).toEqual(notEnded);
        expect((await refusalOf(calls.resize("zeroed", LARGE + 40 * MIB))).code).toBe("UNAVAILABLE");
        await isBurntAndWhole("zeroed");
        await lvmd.kill();
      },
      KILL_LIMIT_MS,
    );

    it(
      "and has lost its state directory burns no token before that has ended",
      async () => {
        const uuid = await killAtSecondPiece("forgotten");
        rmSync(join(directory, "state"), { recursive: true });
        await start({});
        for (const call of [calls.cancel("forgotten"), calls.reduce(uuid, LARGE, SMALL, "forgotten")])
          expect(await refusalOf(call)).toEqual(notEnded);
        expect(await refusalOf(calls.cancel("of-another-volume"))).toEqual(notEnded);
        await isBurntAndWhole("forgotten");
        expect(await refusalOf(calls.cancel("of-another-volume"))).toMatchObject({ code: "OK" });
        await lvmd.kill();
      },
      KILL_LIMIT_MS,
    );
  });
});
