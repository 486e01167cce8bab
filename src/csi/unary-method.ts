// One method, of CSI or of lvmd, as grpc-js serves it: the answer or the refusal goes out, a throw becomes a gRPC status. Here both are
// logged, once; of the request nothing is logged but the volume's id or name, since it may carry secrets and tokens.
import { type handleUnaryCall, status } from "@grpc/grpc-js";
import { KubeError, type KubeErrorReason } from "../kube/kube-error.ts";
import type { Logger } from "../process/log.ts";
import { Refusal, type RefusalCode } from "./refusal.ts";
import { shownVolumeId } from "./volume-id.ts";

export interface Serving {
  readonly log: Logger;
  /** What a throw of the process' own ports means to the caller; undefined: it is none of them. */
  readonly refusalOf: (error: unknown) => Refusal | undefined;
  /** After each call. */
  readonly answered: (method: string, code: RefusalCode | "OK", durationMs: number) => void;
}

/** `method` names it in the log. */
export function unaryMethod<Request extends object, Response>(
  serving: Serving,
  method: string,
  answer: (request: Request) => Promise<Response | Refusal>,
): handleUnaryCall<Request, Response> {
  return ({ request }, callback) => {
    const startedMs = performance.now();
    const volume = volumeOf(request);
    void answerOrRefuse(serving, { method, volume }, () => answer(request)).then((result) => {
      const refused = result instanceof Refusal;
      serving.answered(method, refused ? result.code : "OK", performance.now() - startedMs);
      if (refused) callback({ code: status[result.code], details: result.message });
      else callback(null, result);
    });
  };
}

function volumeOf(request: object): string | undefined {
  const id = "volumeId" in request ? request.volumeId : "name" in request ? request.name : undefined;
  return typeof id === "string" ? shownVolumeId(id) : undefined;
}

async function answerOrRefuse<Response>(
  { log, refusalOf }: Serving,
  call: { readonly method: string; readonly volume: string | undefined },
  answer: () => Promise<Response | Refusal>,
): Promise<Response | Refusal> {
  try {
    const result = await answer();
    if (result instanceof Refusal)
      log.info({ ...call, code: result.code, reason: result.message }, "a call was refused");
    return result;
  } catch (error) {
    const refusal = refusalOf(error) ?? refusalOfKubeError(error) ?? unforeseen(error);
    log.warn({ ...call, code: refusal.code, err: error }, "a call failed");
    return refusal;
  }
}

const CODE_OF_REASON: Readonly<Partial<Record<KubeErrorReason, RefusalCode>>> = {
  Conflict: "ABORTED",
  Unreachable: "UNAVAILABLE",
  TooManyRequests: "UNAVAILABLE",
  Invalid: "INVALID_ARGUMENT",
};

function refusalOfKubeError(error: unknown): Refusal | undefined {
  if (!(error instanceof KubeError)) return undefined;
  return new Refusal(CODE_OF_REASON[error.reason] ?? "INTERNAL", `the API server could not be used: ${error.message}`);
}

function unforeseen(error: unknown): Refusal {
  return new Refusal("INTERNAL", error instanceof Error ? error.message : String(error));
}
