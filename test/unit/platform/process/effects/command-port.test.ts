import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { CommandError, createCommandPort } from "../../../../../src/platform/process/effects/command-port.ts";
import { directEffects, type EffectPoint } from "../../../../../src/platform/process/effects/effects.ts";
import { eventually, waitFor } from "../../../../harness/wait-for.ts";

describe("the command port", () => {
  const commands = createCommandPort(directEffects);

  it("returns exit code, stdout and stderr, and a non-zero exit is a value", async () => {
    const result = await commands.query("/bin/sh", ["-c", "echo out; echo err >&2; exit 3"], { timeLimitMs: 30_000 });
    expect(result).toEqual({ exitCode: 3, stdout: "out\n", stderr: "err\n" });
  });

  it("hands arguments over as they are, never through a shell", async () => {
    const result = await commands.query("/bin/echo", ["$(id)", "; true", "*"], { timeLimitMs: 30_000 });
    expect(result.stdout).toBe("$(id) ; true *\n");
  });

  it("runs in the C locale and sees nothing of our environment", async () => {
    process.env["TIDEMARK_TEST_SECRET"] = "x";
    const result = await commands.query("/usr/bin/env", [], { timeLimitMs: 30_000 });
    delete process.env["TIDEMARK_TEST_SECRET"];
    expect(result.stdout).toContain("LC_ALL=C");
    expect(result.stdout).not.toContain("TIDEMARK_TEST_SECRET");
  });

  it("gives up at its time limit although the child ignores signals, and counts nothing once it is gone", async () => {
    const call = commands.query("/bin/sh", ["-c", "trap '' TERM; exec sleep 60"], { timeLimitMs: 100 });
    await expect(call).rejects.toMatchObject({ name: "CommandError", code: "TimedOut" });
    await eventually("the child to be gone", () => commands.strandedChildren() === 0);
  });

  it("says that a program is not there", async () => {
    await expect(commands.query("/no/such/program", [], { timeLimitMs: 30_000 })).rejects.toMatchObject({
      code: "NotFound",
    });
  });

  it("refuses output without end", async () => {
    const call = commands.query("/usr/bin/yes", [], { timeLimitMs: 30_000 });
    await expect(call).rejects.toBeInstanceOf(CommandError);
    await expect(call).rejects.toMatchObject({ code: "OutputTooLarge" });
  });

  it("passes what changes something through the effects port by its point, and what only reads does not", async () => {
    const passed: EffectPoint[] = [];
    const counted = createCommandPort({
      run: (point, effect) => {
        passed.push(point);
        return effect();
      },
    });
    await counted.run("extend/resize-filesystem", "/bin/true", [], { timeLimitMs: 30_000 });
    await counted.query("/bin/true", [], { timeLimitMs: 30_000 });
    expect(passed).toEqual(["extend/resize-filesystem"]);
  });
});

describe("a program that starts others", () => {
  const commands = createCommandPort(directEffects);

  it("is killed with all of them, and counts as left behind until the last has ended", async () => {
    const marker = `86399.${process.pid}`;
    const call = commands.query("/bin/sh", ["-c", `sleep ${marker} & wait`], {
      timeLimitMs: 200,
      withDescendants: true,
    });
    const error = await call.catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "TimedOut" });
    const started = async (): Promise<string[]> =>
      (await commands.query("/usr/bin/pgrep", ["-f", `sleep ${marker}`], { timeLimitMs: 30_000 })).stdout.match(
        /\d+/g,
      ) ?? [];
    try {
      await waitFor("all that it started to end", async () => ((await started()).length === 0 ? true : undefined), {
        limitMs: 30_000,
      });
    } finally {
      for (const pid of await started()) process.kill(Number(pid), "SIGKILL");
    }
    await (error as CommandError).gone;
    expect(commands.strandedChildren()).toBe(0);
  });

  it("counts as left behind as long as one outlives the kill", async () => {
    const directory = mkdtempSync(join(tmpdir(), "tidemark-command-port-"));
    const [begun, fifo] = [join(directory, "begun"), join(directory, "fifo")];
    execFileSync("mkfifo", [fifo]);
    // In a session of its own, which no kill of the group reaches; it ends when it is told to.
    const outliving = `setsid sh -c 'touch "${begun}"; read -r _ <"${fifo}"'; true`;
    const caller = new AbortController();
    const call = commands.query("/bin/sh", ["-c", outliving], {
      timeLimitMs: 120_000,
      signal: caller.signal,
      withDescendants: true,
    });
    const failing = call.catch((caught: unknown) => caught);
    await eventually("the one that outlives it", () => existsSync(begun));
    caller.abort();
    const error = (await failing) as CommandError;
    let isGone = false;
    void error.gone.then(() => (isGone = true));
    expect(commands.strandedChildren()).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 200)); // long after the others have ended, on any machine that has time
    expect([commands.strandedChildren(), isGone]).toEqual([1, false]);
    writeFileSync(fifo, "\n");
    await error.gone;
    expect(commands.strandedChildren()).toBe(0);
    rmSync(directory, { recursive: true });
  });
});
