// The effects port with a planted fault: ends the process by SIGKILL right before or right after one named point, and
// records every point that is passed. For the kill matrix; production gets `directEffects` unless a fault is configured.
import { appendFileSync } from "node:fs";
import { directEffects, type EffectPoint, type Effects } from "./effects.ts";

export interface PlantedFault {
  readonly point: EffectPoint;
  readonly moment: "before" | "after";
  /** Fires at the n-th passage (1-based). */
  readonly passage: number;
}

/** Reads "extend/grow-file/after" or "extend/grow-file/after#2". Throws on anything else. */
export function parsePlantedFault(text: string): PlantedFault {
  const match = /^([a-z0-9-]+\/[a-z0-9-]+)\/(before|after)(?:#(\d+))?$/.exec(text);
  if (match === null)
    throw new Error(
      `fault "${text}" is not operation/step/before or operation/step/after, with #N for the N-th passage`,
    );
  return { point: match[1] as EffectPoint, moment: match[2] as "before" | "after", passage: Number(match[3] ?? 1) };
}

/** `logFile` gets one line "point/moment" per passage, written before anything else happens. */
export function createFaultEffects(fault: PlantedFault | undefined, logFile: string | undefined): Effects {
  let passages = 0;
  const pass = (point: EffectPoint, moment: "before" | "after"): void => {
    if (logFile !== undefined) appendFileSync(logFile, `${point}/${moment}\n`);
    if (fault === undefined || fault.point !== point || fault.moment !== moment) return;
    passages += 1;
    if (passages === fault.passage) process.kill(process.pid, "SIGKILL");
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

/** What a process is told about faults. */
export interface FaultSettings {
  /** TIDEMARK_FAULT: where the process is ended. */
  readonly fault: PlantedFault | undefined;
  /** TIDEMARK_EFFECT_LOG: a file that gets a line per effect. */
  readonly effectLog: string | undefined;
}

/** The effects of a process as configured: direct ones, unless a fault or a log is asked for. */
export function effectsOf({ fault, effectLog }: FaultSettings): Effects {
  return fault === undefined && effectLog === undefined ? directEffects : createFaultEffects(fault, effectLog);
}
