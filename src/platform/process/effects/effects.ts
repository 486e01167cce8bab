// Where the outside world is changed. Every command, API write, RPC and file write passes through `Effects.run` under a named point. The
// kill matrix ends the process right before and right after each of them. `make generate` collects the names from the source into
// test/effect-points.json.
import { appendFileSync } from "node:fs";

/** "operation/step", e.g. "extend/grow-file"; always a string literal at the call, so that it can be collected. */
export type EffectPoint = `${string}/${string}`;

export interface Effects {
  /** Runs one side effect. A fault planted at `point/before` or `point/after` fires here and nowhere else. */
  run<T>(point: EffectPoint, effect: () => Promise<T>): Promise<T>;
}

/** The production port: runs the effect and nothing else. */
export const directEffects: Effects = {
  run: (_point, effect) => effect(),
};

// The effects port with planted faults: ends the process by SIGKILL right before or right after one of the named points, and
// records every point that is passed. For the kill matrix; production gets `directEffects` unless a fault is configured.

interface PlantedFault {
  readonly point: EffectPoint;
  readonly moment: "before" | "after";
  /** Fires at the n-th passage (1-based). */
  readonly passage: number;
}

/** Reads faults with commas between them; undefined plants none. Throws where `parsePlantedFault` does. */
export function parsePlantedFaults(text: string | undefined): PlantedFault[] {
  return text === undefined ? [] : text.split(",").map(parsePlantedFault);
}

/** Reads "extend/grow-file/after" or "extend/grow-file/after#2". Throws on anything else. */
function parsePlantedFault(text: string): PlantedFault {
  const match = /^([a-z0-9-]+\/[a-z0-9-]+)\/(before|after)(?:#(\d+))?$/.exec(text);
  if (match === null)
    throw new Error(
      `fault "${text}" is not operation/step/before or operation/step/after, with #N for the N-th passage`,
    );
  return { point: match[1] as EffectPoint, moment: match[2] as "before" | "after", passage: Number(match[3] ?? 1) };
}

/** The first fault that is reached fires. `logFile` gets one line "point/moment" per passage, written before anything else happens. */
export function createFaultEffects(faults: readonly PlantedFault[], logFile: string | undefined): Effects {
  const passages = new Map<string, number>();
  const pass = (point: EffectPoint, moment: "before" | "after"): void => {
    const name = `${point}/${moment}`;
    if (logFile !== undefined) appendFileSync(logFile, `${name}\n`);
    const passage = (passages.get(name) ?? 0) + 1;
    passages.set(name, passage);
    if (faults.some((fault) => fault.point === point && fault.moment === moment && fault.passage === passage))
      process.kill(process.pid, "SIGKILL");
  };
  return {
    run: async (point, effect) => {
      pass(point, "before");
      const result = await effect();
      pass(point, "after");
      return result;
    },
  };
}

/** A process' settings for planted faults. */
export interface FaultSettings {
  /** TIDEMARK_FAULT: where the process is ended, at whichever of them it reaches first. */
  readonly faults: readonly PlantedFault[];
  /** TIDEMARK_EFFECT_LOG: a file that gets a line per effect. */
  readonly effectLog: string | undefined;
}

/** The effects of a process as configured: direct ones, unless a fault or a log is asked for. */
export function effectsOf({ faults, effectLog }: FaultSettings): Effects {
  return faults.length === 0 && effectLog === undefined ? directEffects : createFaultEffects(faults, effectLog);
}
