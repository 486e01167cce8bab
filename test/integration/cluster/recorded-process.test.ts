import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { identityOf } from "../../../demo/show/run/process-table.ts";
import { type ClusterPlaces, clusterPlaces, logOf, makeClusterDirectories } from "../../cluster/places.ts";
import {
  endRecorded,
  endRecordedChild,
  onlyChild,
  recordedNames,
  runningProcess,
  startRecorded,
} from "../../cluster/recorded-process.ts";
import { waitFor } from "../../harness/wait-for.ts";

const SLEEP = { name: "sleeper", command: "sleep", args: ["1000"] };

describe("a recorded process", () => {
  let places: ClusterPlaces;

  beforeEach(() => {
    places = clusterPlaces(mkdtempSync(join(tmpdir(), "tidemark-recorded-")));
    makeClusterDirectories(places);
  });

  afterEach(async () => {
    for (const name of recordedNames(places)) await endRecorded(places, name, "SIGKILL");
    rmSync(places.directory, { recursive: true });
  });

  it("is the program itself, found again by its name, and gone with its record when it was ended", async () => {
    await startRecorded(places, SLEEP);
    const running = runningProcess(places, "sleeper");
    // Its record is there a moment before the shell that wrote it becomes the program.
    await waitFor("the program itself", () =>
      readFileSync(`/proc/${running?.pid}/cmdline`, "utf8") === "sleep\0" + "1000\0" ? true : undefined,
    );
    await endRecorded(places, "sleeper", "SIGTERM");
    expect(identityOf(running?.pid ?? 0)).toBeUndefined();
    expect(recordedNames(places)).toEqual([]);
  });

  it("is not started twice", async () => {
    await startRecorded(places, SLEEP);
    const first = runningProcess(places, "sleeper");
    await startRecorded(places, SLEEP);
    expect(runningProcess(places, "sleeper")).toEqual(first);
  });

  it("is never confused with another process that has got its pid", async () => {
    await startRecorded(places, SLEEP);
    const { pid = 0 } = runningProcess(places, "sleeper") ?? {};
    const record = join(places.processes, "sleeper");
    const own = readFileSync(record, "utf8");
    // Field 22, the start time, as of a process that had this pid before.
    const fields = own.split(" ");
    fields[21] = `${Number(fields[21]) - 1}`;
    writeFileSync(record, fields.join(" "));
    await endRecorded(places, "sleeper", "SIGKILL");
    expect(identityOf(pid)).toBeDefined();
    writeFileSync(record, own);
  });

  it("that ignores SIGTERM is ended by SIGKILL", async () => {
    const script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done";
    await startRecorded(places, { name: "deaf", command: "sh", args: ["-c", script] });
    await waitFor("it to be deaf", () => readFileSync(logOf(places, "deaf"), "utf8").includes("deaf") || undefined);
    const { pid = 0 } = runningProcess(places, "deaf") ?? {};
    await endRecorded(places, "deaf", "SIGTERM", 200);
    expect(identityOf(pid)).toBeUndefined();
  });

  it("that only waits for its child ends when the child is ended", async () => {
    const script = "sleep 1000; echo child ended";
    await startRecorded(places, { name: "parent", command: "sh", args: ["-c", script] });
    const parent = runningProcess(places, "parent");
    if (parent === undefined) throw new Error("the parent has ended by itself");
    const child = await onlyChild(parent);
    await waitFor("the child to be a sleep", () => commandOf(child) === "sleep" || undefined);
    await endRecordedChild(places, "parent", "SIGTERM");
    expect(runningProcess(places, "parent")).toBeUndefined();
    expect(readFileSync(logOf(places, "parent"), "utf8")).toContain("child ended");
  });

  it("that cannot be started says so in its log", async () => {
    await startRecorded(places, { name: "nothing", command: "/no/such/program", args: [] });
    await waitFor("it to end", () => runningProcess(places, "nothing") === undefined || undefined);
    expect(readFileSync(logOf(places, "nothing"), "utf8")).toContain("/no/such/program");
  });
});

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}
