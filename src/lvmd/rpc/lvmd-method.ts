// One method of lvmd: what was refused or has failed becomes a gRPC status, and is logged once.
import type { handleUnaryCall } from "@grpc/grpc-js";
import type { Refusal } from "../../csi/refusal.ts";
import { type Serving, unaryMethod } from "../../csi/unary-method.ts";
import { refuseUnreadable } from "./readable-requests.ts";

/** Bound to a process' serving; `name` is the method's in the log and in metrics. */
export type LvmdMethod = <Request extends object, Response>(
  name: string,
  answer: (request: Request) => Promise<Response | Refusal>,
) => handleUnaryCall<Request, Response>;

export function lvmdMethods(serving: Serving): LvmdMethod {
  return (name, answer) => unaryMethod(serving, name, async (request) => refuseUnreadable(request) ?? answer(request));
}
