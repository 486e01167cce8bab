// grpc.health.v1.Health: SERVING means that every class can be used now.
import { isDeepStrictEqual } from "node:util";
import { status } from "@grpc/grpc-js";
import {
  type HealthServer,
  HealthService,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../contracts/gen/grpc/health/v1/health.ts";
import type { GrpcService } from "../../platform/process/grpc.ts";
import { classState } from "../classes/class-state.ts";
import type { ReportCache } from "../lvm/report-cache.ts";
import type { FollowedSettings } from "../settings/follow-settings.ts";
import { impairment } from "../volumes/sizes.ts";
import { isUnusable, unusable } from "../volumes/volume-host.ts";
import { createNewestStreams } from "./methods.ts";

/** "" is all of them. */
const SERVICES = ["", "proto.LVService", "proto.VGService", "tidemark.lvmd.v1.Lvmd"];

/** `problem`: what is wrong now; undefined: nothing. */
export function createHealthService(problem: () => string | undefined): GrpcService & { changed(): void } {
  const answer = (): { status: Serving } => ({
    status: problem() === undefined ? Serving.SERVING : Serving.NOT_SERVING,
  });
  const streams = createNewestStreams(answer, isDeepStrictEqual);
  const implementation: HealthServer = {
    check: ({ request: { service } }, callback) => {
      if (SERVICES.includes(service)) callback(null, answer());
      else callback({ code: status.NOT_FOUND, details: `lvmd has no service "${service}"` });
    },
    watch: (call) => {
      if (SERVICES.includes(call.request.service)) streams.open(call);
      else call.write({ status: Serving.SERVICE_UNKNOWN });
    },
  };
  return { definition: HealthService, implementation, changed: streams.changed };
}

/** What is wrong with lvmd or with what it works on, as one sentence; undefined: nothing. */
export function lvmdProblem(settings: FollowedSettings, reports: ReportCache): string | undefined {
  return settings.problem() ?? reports.problem() ?? classProblem(settings, reports);
}

function classProblem(settings: FollowedSettings, reports: ReportCache): string | undefined {
  for (const deviceClass of settings.now().deviceClasses) {
    const state = classState(reports.latest(), deviceClass);
    const problem = isUnusable(state) ? unusable(state).message : impairment(state);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
