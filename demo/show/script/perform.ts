// One run from beginning to end: processes, claim and policy, writers, the acts, verification. What it finds goes into the log;
// what it makes lies in the run directory, and is not removed here.
import { realpathSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { connectionOf, readConnectionSettings } from "../../../src/platform/kube/client/kube-config.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import type { DemoConfig } from "../config.ts";
import { untilMounted, untilUnmounted } from "../run/mounting.ts";
import { startObserver } from "../run/observer.ts";
import { type Processes, startProcesses } from "../run/processes.ts";
import type { RunClock } from "../run/run-clock.ts";
import type { RunLog } from "../run/run-log.ts";
import { type SampledPlaces, startSampling } from "../run/sampling.ts";
import { btrfsSpaceReader, simulatedSpaceReader } from "../run/space.ts";
import { type DemoSummary, summarize } from "../views/summary.ts";
import { capacityFileOf } from "../writers/simulated-room.ts";
import { followWriter, type Writer } from "../writers/writer.ts";
import { applyClaim, applyPolicy, type DemoVolume, readPolicy, setMounted } from "./demo-claim.ts";
import type { FixedVolume } from "./fixed-volume.ts";
import type { Places } from "./places.ts";
import { ACTS } from "./script.ts";
import { type Stage, tell } from "./stage.ts";
import { dropCaches, type Verification, verifyFiles } from "./verify.ts";

export const NOMINAL_BYTES = 10 * GIB;
export const INITIAL_BYTES = GIB;
/** As in the policy's rule extend-at-80. */
const EXTEND_AT_RATIO = 0.8;
const REAL_SAMPLE_INTERVAL_MS = 5;
/** A simulated filesystem is measured by adding up its files. */
const SIMULATED_SAMPLE_INTERVAL_MS = 10;

export interface Performance {
  readonly config: DemoConfig;
  readonly runDirectory: string;
  readonly fixedVolume: FixedVolume;
  readonly storage: "real" | "simulated";
  readonly log: RunLog;
  readonly clock: RunClock;
  readonly ending: AbortSignal;
  /** Shows in the views where the user can look. */
  readonly announce: (places: Places) => void;
}

/** Everything is left mounted and running at its end. */
export async function perform(performance: Performance): Promise<DemoSummary> {
  const { config, runDirectory, storage, ending, announce } = performance;
  tell(performance, "act", "The processes start: control plane, policy-engine, operator, agent");
  const processes = await startProcesses({
    runDirectory,
    storage,
    port: config.port,
    initialSizeBytes: INITIAL_BYTES,
  });
  announce({
    kubeconfig: join(processes.credentialsDirectory, "config"),
    metricsUrls: processes.metricsUrls,
  });
  const playing = play(performance, processes);
  const summary = await Promise.race([playing, processes.failure]);
  ending.throwIfAborted();
  return summary;
}

async function play(performance: Performance, processes: Processes): Promise<DemoSummary> {
  const { config, runDirectory, storage, fixedVolume, log, clock, ending, announce } = performance;
  const { server, credentialsDirectory } = processes;
  const connection = await connectionOf(readConnectionSettings({ server, credentials: credentialsDirectory }, {}));
  const client = createKubeClient({ connection, effects: directEffects });
  const observer = await startObserver(client, log, clock, createLogger("demo", "silent"));
  const policy = readPolicy(config.policyFile);
  const policyFile = join(runDirectory, "demo-breathing.yaml");
  await processes.ready();
  await applyPolicy(client, policy);
  await applyClaim(client, NOMINAL_BYTES);
  const volume = await untilMounted(client, processes.kubeletDirectory, storage, ending);
  const shortPath = join(runDirectory, "volume"); // what kubelet mounts at is too long for a line
  symlinkSync(volume.mountPath, shortPath);
  announce({ mountPath: shortPath, storage });
  tell(
    performance,
    "note",
    "A 10Gi claim (class tidemark-loop, initialSize 1Gi) is mounted; next to it 1Gi without Tidemark",
  );
  tell(performance, "note", "Its policy has seconds where the ready-made one has hours (policies/demo-breathing.yaml)");

  clock.begin();
  const sampling = startSampling(placesOf(performance, processes, volume), log, clock);
  const [managedWriter, fixedWriter] = startWriters(performance, processes, volume);
  const stage: Stage = {
    ...{ log, clock, client, processes, observer, storage, volume, fixedVolume, managedWriter, fixedWriter },
    ...{ policy, policyFile, bytesPerSecond: config.bytesPerSecond, nominalBytes: NOMINAL_BYTES, ending },
  };
  try {
    for (const act of ACTS) {
      tell(stage, "act", act.title, act.label);
      await act.play(stage);
    }
    sampling.stopSpace();
    await Promise.all([managedWriter.stop(), fixedWriter.stop()]);
    const verification = await verify(stage);
    sampling.stop();
    log.endedAtMs = clock.nowMs();
    return summaryOf(stage, verification);
  } finally {
    sampling.stop();
    await observer.stop();
    await client.close();
  }
}

function summaryOf({ log, storage, managedWriter }: Stage, verification: Verification): DemoSummary {
  return summarize(log, {
    ...{ storage, fsType: "btrfs", nominalBytes: NOMINAL_BYTES, extendAtRatio: EXTEND_AT_RATIO, verification },
    writer: managedWriter.totals(),
    writerErrors: managedWriter.errors(),
  });
}

function placesOf({ storage }: Performance, processes: Processes, volume: DemoVolume): SampledPlaces {
  if (storage === "real")
    return {
      readSpace: btrfsSpaceReader(volume.mountPath, volume.fsid),
      intervalMs: REAL_SAMPLE_INTERVAL_MS,
      backingDirectory: processes.memberDirectory,
    };
  const directory = realpathSync(volume.mountPath);
  return {
    readSpace: simulatedSpaceReader(directory, capacityFileOf(directory)),
    intervalMs: SIMULATED_SAMPLE_INTERVAL_MS,
    backingDirectory: directory,
  };
}

/** The managed one's and the unmanaged one's: the same program at the same rate. */
function startWriters(performance: Performance, processes: Processes, volume: DemoVolume): [Writer, Writer] {
  const { config, storage, fixedVolume, log, clock } = performance;
  const flags = (path: string, capacityFile: string | undefined): string[] => [
    ...["--directory", path, "--rate-bytes", String(config.bytesPerSecond)],
    ...(capacityFile === undefined ? [] : ["--capacity-file", capacityFile]),
  ];
  const capacityFile = storage === "real" ? undefined : capacityFileOf(realpathSync(volume.mountPath));
  const refused = new Set<string>();
  const managed = followWriter(processes.startWriter("writer", flags(volume.mountPath, capacityFile)), (error) => {
    // It tries on, many times a second.
    if (!refused.has(error.code))
      tell(performance, "fault", `The managed filesystem refuses a write: ${error.message}`);
    refused.add(error.code);
  });
  const fixedFlags = [...flags(fixedVolume.path, fixedVolume.capacityFile), "--stop-when-full"];
  const fixed = followWriter(processes.startWriter("fixed-writer", fixedFlags), ({ atMs, code }) => {
    if (code !== "ENOSPC") return;
    log.fixedVolumeFullAtMs = clock.ofTimestamp(new Date(atMs).toISOString());
    tell(
      performance,
      "fault",
      `The unmanaged filesystem: disk full at ${(log.fixedVolumeFullAtMs / 1000).toFixed(1)} s`,
    );
  });
  return [managed, fixed];
}

/** Through the disk: unmounted, caches dropped, mounted, read. */
async function verify(stage: Stage): Promise<Verification> {
  const { client, processes, storage, volume, managedWriter, ending } = stage;
  tell(stage, "act", "Unmount, drop caches, mount, verify every remaining file", "verified");
  await setMounted(client, NOMINAL_BYTES, false);
  await untilUnmounted(volume, processes.kubeletDirectory, storage, ending);
  if (storage === "real") await dropCaches();
  await setMounted(client, NOMINAL_BYTES, true);
  await untilMounted(client, processes.kubeletDirectory, storage, ending);
  const verification = await verifyFiles(volume.mountPath, managedWriter.manifest);
  const { filesVerified, corruptFiles, problems } = verification;
  tell(
    stage,
    "note",
    `${filesVerified} files verified, ${corruptFiles} corrupt${problems.map((text) => `; ${text}`).join("")}`,
  );
  return verification;
}
