// One CSI method as it is served: switches and secrets are looked at first, then the work is done, logged and answered, unless a
// fault has it otherwise.
import { setTimeout as sleep } from "node:timers/promises";
import { type handleUnaryCall, status } from "@grpc/grpc-js";
import { Refusal } from "../../src/contracts/csi/refusal.ts";
import type { KeyedQueue } from "../../src/platform/process/async/keyed-queue.ts";
import type { Call, Faults } from "./faults.ts";
import { logRpc } from "./rpc-log.ts";
import { type Fault, type RpcName, readSwitches, type Switches } from "./switches.ts";
import type { VolumeFiles } from "./volume-files.ts";

export interface DriverParts {
  readonly driverName: string;
  readonly directory: string;
  /** The node's name, or "controller". */
  readonly part: string;
  readonly files: VolumeFiles;
  readonly faults: Faults;
  /** One call at a time for each volume. */
  readonly queues: KeyedQueue;
}

interface Refused {
  readonly code: keyof typeof status;
  readonly message: string;
}

export function rpcMethod<Request extends object, Response extends object>(
  parts: DriverParts,
  rpc: RpcName,
  work: (request: Request, switches: Switches) => Promise<Response | Refusal>,
): handleUnaryCall<Request, Response> {
  return ({ request }, callback) => {
    const [startMs, start] = [Date.now(), performance.now()];
    const call: Call = { rpc, part: parts.part, volumeId: textOf(request, "volumeId") };
    void answerOf(parts, call, request, work).then(({ fault, answer }) => {
      const refused = isRefused(answer) ? { code: answer.code, message: answer.message } : undefined;
      const durationMs = performance.now() - start;
      const said = { ...call, name: textOf(request, "name"), code: refused?.code ?? "OK", message: refused?.message };
      logRpc(parts.directory, { startMs, durationMs, ...said, fault });
      if (fault?.loseReply === "unanswered") return;
      if (fault?.loseReply === "cut") callback({ code: status.UNAVAILABLE, details: "the reply was lost" });
      else if (isRefused(answer)) callback({ code: status[answer.code], details: answer.message });
      else callback(null, answer);
    });
  };
}

async function answerOf<Request extends object, Response>(
  { directory, faults, queues }: DriverParts,
  call: Call,
  request: Request,
  work: (request: Request, switches: Switches) => Promise<Response | Refusal>,
): Promise<{ fault: Fault | undefined; answer: Response | Refused }> {
  let fault: Fault | undefined;
  try {
    const switches = readSwitches(directory);
    fault = faults.meeting(call, switches);
    if (fault?.delayMs !== undefined) await sleep(fault.delayMs);
    if (fault?.refuse !== undefined)
      return { fault, answer: { code: fault.refuse, message: "a switch of the member driver has it refused" } };
    const bare = secretMissing(call.rpc, request, switches);
    if (bare !== undefined) return { fault, answer: bare };
    const working = (): Promise<Response | Refusal> => work(request, switches);
    return { fault, answer: await (call.volumeId === undefined ? working() : queues.run(call.volumeId, working)) };
  } catch (error) {
    return { fault, answer: { code: "INTERNAL", message: error instanceof Error ? error.message : String(error) } };
  }
}

function secretMissing(rpc: RpcName, request: object, { secrets }: Switches): Refused | undefined {
  const brought = "secrets" in request ? (request.secrets as Record<string, string>) : {};
  const missing = Object.entries(secrets[rpc] ?? {}).find(([key, value]) => brought[key] !== value);
  if (missing === undefined) return undefined;
  return { code: "UNAUTHENTICATED", message: `${rpc} needs secret "${missing[0]}", and it is missing or wrong` };
}

function isRefused(answer: object): answer is Refused {
  return answer instanceof Refusal || ("code" in answer && "message" in answer);
}

function textOf(request: object, field: "volumeId" | "name"): string | undefined {
  const value = (request as Record<string, unknown>)[field];
  return typeof value === "string" && value !== "" ? value : undefined;
}
