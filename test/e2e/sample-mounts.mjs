// A thread that looks, again and again, on which nodes some btrfs are mounted: nothing that the test does keeps it from looking. It
// says when it has looked for the first time, and in the end each change of the set of nodes, and how long it looked away at most.
import { readdirSync, readFileSync } from "node:fs";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";

const { holders, fsids, intervalMs } = workerData;
const pause = new Int32Array(new SharedArrayBuffer(4));
const mountInfos = {};

/** The record of a node's program begins with its pid; its only child is the node's first process, another one after each power cut. */
function mountInfoOf(node) {
  const pid = Number.parseInt(readFileSync(holders[node], "utf8"), 10);
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ");
  return `/proc/${Number.parseInt(child, 10)}/mountinfo`;
}

function mountsOn(node) {
  try {
    mountInfos[node] ??= mountInfoOf(node);
    return readFileSync(mountInfos[node], "utf8").split("\n");
  } catch {
    mountInfos[node] = undefined;
    return []; // the node has no power
  }
}

function devicesOf(fsid) {
  try {
    return readdirSync(`/sys/fs/btrfs/${fsid}/devices`);
  } catch {
    return []; // mounted nowhere
  }
}

/** The kernel tells a btrfs by the path that one of its devices was mounted from. */
function isMounted(lines, handle, names) {
  return lines.some((line) => {
    const [type, source = ""] = (line.split(" - ")[1] ?? "").split(" ");
    return type === "btrfs" && (source.includes(`/${handle}/`) || names.includes(source.split("/").at(-1)));
  });
}

const seen = Object.fromEntries(Object.keys(fsids).map((handle) => [handle, { changes: [], heldUntilMs: [] }]));
let samples = 0;
let longestGapMs = 0;
let lastMs = performance.now();
let lastLookMs = Date.now();
while (receiveMessageOnPort(parentPort) === undefined) {
  const lookMs = Date.now();
  const devices = Object.entries(fsids).map(([handle, fsid]) => [handle, devicesOf(fsid)]);
  const mounts = Object.keys(holders).map((node) => [node, mountsOn(node)]);
  for (const [handle, names] of devices) {
    const nodes = mounts.filter(([, lines]) => isMounted(lines, handle, names)).map(([node]) => node);
    const { changes, heldUntilMs } = seen[handle];
    if (changes.length > 0 && changes.at(-1).join() === nodes.join()) continue;
    changes.push(nodes);
    heldUntilMs.push(lastLookMs);
  }
  if (samples === 0) parentPort.postMessage("looking");
  samples += 1;
  lastLookMs = lookMs;
  const nowMs = performance.now();
  longestGapMs = Math.max(longestGapMs, nowMs - lastMs);
  lastMs = nowMs;
  Atomics.wait(pause, 0, 0, intervalMs);
}
const told = Object.entries(seen).map(([handle, sightings]) => [handle, { ...sightings, samples, longestGapMs }]);
parentPort.postMessage(Object.fromEntries(told));
