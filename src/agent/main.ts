// The agent's wiring: config → adapters → this node's volumes, CSI services and streams of samples → signal.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Driver, LOCAL, SPAN } from "../csi/driver.ts";
import { createIdentity } from "../csi/identity.ts";
import { createKubeClient } from "../kube/client/http-client.ts";
import { connectionOf } from "../kube/client/kube-config.ts";
import { systemClock as clock } from "../process/clock.ts";
import { createCommandPort } from "../process/command-port.ts";
import { effectsOf } from "../process/fault-effects.ts";
import { createFilePort } from "../process/file-port.ts";
import type { GrpcService } from "../process/grpc.ts";
import { createLogger, type Logger } from "../process/log.ts";
import { type Stoppable, stopAll, untilSignal } from "../process/shutdown.ts";
import { chooseStorage } from "./choose-storage.ts";
import { type AgentConfig, readConfig } from "./config.ts";
import { refusalOfError } from "./csi/csi-error.ts";
import { createCsiNode } from "./csi/csi-node.ts";
import { createNodePlace } from "./csi/node-place.ts";
import { watchEngineEndpoints } from "./engine-link/engine-endpoints.ts";
import { readPlainLink, securedLink } from "./engine-link/engine-link.ts";
import { openEngineStreams } from "./engine-link/engine-streams.ts";
import { startLogicalVolumes } from "./logical-volumes/logical-volumes.ts";
import { openNodeLvm } from "./lvmd-client/node-lvm.ts";
import { registerOrphanGauge } from "./metrics.ts";
import { reportNodeStorage } from "./node-storage/report-node-storage.ts";
import { checkPlaces, recordPlaces } from "./own-places.ts";
import { type ServedDriver, serveNode } from "./serve-node.ts";
import { keepThinPools } from "./thin-pool/keep-thin-pools.ts";
import { createNodeVolumes } from "./volumes/node-volumes.ts";

export async function runAgent(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("agent", config.logLevel);
  const started = await startAgent(config, log);
  await untilSignal();
  await stopAll(started, log);
}

/** Starts everything, in this order; stop it in reverse. Nothing is unmounted by a stop: pods go on. */
export async function startAgent(config: AgentConfig, log: Logger): Promise<Stoppable[]> {
  const { nodeName, kubeletDirectory, stateDirectory } = config;
  const effects = effectsOf(config);
  const commands = createCommandPort(effects);
  checkPlaces(config);
  const files = await recordPlaces(config, createFilePort(effects), log);
  const client = createKubeClient({
    connection: await connectionOf(config.connection),
    effects,
    log,
    userAgent: "tidemark-agent",
  });
  const recordDirectory = join(stateDirectory, "volumes");
  const lockDirectory = join(stateDirectory, "locks");
  for (const directory of [recordDirectory, lockDirectory]) mkdirSync(directory, { recursive: true, mode: 0o700 });

  const lvm = config.lvmdSocket === undefined ? undefined : openNodeLvm(config.lvmdSocket, effects, log);
  const { storage, podMounts } = chooseStorage(config, { client, lvm, effects, commands, files, clock, log });
  const { engineTlsDirectory, engineTokenFile } = config;
  const streams = openEngineStreams(config.engines, {
    nodeName,
    link:
      engineTlsDirectory === undefined || engineTokenFile === undefined
        ? readPlainLink
        : securedLink(engineTlsDirectory, engineTokenFile),
    highestEpoch: () => volumes.highestEpoch(),
    newest: () => volumes.samples(),
    guided: (guidance) => volumes.guided(guidance),
    effects,
    log,
  });
  const volumes = createNodeVolumes({
    nodeName,
    recordDirectory,
    lockDirectory,
    kubeletDirectory,
    samplerWorkerPath: config.samplerWorkerPath,
    storage,
    client,
    commands,
    files,
    clock,
    log,
    offer: streams.offer,
    connectedEngines: streams.connected,
    resized: (handle) => logicalVolumes?.look(handle),
  });
  const { csi, exchange, states, metrics } = volumes;
  const logicalVolumes =
    lvm && startLogicalVolumes({ nodeName, lvm, lanes: csi.lanes, ...exchange, client, clock, log });
  if (logicalVolumes !== undefined) registerOrphanGauge(metrics.registry, logicalVolumes.orphanCounts);
  const thinPools = lvm && keepThinPools({ nodeName, lvm, client, registry: metrics.registry, clock, log });
  const engines = config.engineService && watchEngineEndpoints(client, config.engineService, streams.follow, log);
  const serving = { log, refusalOf: refusalOfError, answered: () => undefined };
  const place = createNodePlace(client, nodeName, clock);
  const servicesOf = (driver: Driver): GrpcService[] => [
    createIdentity(serving, driver, () => true),
    createCsiNode(serving, { driver, nodeName, place, kubeletDirectory, podMounts, ...volumes.csi }),
  ];
  volumes.start();
  const nodeStorage = reportNodeStorage({ nodeName, client, storage, classes: lvm?.classes, states, clock, log });
  const served = await serveNode(config, volumes, driversOf(config, servicesOf), client, log);
  return [
    { name: "hung threads", stop: () => endHungProcess(volumes.strandedThreads()) },
    { name: "API server client", stop: () => client.close() },
    { name: "calls to lvmd", stop: () => lvm?.stop() },
    { name: "logical volumes", stop: () => logicalVolumes?.stop() },
    ...(thinPools ?? []),
    { name: "report of the node's storage", stop: () => nodeStorage.stop() },
    ...volumes.stoppables,
    { name: "streams of samples", stop: () => streams.stop() },
    { name: "addresses of engines", stop: () => engines?.stop() },
    ...served,
  ];
}

function driversOf(
  { csiSocket, spanCsiSocket }: AgentConfig,
  servicesOf: (driver: Driver) => GrpcService[],
): ServedDriver[] {
  const local = { name: LOCAL.name, csiSocket, services: servicesOf(LOCAL) };
  if (spanCsiSocket === undefined) return [local];
  return [local, { name: SPAN.name, csiSocket: spanCsiSocket, services: servicesOf(SPAN) }];
}

/** A process with a thread that hangs in the kernel never exits by itself. */
function endHungProcess(strandedThreads: number): void {
  if (strandedThreads > 0) process.kill(process.pid, "SIGKILL");
}
