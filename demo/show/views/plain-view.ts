// The run as plain lines, for logs and pipes: each thing worth telling once, and every few seconds where size and use stand.
import { formatBytes } from "../../../src/contracts/quantities/quantity.ts";
import { formatPercent } from "../../../src/contracts/quantities/ratio.ts";
import { usedBytes } from "../run/run-log.ts";
import { placeLines } from "../script/places.ts";
import type { DemoView, Scene } from "../script/scene.ts";
import { storyText } from "./frame.ts";

const STATUS_INTERVAL_MS = 5_000;

export function createPlainView(print: (line: string) => void): DemoView {
  let told = 0;
  let nextStatusMs = STATUS_INTERVAL_MS;
  let placesTold = false;
  return {
    update: (scene) => {
      for (const { kind, atMs, text } of scene.log.story.slice(told)) print(storyText(kind, atMs, text));
      told = scene.log.story.length;
      if (!placesTold && scene.mountPath !== undefined && scene.metricsUrls !== undefined) {
        placeLines("In another terminal:", scene).forEach(print);
        placesTold = true;
      }
      if (scene.nowMs < nextStatusMs) return;
      nextStatusMs = (Math.floor(scene.nowMs / STATUS_INTERVAL_MS) + 1) * STATUS_INTERVAL_MS;
      const status = statusOf(scene);
      if (status !== undefined) print(storyText("note", scene.nowMs, status));
    },
    close: () => undefined,
  };
}

function statusOf({ log }: Scene): string | undefined {
  const last = log.points.at(-1);
  if (last === undefined || log.endedAtMs !== undefined) return undefined;
  const ratio = Math.round((usedBytes(last) / last.capacityBytes) * 100) / 100;
  return `size ${formatBytes(last.capacityBytes)}, used ${formatBytes(usedBytes(last))} (${formatPercent(ratio)})`;
}
