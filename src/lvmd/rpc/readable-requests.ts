// A request whose numbers no volume can have (beyond 2^53) is answered with INVALID_ARGUMENT, not with gRPC's INTERNAL for bytes that it
// cannot read.
import type { ServiceDefinition } from "@grpc/grpc-js";
import { Refusal } from "../../csi/refusal.ts";

/** In a request's place: why it could not be read. */
const UNREADABLE = Symbol("unreadable");

/** The definition with requests that are always there; `refuseUnreadable` tells the bad ones. */
export function readableRequests<Definition extends ServiceDefinition>(definition: Definition): Definition {
  const methods = Object.entries(definition).map(([name, method]) => {
    const requestDeserialize = (bytes: Buffer): unknown => {
      try {
        return method.requestDeserialize(bytes);
      } catch (error) {
        return { [UNREADABLE]: (error as Error).message };
      }
    };
    return [name, { ...method, requestDeserialize }];
  });
  return Object.fromEntries(methods) as Definition;
}

export function refuseUnreadable(request: object): Refusal | undefined {
  const problem = (request as { readonly [UNREADABLE]?: string })[UNREADABLE];
  return problem === undefined ? undefined : new Refusal("INVALID_ARGUMENT", `the request cannot be read: ${problem}`);
}
