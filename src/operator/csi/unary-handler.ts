// One CSI method as grpc-js serves it: the answer or the refusal goes out, a throw becomes a gRPC status and is logged here,
// once. Calls for one volume never overlap: the second is told to come again, as the CSI specification asks.
import { type handleUnaryCall, type ServiceError, status } from "@grpc/grpc-js";
import { KubeError, type KubeErrorReason } from "../../kube/kube-error.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { Refusal, type RefusalCode } from "./refusal.ts";

export interface Serving {
  readonly log: Logger;
  readonly metrics: OperatorMetrics;
  readonly clock: Clock;
  /** Volumes with a call under way. */
  readonly busy: Set<string>;
}

/** `volumeOf` names the volume that a call is about; undefined: it changes none. */
export function unaryHandler<Request, Response>(
  serving: Serving,
  method: string,
  volumeOf: (request: Request) => string | undefined,
  answer: (request: Request) => Promise<Response | Refusal>,
): handleUnaryCall<Request, Response> {
  return (call, callback) => {
    const startedMs = serving.clock.monotonicMs();
    const volume = volumeOf(call.request);
    void answerAlone(serving, volume, () => answer(call.request))
      .catch((error: unknown) => refusalOfError(serving.log, method, volume, error))
      .then((result) => {
        const refused = result instanceof Refusal;
        serving.metrics.csiCall(method, refused ? result.code : "OK", serving.clock.monotonicMs() - startedMs);
        if (refused) callback(serviceError(result));
        else callback(null, result);
      });
  };
}

async function answerAlone<Response>(
  { busy }: Serving,
  volume: string | undefined,
  answer: () => Promise<Response | Refusal>,
): Promise<Response | Refusal> {
  if (volume === undefined) return answer();
  if (busy.has(volume)) return new Refusal("ABORTED", `another call for volume "${volume}" is under way`);
  busy.add(volume);
  try {
    return await answer();
  } finally {
    busy.delete(volume);
  }
}

const CODE_OF_REASON: Readonly<Partial<Record<KubeErrorReason, RefusalCode>>> = {
  Conflict: "ABORTED",
  Unreachable: "UNAVAILABLE",
  TooManyRequests: "UNAVAILABLE",
  Invalid: "INVALID_ARGUMENT",
};

function refusalOfError(log: Logger, method: string, volume: string | undefined, error: unknown): Refusal {
  log.error({ method, volume, err: error }, "a CSI call failed");
  if (error instanceof KubeError)
    return new Refusal(
      CODE_OF_REASON[error.reason] ?? "INTERNAL",
      `the API server could not be used: ${error.message}`,
    );
  return new Refusal("INTERNAL", error instanceof Error ? error.message : String(error));
}

function serviceError(refusal: Refusal): Partial<ServiceError> {
  return { code: status[refusal.code], details: refusal.message };
}
