// lvmd's wiring: settings → LVM and what is known of it → services on the socket.
import { mkdirSync } from "node:fs";
import { systemClock } from "../platform/process/clock.ts";
import { createCommandPort } from "../platform/process/effects/command-port.ts";
import { effectsOf } from "../platform/process/effects/effects.ts";
import { createFilePort } from "../platform/process/effects/file-port.ts";
import { type GrpcService, serveOnSocket } from "../platform/process/grpc.ts";
import type { Logger } from "../platform/process/log.ts";
import { startMetricsServer } from "../platform/process/metrics/metrics-server.ts";
import type { Stoppable } from "../platform/process/shutdown.ts";
import type { LvmdConfig } from "./config.ts";
import { readDiskFigures } from "./devices.ts";
import { followChanges } from "./lvm/follow-changes.ts";
import { createGroupQueues, createLvm } from "./lvm/lvm.ts";
import { refusalOfLvmError } from "./lvm/lvm-error.ts";
import { createReportCache, type ReportCache } from "./lvm/report-cache.ts";
import { createLvmdMetrics, type LvmdMetrics, registerLvmdGauges } from "./metrics.ts";
import { createPoolReconciler, followPools } from "./pools/thin-pools.ts";
import { createHealthService, lvmdProblem } from "./rpc/health-service.ts";
import { createLvmdService } from "./rpc/lvmd-service.ts";
import { lvmdMethods } from "./rpc/methods.ts";
import { createLVService, createVGService } from "./rpc/topolvm-services.ts";
import { type FollowedSettings, followSettings } from "./settings/follow-settings.ts";
import { settleReductions } from "./volumes/reduce/reduce-volume.ts";
import { createReductionsUnderWay, loadReduceTokens, type ReduceTokens } from "./volumes/reduce/reductions.ts";
import type { VolumeHost } from "./volumes/volume-host.ts";

/** Starts everything, in this order; stop it in reverse. Throws where the settings cannot be used at all. */
export async function startLvmd(config: LvmdConfig, log: Logger): Promise<Stoppable[]> {
  const settings = followSettings(config.settingsFile, log);
  const metrics = createLvmdMetrics();
  const host = createHost(config, settings, metrics, log);
  const { reports, commands } = host;
  registerLvmdGauges(metrics.registry, {
    settings: settings.now,
    report: reports.latest,
    strandedCommands: commands.strandedChildren,
  });
  mkdirSync(config.stateDirectory, { recursive: true, mode: 0o700 });
  const tokens = loadReduceTokens(config.stateDirectory, host.files, systemClock);
  const problem = (): string | undefined => lvmdProblem(settings, reports);
  const services = createServices(host, tokens, metrics, settings, problem);

  const reconciling = createPoolReconciler(host);
  reports.onChange(reconciling.look);
  settings.onChange(reconciling.look);
  // What is wrong with a pool is put right before the first call is answered: they wait in the same queue.
  await reports.fresh().catch((err: unknown) => log.error({ err }, "LVM gave no report; it is asked again"));
  void settleReductions(host, tokens);
  const following = followChanges({ reports, backupDirectory: config.backupDirectory, log });
  const pools = followPools({ reports, figures: readDiskFigures, log });
  const { socketName } = settings.now();
  const grpc = await serveOnSocket(socketName, services);
  const http = await startMetricsServer({
    host: config.httpHost,
    port: config.httpPort,
    registry: metrics.registry,
    unhealthy: () => undefined,
    notReady: problem,
  });
  log.info({ socketName, httpPort: http.port }, "serving");
  return [
    { name: "settings", stop: () => settings.stop() },
    { name: "reports", stop: () => reports.stop() },
    { name: "changes of LVM", stop: () => following.stop() },
    { name: "thin pools", stop: () => pools.stop() },
    { name: "HTTP server", stop: () => http.close() },
    { name: "gRPC services", stop: () => grpc.close() },
  ];
}

function createHost(config: LvmdConfig, settings: FollowedSettings, metrics: LvmdMetrics, log: Logger): VolumeHost {
  const effects = effectsOf(config);
  const commands = createCommandPort(effects);
  const lvm = createLvm({
    commands,
    prefix: () => settings.now().commandPrefix,
    limitMs: config.commandLimitMs,
    ended: (command, outcome, durationMs) => {
      metrics.commandEnded(command, outcome, durationMs);
      // What LVM refuses was thought to be possible: something is not as it was.
      if (outcome !== "ok" && command !== "fullreport") reports.expectChange();
    },
  });
  const queues = createGroupQueues();
  const reports: ReportCache = createReportCache(lvm, queues.isBusy, log);
  return {
    settings: settings.now,
    lvm,
    queues,
    reports,
    reductions: createReductionsUnderWay(),
    poolProblems: new Map(),
    waitingTags: new Map(),
    commands,
    files: createFilePort(effects),
    log,
  };
}

/** Their streams carry each change. */
function createServices(
  host: VolumeHost,
  tokens: ReduceTokens,
  metrics: LvmdMetrics,
  settings: FollowedSettings,
  problem: () => string | undefined,
): GrpcService[] {
  const method = lvmdMethods({ log: host.log, refusalOf: refusalOfLvmError, answered: metrics.callAnswered });
  const groups = createVGService(method, host);
  const own = createLvmdService(method, host, tokens);
  const health = createHealthService(problem);
  const reportChange = (): void => {
    for (const { changed } of [groups, own, health]) changed();
  };
  host.reports.onChange(reportChange);
  settings.onChange(reportChange);
  return [createLVService(method, host, tokens), groups, own, health];
}
