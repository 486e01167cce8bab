// `make demo`: what was left behind is removed, one run is made and shown, the summary and the picture are written, and
// everything the run made is removed again, however it ends.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { type CommandPort, createCommandPort } from "../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { type DemoConfig, readDemoConfig } from "./config.ts";
import { drawPicture } from "./picture/picture.ts";
import { complaintsOf } from "./run/process-logs.ts";
import { PROCESS_NAMES } from "./run/processes.ts";
import { createRunClock } from "./run/run-clock.ts";
import { createRunDirectory, removeRun, removeStaleRuns } from "./run/run-directory.ts";
import { createRunLog, type RunLog } from "./run/run-log.ts";
import { type FixedVolume, makeFixedVolume, simulateFixedVolume } from "./script/fixed-volume.ts";
import { NOMINAL_BYTES, perform } from "./script/perform.ts";
import { type Places, placeLines } from "./script/places.ts";
import type { DemoView, Scene } from "./script/scene.ts";
import { EXPECTED_DURATION_MS } from "./script/script.ts";
import { storyText } from "./views/frame.ts";
import { createPlainView } from "./views/plain-view.ts";
import type { DemoSummary } from "./views/summary.ts";
import { summaryLines } from "./views/summary-view.ts";
import { createTerminalView } from "./views/terminal-view.ts";

const FIXED_SIZE_BYTES = GIB;
const VIEW_INTERVAL_MS = 100;
const INTERRUPTED_EXIT_CODE = 130;

export async function runDemo(args: readonly string[]): Promise<void> {
  const config = readDemoConfig(args);
  const commands = createCommandPort(directEffects);
  const ending = endingOnSignals();
  const say = (line: string): void => void (config.json ? process.stderr : process.stdout).write(`${line}\n`);
  for (const directory of await removeStaleRuns(config.directory, commands))
    say(`Removed what an earlier run had left behind: ${directory}`);
  const runDirectory = createRunDirectory(config.directory);
  try {
    await makeRun(config, runDirectory, commands, ending, say);
  } catch (error) {
    if (!ending.aborted) for (const name of PROCESS_NAMES) complaintsOf(runDirectory, name).forEach(say);
    process.exitCode = ending.aborted ? INTERRUPTED_EXIT_CODE : 1;
    say(`demo: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    say("Removing everything that the run has made ...");
    await removeRun(runDirectory, commands);
  }
  process.exit(); // a connection or a child's pipe may still be open
}

/** Aborted by Ctrl-C and its like, and when the output has no reader left. A second one changes nothing: cleaning up has started. */
function endingOnSignals(): AbortSignal {
  const controller = new AbortController();
  for (const stream of [process.stdout, process.stderr])
    stream.on("error", () => controller.abort(new Error("ended: its output is no longer read")));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => controller.abort(new Error(`ended by ${signal}`)));
  return controller.signal;
}

async function makeRun(
  config: DemoConfig,
  runDirectory: string,
  commands: CommandPort,
  ending: AbortSignal,
  say: (line: string) => void,
): Promise<void> {
  const { fixedVolume, storage } = await chooseStorage(config, join(runDirectory, "fixed"), commands, say);
  const log = createRunLog();
  const clock = createRunClock();
  const places: Places = {};
  const view = createView(config, say);
  const scene = (): Scene => ({
    ...{
      log,
      storage,
      fsType: "btrfs",
      nowMs: log.endedAtMs ?? clock.nowMs(),
      expectedDurationMs: EXPECTED_DURATION_MS,
    },
    ...{ fixedSizeBytes: FIXED_SIZE_BYTES, nominalBytes: NOMINAL_BYTES },
    ...places,
  });
  const timer = setInterval(() => view.update(scene()), VIEW_INTERVAL_MS);
  try {
    const announce = (found: Places): void => void Object.assign(places, found);
    const summary = await perform({ config, runDirectory, fixedVolume, storage, log, clock, ending, announce });
    view.update(scene());
    view.close();
    if (isLive(config)) changesToldOf(log).forEach(say);
    const picture = writePicture(config.picturePath, drawPicture(log, summary, FIXED_SIZE_BYTES));
    showSummary(config, summary, picture, say);
    if (config.keep) await stayUp(places, ending, say);
  } finally {
    clearInterval(timer);
    view.close();
  }
}

/** The unmanaged filesystem is the probe: where it cannot be made, neither can a managed one. */
async function chooseStorage(
  config: DemoConfig,
  directory: string,
  commands: CommandPort,
  say: (line: string) => void,
): Promise<{ fixedVolume: FixedVolume; storage: "real" | "simulated" }> {
  const problem = config.simulated ? "asked for by --simulated" : rootProblem();
  if (problem === undefined) {
    try {
      return { fixedVolume: await makeFixedVolume(directory, FIXED_SIZE_BYTES, commands), storage: "real" };
    } catch (error) {
      say(`No real filesystem can be made here (${(error as Error).message}): the disk is SIMULATED.`);
    }
  } else say(`The disk is SIMULATED (${problem}); a real one needs root, loop devices and btrfs.`);
  return { fixedVolume: await simulateFixedVolume(`${directory}-simulated`, FIXED_SIZE_BYTES), storage: "simulated" };
}

function rootProblem(): string | undefined {
  return process.getuid?.() === 0 ? undefined : "not running as root";
}

function isLive(config: DemoConfig): boolean {
  return process.stdout.isTTY && !config.json;
}

function createView(config: DemoConfig, say: (line: string) => void): DemoView {
  return isLive(config) ? createTerminalView(process.stdout) : createPlainView(say);
}

/** What the live screen takes away with it. */
function changesToldOf({ story }: RunLog): string[] {
  return story
    .filter(({ kind }) => kind === "extend" || kind === "shrink" || kind === "fault")
    .map(({ kind, atMs, text }) => storyText(kind, atMs, text));
}

/** Where it is, or why it is not there: a whole run is not lost for its picture. */
function writePicture(path: string, picture: string): string {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, picture);
    return path;
  } catch (error) {
    return `not written: ${(error as Error).message}`;
  }
}

function showSummary(config: DemoConfig, summary: DemoSummary, picture: string, say: (line: string) => void): void {
  if (config.json) process.stdout.write(`${JSON.stringify(summary)}\n`);
  else summaryLines(summary, picture).forEach(say);
  if (summary.corruptFiles > 0 || summary.writerErrors > 0) process.exitCode = 1;
}

async function stayUp(places: Places, ending: AbortSignal, say: (line: string) => void): Promise<void> {
  placeLines("Staying up until Ctrl-C. In another terminal:", places).forEach(say);
  if (!ending.aborted) await new Promise((resolve) => ending.addEventListener("abort", resolve, { once: true }));
}
