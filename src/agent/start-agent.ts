// The agent's wiring: adapters → this node's volumes, CSI services and streams of samples.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Driver, LOCAL, SPAN } from "../contracts/csi/driver.ts";
import { createIdentity } from "../platform/csi/identity.ts";
import { createKubeClient } from "../platform/kube/client/http-client.ts";
import { connectionOf } from "../platform/kube/client/kube-config.ts";
import { systemClock as clock } from "../platform/process/clock.ts";
import { createCommandPort } from "../platform/process/effects/command-port.ts";
import { effectsOf } from "../platform/process/effects/effects.ts";
import { createFilePort } from "../platform/process/effects/file-port.ts";
import type { GrpcService } from "../platform/process/grpc.ts";
import type { Logger } from "../platform/process/log.ts";
import type { Stoppable } from "../platform/process/shutdown.ts";
import { chooseStorage } from "./choose-storage.ts";
import type { AgentConfig } from "./config.ts";
import { createCsiNode, refusalOfError } from "./csi/csi-node.ts";
import { createNodePlace } from "./csi/kubelet-registration.ts";
import { watchEngineEndpoints } from "./engine-link/engine-endpoints.ts";
import { openEngineStreams, type ReadEngineLink, readPlainLink, securedLink } from "./engine-link/engine-stream.ts";
import { startLogicalVolumes } from "./logical-volumes/logical-volumes.ts";
import { openNodeLvm } from "./lvmd-client/node-lvm.ts";
import { registerOrphanGauge } from "./metrics.ts";
import { reportNodeStorage } from "./node-storage/node-storage-reporter.ts";
import { checkPlaces, recordPlaces } from "./own-places.ts";
import { type ServedDriver, serveNode } from "./serve-node.ts";
import { keepThinPools } from "./thin-pool/thin-pool-keeper.ts";
import { createNodeVolumes } from "./volumes/node-volumes.ts";

/** Starts everything, in this order; stop it in reverse. Nothing is unmounted by a stop: pods go on. */
export async function startAgent(config: AgentConfig, log: Logger): Promise<Stoppable[]> {
  const { nodeName, kubeletDirectory } = config;
  const { effects, commands, files, client, directories, lvm, storage, podMounts, mounts } = await openOutside(
    config,
    log,
  );
  const streams = openEngineStreams(config.engines, {
    nodeName,
    link: linkOf(config),
    highestEpoch: () => nodeVolumes.highestEpoch(),
    newest: () => nodeVolumes.samples(),
    guided: (guidance) => nodeVolumes.guided(guidance),
    effects,
    log,
  });
  const nodeVolumes = createNodeVolumes({
    nodeName,
    ...directories,
    kubeletDirectory,
    samplerWorkerPath: config.samplerWorkerPath,
    storage,
    mounts,
    client,
    commands,
    files,
    clock,
    log,
    offer: streams.offer,
    connectedEngines: streams.connected,
    resized: (handle) => logicalVolumes?.look(handle),
  });
  const { csi, exchange, volumes, metrics } = nodeVolumes;
  const logicalVolumes =
    lvm && startLogicalVolumes({ nodeName, lvm, queues: csi.queues, ...exchange, client, clock, log });
  if (logicalVolumes !== undefined) registerOrphanGauge(metrics.registry, logicalVolumes.orphanCounts);
  const thinPools = lvm && keepThinPools({ nodeName, lvm, client, registry: metrics.registry, clock, log });
  const engines = config.engineService && watchEngineEndpoints(client, config.engineService, streams.follow, log);
  const serving = { log, refusalOf: refusalOfError, answered: () => undefined };
  const place = createNodePlace(client, nodeName, clock);
  const servicesOf = (driver: Driver): GrpcService[] => [
    createIdentity(serving, driver, () => true),
    createCsiNode(serving, { driver, nodeName, place, kubeletDirectory, podMounts, ...csi }),
  ];
  nodeVolumes.start();
  const nodeStorage = reportNodeStorage({ nodeName, client, storage, classes: lvm?.classes, volumes, clock, log });
  const served = await serveNode(config, nodeVolumes, driversOf(config, servicesOf), client, log);
  return [
    { name: "hung threads", stop: () => endHungProcess(nodeVolumes.strandedThreads()) },
    { name: "readings of mounts", stop: () => mounts?.stop() },
    { name: "API server client", stop: () => client.close() },
    { name: "calls to lvmd", stop: () => lvm?.stop() },
    { name: "logical volumes", stop: () => logicalVolumes?.stop() },
    ...(thinPools ?? []),
    { name: "report of the node's storage", stop: () => nodeStorage.stop() },
    ...nodeVolumes.stoppables,
    { name: "streams of samples", stop: () => streams.stop() },
    { name: "addresses of engines", stop: () => engines?.stop() },
    ...served,
  ];
}

/** What the agent works on: the API server, its own directories, and the node's commands, files and disks. */
async function openOutside(config: AgentConfig, log: Logger) {
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
  const recordDirectory = join(config.stateDirectory, "volumes");
  const lockDirectory = join(config.stateDirectory, "locks");
  for (const directory of [recordDirectory, lockDirectory]) mkdirSync(directory, { recursive: true, mode: 0o700 });
  const directories = { recordDirectory, lockDirectory };
  const lvm = config.lvmdSocket === undefined ? undefined : openNodeLvm(config.lvmdSocket, effects, log);
  const chosen = chooseStorage(config, { client, lvm, effects, commands, files, clock, log });
  return { effects, commands, files, client, directories, lvm, ...chosen };
}

function linkOf({ engineTlsDirectory, engineTokenFile }: AgentConfig): ReadEngineLink {
  if (engineTlsDirectory === undefined || engineTokenFile === undefined) return readPlainLink;
  return securedLink(engineTlsDirectory, engineTokenFile);
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
