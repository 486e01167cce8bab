// The operator's part of a Filesystem's status, whole, as a server-side-apply configuration: the same for every backend. It holds for
// the version of the Filesystem that it was decided on. It words nothing. Pure: time comes in.
import { type ConditionType, datedCondition, type Statement } from "../api/condition.ts";
import type { ConsolidationNeed } from "../api/consolidation.ts";
import type { Filesystem, FilesystemStatus } from "../api/filesystem.ts";
import { API_VERSION } from "../api/names.ts";
import type { LastTrim } from "../api/trim.ts";
import type { ApplyConfiguration } from "../kube/client/client.ts";
import { versionOf } from "../kube/client/on-latest.ts";
import { formatQuantity } from "../units/quantity.ts";

export interface FilesystemFacts {
  readonly handle: string;
  /** Undefined: not known, and what was said last stands. */
  readonly capacityBytes: number | undefined;
  readonly nodeName: string | undefined;
  readonly lastTrim: LastTrim | undefined;
  /** Which pod wants it to have fewer members; undefined: none does. */
  readonly consolidation: ConsolidationNeed | undefined;
  readonly ready: Statement;
  /** Undefined: it is not so, for what `ready` says. */
  readonly reconciling: Statement | undefined;
  readonly stalled: Statement | undefined;
}

export function filesystemStatus(filesystem: Filesystem, facts: FilesystemFacts, nowMs: number): ApplyConfiguration {
  const { generation } = filesystem.metadata;
  const { handle, capacityBytes, nodeName, lastTrim, consolidation } = facts;
  const capacity = capacityBytes === undefined ? filesystem.status?.capacity : formatQuantity(capacityBytes);
  return {
    apiVersion: API_VERSION,
    kind: filesystem.kind,
    metadata: versionOf(filesystem),
    status: {
      observedGeneration: generation,
      ...(capacity === undefined ? {} : { capacity }),
      volumeHandle: handle,
      ...(nodeName === undefined ? {} : { nodeName }),
      ...(lastTrim === undefined ? {} : { lastTrim }),
      ...(consolidation === undefined ? {} : { consolidation }),
      conditions: statementsOf(facts).map((statement) =>
        datedCondition(statement, filesystem.status?.conditions, generation, nowMs),
      ),
    },
  };
}

/** What of a status is the operator's: all but what the policy-engine says. */
export function saidByOperator(status: Filesystem["status"]): Omit<FilesystemStatus, "scaling"> {
  const { scaling: _engines, ...own } = status ?? {};
  return own;
}

/** In this order: the column State shows the reason of the first that is true. */
function statementsOf({ ready, reconciling, stalled }: FilesystemFacts): Statement[] {
  const quiet = (type: ConditionType): Statement => ({ ...ready, type, status: "False" });
  return [stalled ?? quiet("Stalled"), reconciling ?? quiet("Reconciling"), ready];
}
