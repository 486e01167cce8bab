// Writer, manifest and verification on real files.
import { spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, readdirSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { verifyFiles } from "../../../../demo/show/script/verify.ts";
import { followWriter, type Writer } from "../../../../demo/show/writers/writer.ts";
import { eventually } from "../../../harness/wait-for.ts";

const MIB = 1024 * 1024;
/** What the simulated filesystem keeps for itself. */
const OVERHEAD_BYTES = 16 * MIB;
const WRITER = `import { runDemoWriter } from "./demo/show/writers/writer-process.ts"; void runDemoWriter(process.argv.slice(1));`;

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tidemark-writer-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

function startWriter(...flags: string[]): Writer {
  const args = ["--import", "tsx", "--input-type=module", "--eval", WRITER, "--"];
  return followWriter(
    spawn(
      process.execPath,
      [...args, "--directory", directory, "--file-mib", "1", "--rate-bytes", "40000000", ...flags],
      {
        stdio: ["pipe", "pipe", "inherit"],
      },
    ),
  );
}

async function wroteSome(): Promise<Writer> {
  const writer = startWriter();
  await eventually("five files are written", () => writer.manifest.size >= 5);
  await writer.stop();
  return writer;
}

describe("the writer", () => {
  it("leaves exactly the files of its manifest, all of them whole", async () => {
    const writer = await wroteSome();
    expect(readdirSync(directory).sort()).toEqual([...writer.manifest.keys()].sort());
    const { filesVerified, bytesVerified, corruptFiles } = await verifyFiles(directory, writer.manifest);
    expect(filesVerified).toBe(writer.manifest.size);
    expect(bytesVerified).toBe(writer.manifest.size * MIB);
    expect(corruptFiles).toBe(0);
    expect(writer.running()).toBe(false);
  });

  it("deletes the oldest files first, and goes on writing", async () => {
    const writer = startWriter();
    await eventually("four files are written", () => writer.manifest.size >= 4);
    writer.send({ deleteOldest: 2 * MIB });
    await eventually("two files are deleted", () => !writer.manifest.has("000001.bin"));
    const newest = Math.max(...[...writer.manifest.keys()].map((name) => Number.parseInt(name, 10)));
    await eventually("it writes on", () => writer.manifest.has(`${String(newest + 2).padStart(6, "0")}.bin`));
    await writer.stop();
    expect(writer.manifest.has("000002.bin")).toBe(true);
    expect(readdirSync(directory)).not.toContain("000000.bin");
  });

  it("ends at a full disk when it is told so, with the error and without the unfinished file", async () => {
    const capacityFile = join(directory, "..", `capacity-${process.pid}`);
    writeFileSync(capacityFile, String(OVERHEAD_BYTES + 3 * MIB + 1000));
    try {
      const writer = startWriter("--stop-when-full", "--capacity-file", capacityFile);
      await eventually("it ends", () => !writer.running());
      expect(writer.errors().map(({ code }) => code)).toEqual(["ENOSPC"]);
      expect(readdirSync(directory)).toHaveLength(3);
      expect(writer.totals().liveBytes).toBe(3 * MIB);
    } finally {
      unlinkSync(capacityFile);
    }
  });
});

describe("verification", () => {
  it("finds a file with one wrong byte, a missing one, a longer one and one that nobody wrote", async () => {
    const writer = await wroteSome();
    const [wrong = "", missing = "", longer = ""] = [...writer.manifest.keys()];
    rmSync(join(directory, missing));
    appendFileSync(join(directory, longer), "x");
    writeFileSync(join(directory, wrong), "x", { flag: "r+" });
    writeFileSync(join(directory, "stranger"), "");
    const { corruptFiles, filesVerified, problems } = await verifyFiles(directory, writer.manifest);
    expect(corruptFiles).toBe(4);
    expect(filesVerified).toBe(writer.manifest.size - 3);
    for (const name of [wrong, missing, longer, "stranger"])
      expect(problems.some((problem) => problem.startsWith(`${name}: `))).toBe(true);
  });
});
