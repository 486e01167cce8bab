// The settings of now: the file is read again when it changes. One that cannot be used is told, and the last good one stays.
import { type FSWatcher, readFileSync, watch } from "node:fs";
import { dirname } from "node:path";
import type { Logger } from "../../process/log.ts";
import { parseSettings } from "./parse-settings.ts";
import type { Settings } from "./settings.ts";

export interface FollowedSettings {
  now(): Settings;
  /** Why the file as it is now is not used. */
  problem(): string | undefined;
  onChange(listener: () => void): void;
  stop(): void;
}

/** An editor, and kubelet with a ConfigMap, take several steps to change a file. */
const SETTLE_MS = 100;
/** Where the kernel tells of no changes. */
const LOOK_INTERVAL_MS = 10_000;

/** Throws where the file cannot be used at all: there are no earlier settings to go on with. */
export function followSettings(file: string, log: Logger): FollowedSettings {
  const listeners: (() => void)[] = [];
  let text = readFileSync(file, "utf8");
  let settings = parseSettings(file, text);
  let problem: string | undefined;
  let settling: NodeJS.Timeout | undefined;

  const take = (): void => {
    try {
      const newest = readFileSync(file, "utf8");
      if (newest === text && problem === undefined) return;
      const parsed = parseSettings(file, newest);
      if (newest !== text) log.info({ file }, "the configuration has changed");
      if (parsed.socketName !== settings.socketName)
        log.warn({ file }, "another socket-name counts from the next start");
      text = newest;
      settings = parsed;
      problem = undefined;
    } catch (error) {
      const found = (error as Error).message;
      if (found === problem) return;
      problem = found;
      log.error({ problem }, "the configuration cannot be used; the one before stays");
    }
    for (const listener of listeners) listener();
  };
  const settle = (): void => {
    clearTimeout(settling);
    settling = setTimeout(take, SETTLE_MS);
  };
  // The directory: the file itself is replaced, not written.
  const watcher: FSWatcher = watch(dirname(file), settle);
  watcher.on("error", (err) => log.warn({ err, file }, "changes of the configuration are only seen now and then"));
  const timer = setInterval(take, LOOK_INTERVAL_MS);
  return {
    now: () => settings,
    problem: () => problem,
    onChange: (listener) => listeners.push(listener),
    stop: () => {
      watcher.close();
      clearInterval(timer);
      clearTimeout(settling);
    },
  };
}
