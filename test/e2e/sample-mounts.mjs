// A thread that looks, again and again, on which nodes a btrfs is mounted: nothing that the test does keeps it from looking. It
// says when it has looked for the first time, and in the end each change of the set of nodes, and how long it looked away at most.
import { readdirSync, readFileSync } from "node:fs";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";

const { mountInfos, fsid, handle, intervalMs } = workerData;
const pause = new Int32Array(new SharedArrayBuffer(4));

function devices() {
  try {
    return readdirSync(`/sys/fs/btrfs/${fsid}/devices`);
  } catch {
    return []; // mounted nowhere
  }
}

/** The kernel tells a btrfs by the path that one of its devices was mounted from. */
function isMounted(path, names) {
  let lines;
  try {
    lines = readFileSync(path, "utf8").split("\n");
  } catch {
    return false; // the node has no power
  }
  return lines.some((line) => {
    const [type, source = ""] = (line.split(" - ")[1] ?? "").split(" ");
    return type === "btrfs" && (source.includes(`/${handle}/`) || names.includes(source.split("/").at(-1)));
  });
}

const changes = [];
let samples = 0;
let longestGapMs = 0;
let lastMs = performance.now();
while (receiveMessageOnPort(parentPort) === undefined) {
  const names = devices();
  const nodes = Object.keys(mountInfos).filter((node) => isMounted(mountInfos[node], names));
  if (samples === 0 || changes.at(-1).join() !== nodes.join()) changes.push(nodes);
  if (samples === 0) parentPort.postMessage("looking");
  samples += 1;
  const nowMs = performance.now();
  longestGapMs = Math.max(longestGapMs, nowMs - lastMs);
  lastMs = nowMs;
  Atomics.wait(pause, 0, 0, intervalMs);
}
parentPort.postMessage({ changes, samples, longestGapMs });
