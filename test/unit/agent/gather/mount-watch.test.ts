import { expect, it } from "@jest/globals";
import { pino } from "pino";
import { startMountWatch } from "../../../../src/agent/gather/mount-watches.ts";

it("a watch over mounts holds up no process that is at its end", () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((resource) => resource === "Timeout").length;
  const before = timers();
  const storage = { sizeBytes: async () => undefined };
  const watch = startMountWatch({
    volumes: new Map(),
    storage,
    changed: () => undefined,
    log: pino({ level: "silent" }),
  });
  expect(timers()).toBe(before);
  watch.stop();
});
