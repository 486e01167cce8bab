// One method, of CSI or of lvmd, as grpc-js serves it: the answer or the refusal goes out, a throw becomes a gRPC status. Here both are
// logged, once; of the request nothing is logged but the volume's id or name, since it may carry secrets and tokens.
import { type handleUnaryCall, status } from "@grpc/grpc-js";
import { Refusal, type RefusalCode } from "../../contracts/csi/refusal.ts";
import { shownVolumeId } from "../../contracts/identity.ts";
import { KubeError, type KubeErrorReason } from "../kube/kube-error.ts";
import type { Logger } from "../process/log.ts";

export interface Serving {
  readonly log: Logger;
  /** What a throw of the process' own ports means to the caller; undefined: another throw. */
  readonly refusalOf: (error: unknown) => Refusal | undefined;
  /** After each call. */
  readonly answered: (method: string, code: RefusalCode | "OK", durationMs: number) => void;
}

/** `method` names it in the log. */
export function unaryMethod<Request extends object, Response>(
  serving: Serving,
  method: string,
  answer: (request: Request) => Promise<Response>,
): handleUnaryCall<Request, Response> {
  return ({ request }, callback) => {
    const startedMs = performance.now();
    const answered = (code: RefusalCode | "OK") => serving.answered(method, code, performance.now() - startedMs);
    const refuse = (error: unknown) => {
      const { code, message } = refusalOf(serving, { method, volume: volumeOf(request) }, error);
      answered(code);
      callback({ code: status[code], details: message });
    };
    void answerTo(answer, request).then((response) => {
      answered("OK");
      callback(null, response);
    }, refuse);
  };
}

/** What is thrown before the first await is a refusal like any other. */
async function answerTo<Request, Response>(answer: (request: Request) => Promise<Response>, request: Request) {
  return answer(request);
}

function volumeOf(request: object): string | undefined {
  const id = "volumeId" in request ? request.volumeId : "name" in request ? request.name : undefined;
  return typeof id === "string" ? shownVolumeId(id) : undefined;
}

/** Logged here, once. */
function refusalOf({ log, refusalOf: known }: Serving, call: object, error: unknown): Refusal {
  if (error instanceof Refusal) {
    log.info({ ...call, code: error.code, reason: error.message }, "a call was refused");
    return error;
  }
  const refusal = known(error) ?? refusalOfKubeError(error) ?? unforeseen(error);
  log.warn({ ...call, code: refusal.code, err: error }, "a call failed");
  return refusal;
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
