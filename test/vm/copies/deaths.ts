// A copy's way from its claim to its mounted filesystem, on which the agent and lvmd are ended by SIGKILL at each of their side effects.
// Whoever dies is started again at once, as kubelet would, and is to die at the next one. The side effects come from a way on which
// nobody dies.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BundleProcess } from "../../harness/bundle-process.ts";
import type { Stack } from "../../harness/stack.ts";

export const MORTALS = ["agent", "lvmd"] as const;
export type Mortal = (typeof MORTALS)[number];

/** Those of the way alone: reports, events and samples come at their own times, and how it goes again is another way. */
const ON_THE_WAY = /^(logical-volume|stage|extend|lvmd-(snapshot|activate|resize|tags))\//;

/** What each passes on the way, in order: "operation/step/before" or "operation/step/after". */
export async function passagesOn(stack: Stack, way: () => Promise<void>): Promise<Record<Mortal, string[]>> {
  for (const mortal of MORTALS) await startAnew(stack, mortal, undefined);
  await way();
  const passed = (mortal: Mortal): string[] => [...new Set(linesOf(logPath(stack, mortal)))];
  const onTheWay = (mortal: Mortal): string[] => passed(mortal).filter((passage) => ON_THE_WAY.test(passage));
  return { agent: onTheWay("agent"), lvmd: onTheWay("lvmd") };
}

export interface Fate {
  /** Where it has died until now, in order. */
  readonly deaths: readonly string[];
  /** It dies no more, and runs. Rejects where it died elsewhere than it should. */
  end(): Promise<void>;
}

/** From now on it dies at the first of these, and started again at the next. */
export async function doom(stack: Stack, mortal: Mortal, passages: readonly string[]): Promise<Fate> {
  const deaths: string[] = [];
  let isOver = false;
  const process = processOf(stack, mortal);
  const dying = async (): Promise<void> => {
    while ((await process.ended()).signal === "SIGKILL") {
      const [last, due] = [linesOf(logPath(stack, mortal)).at(-1), passages[deaths.length]];
      if (last !== due) throw new Error(`${mortal} died after ${last}, not at ${due}`);
      deaths.push(due ?? "");
      if (isOver) return;
      await start(stack, mortal, passages[deaths.length]);
    }
  };
  await startAnew(stack, mortal, passages[0]);
  const died = dying();
  died.catch(() => undefined);
  return {
    deaths,
    end: async () => {
      isOver = true;
      await process.stop();
      await died;
      await process.stop(); // it may just have been started again
      await start(stack, mortal, undefined);
    },
  };
}

async function startAnew(stack: Stack, mortal: Mortal, fault: string | undefined): Promise<void> {
  await processOf(stack, mortal).stop();
  await start(stack, mortal, fault);
}

/** Resolves when it is ready, or dead. */
async function start(stack: Stack, mortal: Mortal, fault: string | undefined): Promise<void> {
  const log = logPath(stack, mortal);
  writeFileSync(log, "");
  const environment = { TIDEMARK_EFFECT_LOG: log, ...(fault !== undefined && { TIDEMARK_FAULT: fault }) };
  const ready = mortal === "agent" ? stack.start("agent", environment) : stack.lvm?.lvmd.start(environment);
  // lvmd may be dead, or told to end, before anybody has seen it serve.
  await Promise.race([ready, processOf(stack, mortal).ended()]);
}

function processOf({ processes, lvm }: Stack, mortal: Mortal): BundleProcess {
  const found = mortal === "agent" ? processes.agent : lvm?.lvmd.process;
  if (found === undefined) throw new Error("the stack has no lvmd");
  return found;
}

function logPath({ directory }: Stack, mortal: Mortal): string {
  return join(directory, `${mortal}.effects`);
}

function linesOf(path: string): string[] {
  return readFileSync(path, "utf8").split("\n").filter(Boolean);
}
