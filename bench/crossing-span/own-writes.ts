// What of the audited writes belongs to an extend: those of Tidemark's pods in its time, Events and the leaders' leases aside. Pure.
import type { AuditedWrite } from "../../test/cluster/audit.ts";
import type { TimeSpan } from "./driver-time.ts";

/** Events are counted aside by definition; leases and a node's own measures are written at their own times. */
const AT_OWN_TIMES: readonly string[] = ["events", "leases", "nodestorages", "csistoragecapacities"];

/** "agent patch filesystemlayouts/status", … in their order. Refused ones are requests, too. */
export function ownWrites(writes: readonly AuditedWrite[], { fromMs, toMs }: TimeSpan): string[] {
  return writes
    .filter(({ objectRef }) => !AT_OWN_TIMES.includes(objectRef?.resource ?? ""))
    .filter(({ requestReceivedTimestamp: at }) => Date.parse(at) >= fromMs && Date.parse(at) <= toMs)
    .map(({ user, verb, objectRef, responseStatus }) => {
      const what = [objectRef?.resource, objectRef?.subresource].filter(Boolean).join("/");
      const refused = (responseStatus?.code ?? 0) >= 400 ? ` (${responseStatus?.code})` : "";
      return `${user.username.split(":").at(-1)} ${verb} ${what}${refused}`;
    });
}
