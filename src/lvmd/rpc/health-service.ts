// grpc.health.v1.Health, which tells the truth: SERVING means that every class can be used now.
import { isDeepStrictEqual } from "node:util";
import { status } from "@grpc/grpc-js";
import {
  type HealthServer,
  HealthService,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../gen/grpc/health/v1/health.ts";
import type { GrpcService } from "../../process/grpc.ts";
import { createNewestStreams } from "./newest-stream.ts";

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
